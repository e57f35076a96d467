"""No clock that is set, and no restart, gives a hold more time than it was given."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.placement.booking.holding import committed, reserved
from tests.placement.booking.test_holds import two_dragonflies, wish
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.holds import ClockReading, Hold, HoldId, HoldsMemory
from topo.placement.capacity.capacity import Capacity

LENGTH_S = 120.0
HOLD = HoldId("h1")
MEMORY = TypeAdapter(HoldsMemory)
DURATIONS = st.integers(0, 100).map(float)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("runs"), DURATIONS),
        st.tuples(st.just("clock set"), st.integers(-10_000, 10_000).map(float)),
        st.tuples(st.just("saved"), st.just(0.0)),
        st.tuples(st.just("restarts"), DURATIONS),
        st.tuples(st.just("boots"), DURATIONS),
    ),
    max_size=12,
)


@dataclass
class Machine:
    """A machine on which a master runs, is killed and starts again. `true_s` is nobody's clock."""

    capacity: Capacity = field(default_factory=two_dragonflies)
    true_s: float = 0.0
    booted_s: float = -50.0
    boot: int = 1
    set_by_s: float = 1e9
    running_s: float = 0.0
    """How long masters ran since the hold was given."""
    saved_s: float = 0.0
    """`running_s` as of the last save."""
    untold_s: float = 0.0
    """How long masters ran between a last save and the end of a boot."""
    file: bytes = b""

    def __post_init__(self) -> None:
        self.bookings = Bookings(self.capacity)

    @property
    def now(self) -> ClockReading:
        return ClockReading(
            f"boot-{self.boot}", self.true_s - self.booted_s, self.true_s + self.set_by_s
        )

    def save(self) -> None:
        self.bookings.advance(self.now.clock_s)
        self.file = MEMORY.dump_json(self.bookings.persistent_state(self.now))
        self.saved_s = self.running_s

    def do(self, step: str, by_s: float) -> None:
        if step == "clock set":
            self.set_by_s += by_s
        elif step == "saved":
            self.save()
        else:
            self.true_s += by_s
            self.running_s += by_s if step == "runs" else 0.0
        if step == "boots":
            self.untold_s += self.running_s - self.saved_s
            self.boot, self.booted_s = self.boot + 1, self.true_s
        if step in {"restarts", "boots"}:
            self.capacity = two_dragonflies()
            self.bookings = Bookings(self.capacity)
            self.bookings.restore(MEMORY.validate_json(self.file), self.now)
            self.save()

    def has_it(self) -> bool:
        self.bookings.advance(self.now.clock_s)
        self.bookings.validate()
        return isinstance(self.bookings.find(HOLD), Hold)


def machine() -> Machine:
    """One on which a hold was just given, and written down."""
    made = Machine()
    given_s = made.now.clock_s
    reserved(made.bookings, made.capacity, wish(hold_s=LENGTH_S), name=HOLD, now_s=given_s)
    made.save()
    return made


@given(STEPS)
def test_no_hold_outlives_its_length_in_running_time(steps: list[tuple[str, float]]) -> None:
    """But for what ran untold before a boot whose clock was set: at most since the last save."""
    tried = machine()
    for step in steps:
        tried.do(*step)
        if tried.has_it():
            assert tried.running_s - tried.untold_s < LENGTH_S + 1e-3


@given(STEPS.map(lambda steps: [step for step in steps if step[0] != "boots"]))
def test_while_a_machine_stays_up_a_hold_has_exactly_its_length_whatever_the_clock_says(
    steps: list[tuple[str, float]],
) -> None:
    tried = machine()
    for step in steps:
        tried.do(*step)
        if abs(tried.true_s - LENGTH_S) > 1e-3:
            assert tried.has_it() == (tried.true_s < LENGTH_S)


@pytest.mark.parametrize(("set_by_s", "left_s"), [(-3600, 100), (0, 90), (50, 40), (3600, None)])
def test_after_a_boot_the_time_that_it_took_counts_as_the_wall_clock_says(
    set_by_s: float, left_s: float | None
) -> None:
    tried = machine()
    tried.do("runs", 20)
    tried.do("saved", 0)
    tried.do("clock set", set_by_s)
    tried.do("boots", 10)
    assert tried.has_it() == (left_s is not None)
    found = tried.bookings.find(HOLD)
    if isinstance(found, Hold):
        assert found.deadline_s is not None
        assert found.deadline_s - tried.now.clock_s == pytest.approx(left_s)


def test_a_committed_hold_stays_whatever_the_clock_says() -> None:
    tried = machine()
    committed(tried.bookings, HOLD, tried.now.clock_s)
    tried.save()
    for step in (("clock set", 1e8), ("boots", 500.0), ("clock set", -1e8), ("restarts", 500.0)):
        tried.do(*step)
    assert tried.has_it()
