"""Whatever happens in a cluster, no plan breaks a promise, and the kept counts stay true."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.placement.booking.holding import committed, expired, released, reserved_as
from tests.placement.oracle import cpsat
from tests.placement.oracle.model import Model, model_of, models, replace_type, violations
from topo.model.cluster import Taint
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, Kind, NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.holds import Hold, HoldId, HoldRefused, HoldRequest
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration
from topo.sim.worlds.clusters import cluster, requests

NODES = 220
TAINT = Taint("reserved", "x")
BEARS = (Toleration("reserved", "Equal", "x"),)
KEPT, KEPT_GROUPS = GroupPath((GroupName("sbox-1"),)), 2
RESERVING = Policy(reserves=((KEPT, KEPT_GROUPS),), gpu_types=("B",))
SUSPECT_EVERY = 97
"""One refusal in so many is checked against CP-SAT."""
RECOUNT_EVERY = 500


class World:
    """A cluster with everything that happens to it, and its own naive books beside the capacity."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)  # noqa: S311 - seeded, no secret
        self.capacity = Capacity(RESERVING if seed % 2 else Policy())
        self.holds = Bookings(self.capacity)
        nodes = cluster(NODES, "8+16", 0.0, seed)
        self.hosts = {host.name: self.dressed(host) for host in nodes.hosts()}
        self.gone: list[Host] = []
        self.jobs: dict[str, dict[NodeName, int]] = {}
        self.held: dict[HoldId, float] = {}
        self.stream = requests(seed)
        self.placed = self.refused = self.now_s = 0
        for host in self.hosts.values():
            self.capacity.upsert(host)

    def dressed(self, host: Host) -> Host:
        drawn = self.choice.random()
        return replace(
            host,
            gpus=self.choice.choice((4, 8, 8, 8, 16)) if drawn < 0.1 else host.gpus,
            gpu_type="B" if drawn < 0.2 else "A",
            labels=(("zone", str(self.choice.randint(1, 2))),),
            taints=(TAINT,) if drawn > 0.95 else (),
            penalty=self.choice.choice((0, 0, 0, 1)),
        )

    def step(self) -> None:
        """A request, and what else happens until the next one."""
        self.now_s += 1
        for hold in expired(self.holds, self.now_s):
            assert self.held.pop(hold.id) <= self.now_s
            del self.jobs[hold.id]
        happenings = (self.end, self.end_a_hold, self.flip, self.lose, self.regain, self.alter)
        for happen in self.choice.choices(happenings, (60, 10, 10, 3, 3, 3), k=2):
            happen()
        self.ask(self.asked())

    def keep(self, host: Host) -> None:
        self.hosts[host.name] = host
        self.capacity.upsert(host)

    def any_host(self) -> Host:
        return self.choice.choice(list(self.hosts.values()))

    def end(self) -> None:
        running = [owner for owner in self.jobs if owner not in self.held]
        if running:
            owner = self.choice.choice(running)
            del self.jobs[owner]
            self.capacity.release(owner)

    def end_a_hold(self) -> None:
        if self.held:
            hold_id = self.choice.choice(list(self.held))
            del self.held[hold_id]
            if self.choice.random() < 0.5:
                assert isinstance(committed(self.holds, hold_id, self.now_s), Hold)
            else:
                assert isinstance(released(self.holds, hold_id, self.now_s), Hold)
                del self.jobs[hold_id]

    def flip(self) -> None:
        """Closed hosts mostly open again, so that a tenth of them is closed."""
        host = self.any_host()
        well = not host.is_open or self.choice.random() < 0.9
        self.keep(replace(host, ready=well, cordoned=not well and self.choice.random() < 0.5))

    def lose(self) -> None:
        if len(self.hosts) > NODES // 2:
            host = self.any_host()
            self.gone.append(self.hosts.pop(host.name))
            self.capacity.remove(host.name)

    def regain(self) -> None:
        if self.gone:
            self.keep(self.gone.pop(self.choice.randrange(len(self.gone))))

    def alter(self) -> None:
        """A host moves to another's group, or becomes another kind of host."""
        host, other = self.any_host(), self.any_host()
        moved = replace(host, path=other.path, kinds=other.kinds, tiers=other.tiers)
        self.keep(moved if self.choice.random() < 0.3 else self.dressed(host))

    def asked(self) -> Request:
        """The next job of the stream, every other one in an unusual form."""
        request, pick = next(self.stream), self.choice.choice
        if self.choice.random() < 0.5:
            return request
        sizes = (request.group_size, None, 16, 32, 128)
        eligibility = Eligibility(
            gpu_type=pick((None, "A", "B", "C")),
            selector=pick(((), (("zone", "1"),))),
            tolerations=pick(((), BEARS)),
            exclude=frozenset(self.any_host().name for _ in range(pick((0, 0, 0, 3)))),
        )
        return replace(
            request,
            group_size=pick(sizes) if request.gpus_per_pod > 2 else request.group_size,
            mode=pick(list(PlacementMode)),
            within=pick((None, None, SWITCHBOX, DRAGONFLY, Kind("rack"))),
            eligible=eligibility,
        )

    def ask(self, request: Request) -> None:
        """What is placed is checked against the naive books, then booked or held."""
        version = self.capacity.version
        answer = place(self.capacity, request)
        assert self.capacity.version == version
        if isinstance(answer, NoFit):
            self.refused += 1
            assert answer.text
            if not self.refused % SUSPECT_EVERY:
                for model in models(self.capacity, request):
                    assert cpsat.best(model) is None, (request, answer.text)
            return
        self.placed += 1
        assert self.faults(answer) == []
        self.start(answer)

    def faults(self, plan: Plan) -> list[str]:
        """Gang, groups, eligibility and room, counted from this world's own books alone."""
        used: Counter[NodeName] = Counter()
        for job in self.jobs.values():
            used.update(job)
        request = replace_type(plan.request, plan.gpu_type)
        model = model_of(list(self.hosts.values()), used, request, self.capacity.policy)
        groups = [group.pods for group in plan.groups]
        return violations(model, groups) + self.unreserved(model, plan)

    def unreserved(self, model: Model, plan: Plan) -> list[str]:
        """What a plan took of the groups that are kept free, unless it says that it had to."""
        if plan.used_reserve or not self.capacity.policy.reserves:
            return []
        taken: Counter[NodeName] = Counter()
        for group in plan.groups:
            taken.update(dict(group.pods))
        size, tier = model.canonical
        before = after = 0
        for members in model.domains(tier).values():
            if members[0].path[:1] == KEPT:
                slots = sum(model.slots[host.name] for host in members)
                before += slots // size
                after += (slots - sum(taken[host.name] for host in members)) // size
        return [f"{after} groups left of {before}"] * (after < min(before, KEPT_GROUPS))

    def start(self, plan: Plan) -> None:
        gpus: Counter[NodeName] = Counter()
        for group in plan.groups:
            for name, pods in group.pods:
                gpus[name] += pods * plan.request.gpus_per_pod
        owner = f"job-{self.placed}"
        self.jobs[owner] = dict(gpus)
        if self.choice.random() < 0.7:
            self.capacity.book(owner, gpus)
            return
        hold_s = self.choice.randint(1, 40)
        wish = HoldRequest(plan.request, hold_s)
        hold = reserved_as(self.holds, wish, plan, HoldId(owner), self.now_s)
        assert isinstance(hold, Hold), hold
        self.held[hold.id] = self.now_s + hold_s
        again = reserved_as(self.holds, wish, plan, HoldId(f"{owner}-again"), self.now_s)
        if isinstance(again, HoldRefused):
            return
        assert all(self.capacity.used(n) <= self.hosts[n].gpus for n in gpus), "held twice"
        released(self.holds, again.id, self.now_s)


