"""The best placement by OR-tools' CP-SAT, stage by stage.

Variables are the pods in each domain of tier 1; all that is counted above follows from them. Each
stage is solved to proven optimality and fixed before the next one.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ortools.sat.python import cp_model

from tests.placement.oracle.model import Domain, Model, kept_groups
from tests.placement.oracle.solution import Solution, allowed_tier, dealt
from topo.placement.job.request import PlacementMode

EFFORT = 60.0
"""Work on one stage, in the solver's own unit of about a second, the same on every machine. A stage
that takes more is an error, not an answer."""


class NoProofError(Exception):
    """The solver neither found the optimum nor proved that there is none."""


def best(model: Model, given: Sequence[int] = (), effort: float = EFFORT) -> Solution | None:
    """A placement that no other one beats up to the penalty; None where there is none.

    It splits no group if it can, and then leaves the reserves alone if it can.

    `given` fixes the first stages to values instead: the best among the placements that have them,
    whatever becomes of reserves.
    """
    tier = allowed_tier(model)
    if tier is None or not model.hosts:
        return None
    program = _Program(model, tier, effort)
    for goal in program.preferences() if not given else ():
        if not program.settle(goal, None):
            return None
    for goal, value in zip_longest(program.stages(), given):
        if not program.settle(goal, value):
            return None
    return dealt(model, program.answer)


class _Program:
    """One program whose goals are settled one after the other."""

    def __init__(self, model: Model, tier: int, effort: float) -> None:
        self.of, self.group_tier, self.effort = model, tier, effort
        self.cp = cp_model.CpModel()
        self.members = model.domains(1)
        self.room = {key: len(model.filling(hosts)) for key, hosts in self.members.items()}
        self.pods = {key: self.cp.new_int_var(0, room, "") for key, room in self.room.items()}
        self.answer: dict[Domain, int] = {}
        self.split = self._groups()
        self._limit()

    def settle(self, goal: cp_model.LinearExprT, value: int | None) -> bool:
        """Minimises a goal, or gives it its value, and fixes it; False where nothing has it."""
        if value is not None:
            self.cp.add(goal == value)
        self.cp.minimize(goal)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = self.effort
        status = solver.solve(self.cp)
        if status == cp_model.INFEASIBLE:
            return False
        if status != cp_model.OPTIMAL:
            raise NoProofError(solver.status_name(status))
        self.cp.add(goal == round(solver.objective_value))
        self.answer = {key: solver.value(pods) for key, pods in self.pods.items()}
        self.cp.clear_hints()
        for pods in self.pods.values():
            self.cp.add_hint(pods, solver.value(pods))
        return True

    def preferences(self) -> Iterator[cp_model.LinearExprT]:
        """Whether any group is split, and then whether a reserve is spent."""
        some = self.cp.new_bool_var("")
        self.cp.add(self.split <= len(self.of.request.group_pods) * some)
        yield some
        canonical, tier = self.of.canonical
        spent = self.cp.new_bool_var("")
        for path, wanted in self.of.policy.reserves:
            needed = min(wanted, kept_groups(self.of, tuple(path), {}))
            kept: list[cp_model.LinearExprT] = []
            for keys in self.of.below(tier).values():
                taken, most = self._sum([key for key in keys if key[: len(path)] == tuple(path)])
                left = self.cp.new_int_var(0, most, "")
                self.cp.add(taken == most - left)
                kept.append(self._floor(left, most, canonical)[0])
            self.cp.add(cp_model.LinearExpr.sum([*kept, needed * spent]) >= needed)
        yield spent

    def stages(self) -> Iterator[cp_model.LinearExprT]:
        """The goals to minimise, in the order of docs/placement.md."""
        yield self.split
        for tier in range(self.of.tiers, 0, -1):
            yield sum(self._used(tier))
        canonical, tier = self.of.canonical
        free = self._free(tier)
        whole = {key: self._floor(left, room, canonical) for key, (left, room) in free.items()}
        yield -sum(count for count, _ in whole.values())
        tops: dict[Domain, list[tuple[cp_model.LinearExprT, int]]] = {}
        for key, counted in whole.items():
            tops.setdefault(self._above(key, tier), []).append(counted)
        yield from self._leximax(
            [(sum(c for c, _ in inner), sum(most for _, most in inner)) for inner in tops.values()]
        )
        yield from self._leximax(list(free.values()))
        yield sum(self._broken())
        yield sum(self._penalties())

    def _above(self, key: Domain, tier: int) -> Domain:
        top = self.of.below(self.of.tiers)
        inner = self.of.below(tier)[key][0]
        return next(outer for outer, keys in top.items() if inner in keys)

    def _sum(self, keys: list[Domain]) -> tuple[cp_model.LinearExprT, int]:
        return sum(self.pods[key] for key in keys), sum(self.room[key] for key in keys)

    def _groups(self) -> cp_model.LinearExprT:
        """The pods of whole groups, of a whole tail, and others; returns how many are split."""
        request, k = self.of.request, self.of.k
        m, r = request.whole_groups, request.tail
        wholes, tails = [], []
        for keys in self.of.below(self.group_tier).values():
            inside, room = self._sum(keys)
            fits = bool(self.of.group_tier)
            whole = self.cp.new_int_var(0, min(m, room // k) if fits else 0, "")
            tail = self.cp.new_bool_var("") if r and fits else 0
            loose = room if request.mode is PlacementMode.PREFERRED else 0
            other = self.cp.new_int_var(0, loose, "")
            self.cp.add(inside == k * whole + r * tail + other)
            wholes.append(whole)
            tails.append(tail)
        self.cp.add(sum(self.pods.values()) == request.pods)
        split = m - sum(wholes) + ((1 - sum(tails)) if r else 0)
        self.cp.add(sum(wholes) <= m)
        if r:
            self.cp.add(sum(tails) <= 1)
        if request.mode is PlacementMode.REQUIRED:
            self.cp.add(split == 0)
        return split

    def _limit(self) -> None:
        """All pods in one of the groups of the kind asked for."""
        groups = self.of.within()
        if groups == [None]:
            return
        chosen = [self.cp.new_bool_var("") for _ in groups]
        self.cp.add_exactly_one(chosen)
        for key, hosts in self.members.items():
            here = [
                choice
                for choice, group in zip(chosen, groups, strict=True)
                if all(self.of.inside(host, group) for host in hosts)
            ]
            self.cp.add(self.pods[key] <= self.room[key] * sum(here))

    def _used(self, tier: int) -> list[cp_model.IntVar]:
        used = []
        for keys in self.of.below(tier).values():
            inside, room = self._sum(keys)
            some = self.cp.new_bool_var("")
            self.cp.add(inside <= room * some)
            used.append(some)
        return used

    def _free(self, tier: int) -> dict[Domain, tuple[cp_model.LinearExprT, int]]:
        """What is left in each domain of a tier, and the most it can be."""
        sums = {key: self._sum(keys) for key, keys in self.of.below(tier).items()}
        return {key: (room - inside, room) for key, (inside, room) in sums.items()}

    def _floor(
        self, left: cp_model.LinearExprT, most: int, size: int
    ) -> tuple[cp_model.LinearExprT, int]:
        count = self.cp.new_int_var(0, most // size, "")
        self.cp.add(size * count <= left)
        return count, most // size

    def _leximax(
        self, capacities: list[tuple[cp_model.LinearExprT, int]]
    ) -> Iterator[cp_model.LinearExprT]:
        """How many keep at least so much, from the largest amount down."""
        for amount in range(max((most for _, most in capacities), default=0), 0, -1):
            keep = []
            for left, most in capacities:
                if most >= amount:
                    kept = self.cp.new_bool_var("")
                    self.cp.add(left >= amount * kept)
                    keep.append(kept)
            yield -sum(keep)

    def _broken(self) -> list[cp_model.IntVar]:
        """Domains where nothing ran, and that are then used in part."""
        broken = []
        for key, hosts in self.members.items():
            if not self.of.pristine(hosts) or not self.room[key]:
                continue
            partly, full = self.cp.new_bool_var(""), self.cp.new_bool_var("")
            self.cp.add(self.pods[key] <= self.room[key] * (partly + full))
            self.cp.add(self.pods[key] >= self.room[key] * full)
            broken.append(partly)
        return broken

    def _penalties(self) -> Iterator[cp_model.LinearExprT]:
        """The least that the pods of a domain can cost: its slots are taken cheapest first."""
        penalty = {host.name: host.penalty for host in self.of.hosts}
        for key, hosts in self.members.items():
            costs = [penalty[name] for name in self.of.filling(hosts)]
            taken = [self.cp.new_bool_var("") for _ in costs]
            self.cp.add(sum(taken) == self.pods[key])
            yield sum(c * some for c, some in zip(costs, taken, strict=True))
