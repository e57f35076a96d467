"""Workloads of Kueue as requests for capacity: what each state asks for, and what is answered."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from topo.model.errors import Refusal
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request
from topo.provisioning.course import Phase, RequestUid
from topo.provisioning.machine import Provisioning
from topo.provisioning.messages import (
    Book,
    Booked,
    EndBooking,
    Event,
    Held,
    Instruction,
    NoRoom,
    RequestObserved,
    RequestVanished,
    RoomGrew,
    Tell,
    TermBegun,
    WriteStatus,
)
from topo.provisioning.terms import NothingToBook, Terms
from topo.provisioning.workloads import (
    WAITING_S,
    WAITS,
    AdmissionCheck,
    CheckState,
    Workload,
    as_request,
    check_message,
    check_state,
)

GATE, OURS = "metax-tech.com/whole-groups", frozenset({"topo"})
UID = RequestUid("uid-1")
TERMS = Terms(Request(pods=2, gpus_per_pod=8, group_size=16))
QUOTA = ("QuotaReserved", 100.0)
HOLD = HoldId("hold-1")
DETAILS = (("groups", "box-1/fly-1"), ("nodes", "n1,n2"))


def workload(**more: object) -> Workload:
    known: dict[str, object] = {
        "uid": UID,
        "namespace": "jobs",
        "name": "job-train",
        "version": "1",
        "created_s": 50.0,
        "pod_sets": (("job-train/main", 2),),
    }
    return Workload(**(known | more))  # type: ignore[arg-type]


def checked(state: str = "Pending", message: str = "", hold: str = "") -> Workload:
    return workload(true=(QUOTA,), checks=(AdmissionCheck("topo", state, message, 110.0, hold),))


def phase_of(found: Workload) -> Phase | None:
    request = as_request(found, GATE, OURS)
    return request.phase if request is not None else None


def test_each_state_of_a_check_is_a_phase_and_only_our_own_words_count_as_accepted() -> None:
    assert phase_of(checked()) is Phase.NEW
    assert phase_of(checked(message="Reset to Pending after eviction")) is Phase.NEW
    assert phase_of(checked(message=f"{WAITS}: no room")) is Phase.ACCEPTED
    assert phase_of(checked("Ready", hold=HOLD)) is Phase.PROVISIONED
    assert phase_of(checked("Retry")) is Phase.FAILED
    assert phase_of(checked("Rejected")) is Phase.FAILED
    assert phase_of(checked("OfALaterKueue")) is Phase.FAILED


def test_one_that_can_have_no_pods_asks_for_nothing_and_keeps_no_booking() -> None:
    for true in (("Finished", 1.0), ("Evicted", 1.0)):
        assert as_request(workload(true=(true,)), GATE, OURS) is None
    assert as_request(workload(is_active=False), GATE, OURS) is None
    assert as_request(workload(is_leaving=True), GATE, OURS) is None


def test_one_that_is_being_evicted_is_not_answered_while_it_has_its_quota() -> None:
    """Kueue takes the quota in a later write, and asks for it no more where we said Retry."""
    evicted = ("Evicted", 120.0)
    for found in (checked(), checked("Ready", hold=HOLD), checked("Retry")):
        assert as_request(replace(found, true=(*found.true, evicted)), GATE, OURS) is None
    running = replace(checked("Ready"), true=(QUOTA, ("Admitted", 115.0), evicted))
    request = as_request(running, GATE, OURS)
    assert request is not None
    assert request.is_let_go, "its pods still run"


def test_what_is_let_go_keeps_its_booking_until_its_pods_come() -> None:
    in_queue, admitted = workload(), replace(checked("Ready"), true=(QUOTA, ("Admitted", 120.0)))
    unchecked = workload(true=(QUOTA,))
    for found in (in_queue, admitted, unchecked, checked("Ready")):
        request = as_request(found, GATE, OURS)
        assert request is not None
        assert request.is_let_go


def test_a_job_is_held_by_our_name_beside_others_before_anything_else_counts() -> None:
    for gates in ((GATE,), ("example.com/a", GATE)):
        request = as_request(workload(gates=gates), GATE, OURS)
        assert request is not None
        assert (request.is_gated, request.phase) == (True, Phase.ACCEPTED)
    other = as_request(workload(gates=("example.com/a",)), GATE, OURS)
    assert other is not None
    assert not other.is_gated


def observed(found: Workload, held: Held | None = None, **more: object) -> RequestObserved:
    request = as_request(found, GATE, OURS)
    assert request is not None
    if held is not None and request.named_hold == held.hold:
        request = replace(request, details=held.details)
    known: dict[str, object] = {"request": request, "asked": TERMS, "held": held}
    return RequestObserved(**(known | more))  # type: ignore[arg-type]


def test_a_held_job_is_booked_and_let_go_without_a_write_before() -> None:
    machine = Provisioning()
    gated = workload(gates=(GATE,))
    (book,) = machine.advance(60.0, observed(gated), TermBegun())
    assert isinstance(book, Book)
    assert machine.has_begun, "a held job is promised nothing, so that no leader waits for it"
    (told,) = machine.advance(60.0, NoRoom(UID, "no whole group is free", never=True))
    assert told == Tell(observed(gated).request, "no whole group is free")
    (again,) = machine.advance(61.0, RoomGrew())
    assert isinstance(again, Book), "what never fits is held on: nodes may come"
    assert machine.advance(61.0, NoRoom(UID, "no whole group is free")) == (), "told once"
    machine.advance(62.0, RoomGrew())
    held = Held(HOLD, DETAILS, 62.0 + 660)
    (let_go,) = machine.advance(62.0, Booked(UID, held))
    assert isinstance(let_go, WriteStatus)
    assert (let_go.phase, let_go.request.is_gated) == (Phase.PROVISIONED, True)
    assert machine.advance(63.0, observed(workload(version="2"), held)) == ()
    assert machine.advance(9999.0) == (), "the booking ends by itself"
    assert machine.advance(64.0, RequestVanished(UID, HOLD)) == (EndBooking(UID, HOLD),)


def test_groups_that_break_between_letting_go_and_the_pods_are_given_back() -> None:
    machine, held = Provisioning(), Held(HOLD, DETAILS, 700.0)
    in_queue = observed(workload(), held, broken="node n1 is cordoned")
    assert machine.advance(60.0, in_queue, TermBegun()) == (EndBooking(UID, HOLD),)


def test_a_check_is_ready_with_its_booking_and_retried_when_that_breaks() -> None:
    machine, held = Provisioning(), Held(HOLD, DETAILS, 800.0)
    machine.advance(101.0, observed(checked()), TermBegun())
    (book,) = machine.advance(101.0, observed(replace(checked(message=WAITS), version="2")))
    assert isinstance(book, Book)
    (ready,) = machine.advance(101.0, Booked(UID, held))
    assert isinstance(ready, WriteStatus)
    assert (check_state(ready), ready.hold) == (CheckState.READY, HOLD)
    assert check_message(ready).endswith("box-1/fly-1")
    promised = replace(checked("Ready", hold=HOLD), version="3")
    assert machine.advance(111.0, observed(promised, held)) == ()
    (retry,) = machine.advance(112.0, observed(promised, held, broken="no cable joins n1, n2"))
    assert isinstance(retry, WriteStatus)
    assert (check_state(retry), retry.text) == (CheckState.RETRY, "no cable joins n1, n2")


def test_what_broke_is_not_promised_again_when_kueue_asks_anew() -> None:
    """Kueue may evict a workload and give it quota again before anybody saw it evicted."""
    machine, held = Provisioning(), Held(HOLD, DETAILS, 800.0)
    again = observed(checked(message=WAITS), held, broken="no cable joins n1, n2")
    release, book = machine.advance(111.0, again, TermBegun())
    assert release == EndBooking(UID, HOLD)
    assert isinstance(book, Book)


def test_a_check_whose_booking_another_leader_lost_is_tried_again() -> None:
    machine = Provisioning()
    (retry,) = machine.advance(111.0, observed(checked("Ready", hold="hold-lost")), TermBegun())
    assert isinstance(retry, WriteStatus)
    assert check_state(retry) is CheckState.RETRY


def test_no_room_is_a_retry_and_only_what_can_never_be_is_rejected() -> None:
    for refused, state in (
        (NoRoom(UID, "2 of 4 are free"), CheckState.RETRY),
        (NoRoom(UID, "there are 4", never=True), CheckState.REJECTED),
    ):
        machine = Provisioning()
        waiting = checked(message=f"{WAITS}: {refused.text}")
        machine.advance(101.0, observed(checked()), TermBegun())
        machine.advance(101.0, observed(replace(waiting, version="2")))
        out = (*machine.advance(101.0, refused), *machine.advance(100.0 + WAITING_S))
        (write,) = out
        assert isinstance(write, WriteStatus)
        assert check_state(write) is state
    machine = Provisioning()
    unread = observed(checked(), asked=Refusal("odd", "spec", "fix it"))
    (write,) = machine.advance(101.0, unread, TermBegun())
    assert isinstance(write, WriteStatus)
    assert check_state(write) is CheckState.REJECTED


def test_where_nothing_is_to_be_booked_nobody_waits() -> None:
    nothing = NothingToBook("none of its pods asks for groups")
    for found in (checked(), workload(gates=(GATE,))):
        machine = Provisioning()
        (write,) = machine.advance(101.0, observed(found, asked=nothing), TermBegun())
        machine.validate()
        assert isinstance(write, WriteStatus)
        assert (write.phase, write.hold, write.text) == (Phase.PROVISIONED, "", nothing.text)


@given(data=st.data())
def test_in_any_order_a_hold_has_one_end_and_no_check_is_ready_without_it(
    data: st.DataObject,
) -> None:
    """Kueue changes a workload as it likes, and every answer arrives or does not."""
    machine, holds, version, now_s = Provisioning(), set[str](), 1, 100.0
    found = data.draw(st.sampled_from((checked(), workload(gates=(GATE,)))))
    out: tuple[Instruction, ...] = machine.advance(now_s, observed(found), TermBegun())
    for number in range(data.draw(st.integers(1, 12))):
        now_s += 1
        answers: list[Event] = [*_answers(out, data, holds, number)]
        for each in out:
            if isinstance(each, WriteStatus) and each.phase is Phase.PROVISIONED and each.hold:
                assert each.hold in holds
        if not answers:
            version += 1
            found = replace(data.draw(_states(sorted(holds))), version=str(version))
            hold = data.draw(st.sampled_from(sorted(holds))) if holds else None
            held = Held(HoldId(hold), DETAILS, now_s + 700) if hold is not None else None
            if as_request(found, GATE, OURS) is None:
                answers = [RequestVanished(UID, held.hold if held is not None else None)]
            else:
                answers = [observed(found, held)]
        out = machine.advance(now_s, *answers)
        machine.validate()


def _answers(
    out: tuple[Instruction, ...], data: st.DataObject, holds: set[str], number: int
) -> Iterator[Booked | NoRoom]:
    for each in out:
        if isinstance(each, EndBooking):
            holds.discard(each.hold)
        if isinstance(each, Book):
            assert not holds, "one booking at a time"
            if data.draw(st.booleans()):
                holds.add(f"hold-{number}")
                yield Booked(UID, Held(HoldId(f"hold-{number}"), DETAILS, 9999.0))
            else:
                yield NoRoom(UID, "full")


def _states(holds: list[str]) -> st.SearchStrategy[Workload]:
    ready = [checked("Ready", hold=each) for each in (*holds, "hold-of-another")]
    return st.sampled_from(
        [
            checked(),
            checked(message=WAITS),
            *ready,
            checked("Retry"),
            workload(),
            workload(gates=(GATE,)),
            workload(true=(("Evicted", 1.0),)),
            workload(true=(QUOTA, ("Admitted", 1.0))),
        ]
    )