def lived(seed: int, requests_: int) -> World:
    world = World(seed)
    for number in range(1, requests_ + 1):
        world.step()
        if not number % RECOUNT_EVERY:
            assert world.capacity.recount() == ()
            assert dict(world.capacity.bookings()) == world.jobs
    return world


def test_no_plan_breaks_a_promise_while_everything_changes():
    world = lived(1, 1_500)
    assert world.placed > 500
    assert world.refused > 50


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 5))
def test_no_plan_breaks_a_promise_in_thirty_thousand_requests(seed):
    lived(seed, 10_000)


def shuffled(world: World, choice: random.Random) -> Capacity:
    """The same state, reached in another order."""
    capacity = Capacity(world.capacity.policy)
    everybody, owners = list(world.hosts.values()), list(world.jobs)
    choice.shuffle(everybody)
    choice.shuffle(owners)
    passing = [replace(host, name=NodeName(f"passing-{host.name}")) for host in everybody[:20]]
    for host in (*passing, *everybody):
        capacity.upsert(host)
    for owner in owners:
        capacity.book(owner, world.jobs[owner])
    for host in passing:
        capacity.remove(host.name)
    return capacity


def test_the_order_in_which_a_state_came_about_changes_no_answer():
    world = lived(99, 300)
    asked = [world.asked() for _ in range(400)]
    choice = random.Random(7)  # noqa: S311 - seeded, no secret
    expected = [place(world.capacity, request) for request in asked]
    for number in range(10):
        capacity = shuffled(world, choice)
        for at in choice.sample(range(len(asked)), len(asked)):
            assert place(capacity, asked[at]) == expected[at], (number, asked[at])
