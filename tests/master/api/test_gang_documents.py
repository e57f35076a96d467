"""What `/v1/gangs` says of a gang: its pods, its groups and whose turn comes first."""

from dataclasses import asdict, replace

from master.api.gang_documents import GangHistory, gang_document, gang_summary, in_turn
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, PodUid
from topo.gangs.status import GangStatus, Transition
from topo.model.conditions.gang_states import GangState
from topo.model.ids import (
    DRAGONFLY,
    SCALE_OUT,
    SWITCHBOX,
    GroupName,
    GroupPath,
    Kind,
    NodeName,
)
from topo.model.rest.gangs import GangDocument
from topo.model.rest.placements import InsideDocument
from topo.model.rest.topology import NodeReasonDocument
from topo.placement.capacity.host import Host
from topo.placement.job.request import Eligibility, OtherGroup, Request, Toleration

NO_HISTORY = GangHistory()
TREE = {SWITCHBOX, DRAGONFLY}
NODES = [NodeName(f"n{number}") for number in range(4)]


def member(rank: int, **more: object) -> Member:
    return Member(uid=PodUid(f"u{rank}"), name=f"p{rank}", rank=rank, version="1", **more)  # type: ignore[arg-type]


def gang(*members: Member, name: str = "demo", group_size: int = 16) -> Gang:
    return Gang(
        id=GangId(name),
        namespace="default",
        name=name,
        kind="Job",
        binding=Binding.WHOLE,
        request=Request(pods=4, gpus_per_pod=8, group_size=group_size),
        at_least=4,
        priority=0,
        created_s=10.0,
        members=members,
        labelled={},
    )


def host(name: NodeName) -> Host | None:
    """Dragonflies of two in one switchbox; n9 is unknown."""
    if name not in NODES:
        return None
    fly = GroupName(f"fly-{NODES.index(name) // 2}")
    return Host(name=name, path=GroupPath((GroupName("box"), fly)), kinds=(SWITCHBOX, DRAGONFLY))


def stands(_found: Gang, **more: object) -> GangStatus:
    given = {"state": GangState.OPENED, "text": "", **more}
    return GangStatus(**given)  # type: ignore[arg-type]


def all_well(_: NodeName) -> tuple[NodeReasonDocument, ...]:
    return ()


def document(found: Gang, where: GangStatus, now_s: float = 10.0) -> GangDocument:
    summary = gang_summary(found, where, now_s, all_well)
    return gang_document(summary, found, where, host, kinds=TREE, history=NO_HISTORY)


def test_a_job_tells_what_it_lost_while_it_runs_and_since_when() -> None:
    """Of the nodes of its bound pods, each once; not of those that it is only planned on."""
    found = gang(
        member(0, node=NODES[0]),
        member(1, node=NODES[0]),
        member(2, node=NODES[2]),
        member(3, gated=True, nominated=NODES[3]),
    )
    cut = NodeReasonDocument("link-down", "the link to n3 is down", 12.5)

    def reasons(node: NodeName) -> tuple[NodeReasonDocument, ...]:
        return (cut,) if node in {NODES[2], NODES[3]} else ()

    assert gang_summary(found, stands(found), 20.0, reasons)["losses"] == [
        {
            "node": "n2",
            "group": 1,
            "code": "link-down",
            "text": "the link to n3 is down",
            "since_s": 12.5,
        }
    ]


def test_each_pod_is_as_far_as_it_is_and_each_group_in_the_deepest_domain_it_shares() -> None:
    found = gang(
        member(0, node=NODES[0]),
        member(1, gated=True, nominated=NODES[1]),
        member(2),
        member(3, gated=True),
        member(3, node=NODES[3], finished=True),
    )
    where = stands(found, places=tuple(enumerate(NODES[:3])))
    told = document(found, where, 12.5)
    assert [pod["state"] for pod in told["members"]] == [
        "bound",
        "nominated",
        "open",
        "gated",
        "ending",
    ]
    assert [pod["node"] for pod in told["members"]] == ["n0", "n1", "n2", None, "n3"]
    assert [group["domains"][0]["path"] for group in told["groups"]] == [
        ("box", "fly-0"),
        ("box", "fly-1"),
    ]
    assert (told["age_s"], told["there"], told["placed"], told["bound"]) == (2.5, 4, 3, 1)


def test_a_gang_whose_wait_is_over_is_shown_by_the_terms_that_it_has_by_now() -> None:
    found = replace(gang(member(0)), wait_s=5.0)
    assert gang_summary(found, stands(found), 14.9, all_well)["mode"] == "required"
    assert gang_summary(found, stands(found), 15.0, all_well)["mode"] == "preferred"


