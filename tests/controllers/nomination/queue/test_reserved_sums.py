"""The sums of reserved quota are those of the pods, whatever comes in whatever order."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from master.controllers.nomination.queues.reserved import ReservedQuota
from topo.gangs.machine.gang import GangId, PodUid

GANGS = [GangId(f"gang-{at}") for at in range(3)]
PODS = {PodUid(f"uid-{at}"): ("jobs", f"pod-{at % 4}") for at in range(6)}  # names come again
some = st.sets(st.sampled_from(sorted(PODS)))
steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(GANGS), st.sampled_from(["q1", "q2"]), some),
    st.tuples(st.just("count"), st.sampled_from(sorted(PODS)), st.integers(0, 8)),
    st.tuples(st.just("retain"), st.sampled_from(GANGS), some),
    st.tuples(st.just("vanish"), st.sampled_from(GANGS)),
)


@dataclass
class Known:
    """A gang, and how often it was asked."""

    opening: frozenset[PodUid]
    asked: int = 0

    def opening_pods(self) -> frozenset[PodUid]:
        self.asked += 1
        return self.opening


@given(st.lists(steps))
def test_each_queue_has_the_requests_of_the_reserved_pods_of_other_gangs(steps) -> None:
    quota, known = ReservedQuota(), {gang: Known(frozenset(PODS)) for gang in GANGS}
    pods: dict[tuple[str, str], tuple[GangId, str, PodUid]] = {}
    gpus: Counter[tuple[str, str]] = Counter()
    for step in steps:
        match step:
            case ("put", gang, queue, uids):
                of_gang = {uid: key for key, uid in {PODS[uid]: uid for uid in uids}.items()}
                pods = {key: each for key, each in pods.items() if each[0] != gang}
                pods |= {key: (gang, queue, uid) for uid, key in of_gang.items()}
                quota.put(gang, queue, of_gang)
                for key in of_gang.values():
                    quota.count(key, gpus[key])
            case ("count", uid, number):
                gpus[PODS[uid]] = number
                quota.count(PODS[uid], number)
            case ("retain", gang, uids):
                known[gang] = Known(frozenset(uids))
            case ("vanish", gang):
                known.pop(gang, None)
        if step[0] in {"retain", "vanish"}:
            kept = {gang: each.opening for gang, each in known.items()}
            pods = {k: each for k, each in pods.items() if each[2] in kept.get(each[0], ())}
            quota.retain(known.get)
        for but in GANGS:
            expected: Counter[str] = Counter()
            for key, (gang, queue, _) in pods.items():
                expected[queue] += gpus[key] if gang != but else 0
            assert {q: n for q, n in quota.by_queue(but) if n} == +expected
        assert set(quota.keys) == set(pods)


def test_only_gangs_that_changed_are_read_again() -> None:
    quota, known = ReservedQuota(), {gang: Known(frozenset(PODS)) for gang in GANGS}
    for at, gang in enumerate(GANGS):
        quota.put(gang, "q1", {PodUid(f"uid-{at}"): ("jobs", f"pod-{at}")})
    assert not quota.retain(known.get)
    assert not quota.retain(known.get)
    assert [each.asked for each in known.values()] == [1, 1, 1]
    known[GANGS[1]] = Known(frozenset())
    assert quota.retain(known.get)
    assert [each.asked for each in known.values()] == [1, 1, 1]
    assert set(quota.keys) == {("jobs", "pod-0"), ("jobs", "pod-2")}