def test_a_group_beyond_one_dragonfly_is_in_the_switchbox_and_an_unknown_node_in_nothing() -> None:
    found = gang(*(member(rank) for rank in range(4)), group_size=32)
    where = stands(found, places=tuple(enumerate([*NODES[:3], NodeName("n9")])))
    (group,) = document(found, where)["groups"]
    assert [domain["path"] for domain in group["domains"]] == [("box",)]
    assert [pods["name"] for pods in group["nodes"]] == ["n0", "n1", "n2", "n9"]


def test_which_nodes_it_may_have_is_told_as_a_placement_asks_it() -> None:
    asked = gang(member(0))
    eligible = Eligibility(
        selector=(("a", "b"),),
        tolerations=(Toleration("k", "Exists"), Toleration("", "Lt", "5", "NoExecute")),
        exclude=frozenset(map(NodeName, ("n10", "n9"))),
    )
    found = replace(asked, request=replace(asked.request, eligible=eligible))
    where = stands(found)
    told = document(found, where)
    assert told["selector"] == {"a": "b"}
    assert told["tolerations"] == list(map(asdict, eligible.tolerations))
    assert told["exclude"] == ["n9", "n10"]


def test_hybrid_nodes_of_a_job_with_a_usage_are_told() -> None:
    def pooled(name: NodeName) -> Host | None:
        found = host(name)
        return replace(found, pool="hybrid") if found and name in NODES[2:] else found

    asked = gang(*(member(rank) for rank in range(4)))
    for usage, told in (("training", ["n2", "n3"]), ("", [])):
        eligible = Eligibility(usage=usage)
        found = replace(asked, request=replace(asked.request, eligible=eligible))
        where = stands(found, places=tuple(enumerate(NODES)))
        summary = gang_summary(found, where, 10.0, all_well)
        document = gang_document(summary, found, where, pooled, kinds=TREE, history=NO_HISTORY)
        assert (document["usage"], document["hybrid"]) == (usage, told)


def test_the_group_of_the_kind_asked_for_is_named_while_all_nodes_share_it() -> None:
    leaf = OtherGroup(SCALE_OUT, Kind("leaf"), GroupPath((GroupName("spine"), GroupName("l1"))))

    def on_a_leaf(name: NodeName) -> Host | None:
        found = host(name)
        return replace(found, elsewhere=(leaf,)) if found and name in NODES[:2] else found

    def told(within: str, nodes: list[NodeName]) -> InsideDocument | None:
        asked = gang(*(member(rank) for rank in range(4)))
        found = replace(asked, request=replace(asked.request, within=Kind(within)))
        where = stands(found, places=tuple(enumerate(nodes)))
        summary = gang_summary(found, where, 10.0, all_well)
        return gang_document(summary, found, where, on_a_leaf, kinds=TREE, history=NO_HISTORY)[
            "inside"
        ]

    path = {"path": leaf.path, "name": "l1"}
    assert told("leaf", NODES[:2]) == {"kind": "leaf", "fabric": "scale-out", **path}
    assert told("leaf", NODES) is None, "half of it is on no leaf by now"
    assert told("switchbox", NODES) == {
        "kind": "switchbox",
        "name": "box",
        "path": ("box",),
        "fabric": "",
    }


def test_those_in_line_come_first_in_the_order_of_their_turns_then_the_others_by_name() -> None:
    waiting = {"third": 2, "first": 0, "second": 1}
    summaries = [
        gang_summary(each, stands(each, ahead=waiting.get(each.name)), 10.0, all_well)
        for each in (gang(name=name) for name in ("b10", "third", "b9", "first", "second"))
    ]
    assert [told["name"] for told in in_turn(summaries)] == [
        "first",
        "second",
        "third",
        "b9",
        "b10",
    ]


def test_each_change_of_state_is_told_with_its_time_its_cause_and_how_it_is_known() -> None:
    found = gang(member(0))
    seen = GangHistory(
        (
            Transition(1.0, GangState.NO_ROOM, "1 group is missing", is_read=True),
            Transition(3.5, GangState.PLACED, "its nodes are being prepared"),
        ),
        from_s=2.0,
    )
    where = stands(found)
    told = gang_document(
        gang_summary(found, where, 10.0, all_well), found, where, host, kinds=TREE, history=seen
    )
    assert told["history_from"] == "1970-01-01T00:00:02.000Z"
    assert [tuple(each.values()) for each in told["history"]] == [
        ("1970-01-01T00:00:01.000Z", "no-room", "1 group is missing", "pod"),
        ("1970-01-01T00:00:03.500Z", "placed", "its nodes are being prepared", "leader"),
    ]
