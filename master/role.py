"""The role of this master among its replicas, and the calls that a follower refuses."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web

from topo.kit.serving.problem import problem
from topo.model.errors import BrokenInvariantError

_RETRY_S = "1"
_NO_LEADER = "no leader is known yet; GET /v1/topology has the warning that says why"


class RoleKind(StrEnum):
    """`alone` without other masters; of several one leads and the others follow."""

    ALONE = "alone"
    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a master.

    `leader_url` is the URL of the leader's API, `reports_url` that for reports, `extender_url` that
    for schedulers; empty if unknown.
    """

    kind: RoleKind = RoleKind.ALONE
    leader_url: str = ""
    reports_url: str = ""
    extender_url: str = ""

    @property
    def acts(self) -> bool:
        """Whether this master polls sources, accepts reports and holds, and saves the state."""
        return self.kind is not RoleKind.FOLLOWER


ALONE = Role()
FOLLOWER = Role(RoleKind.FOLLOWER)
"""A follower without a known leader."""


class Replica:
    """Holds the role of this process and starts the work of an acting master."""

    def __init__(self, role: Role = ALONE) -> None:
        self._role = role
        self.restore: Callable[[], Awaitable[None]] | None = None
        """Restores the kept state; called once, before any work runs."""
        self.may_act: Callable[[], bool] = lambda: True
        """Returns whether a leader still leads; called each time, for its term may be over
        already."""
        self.is_fed = role.acts
        """Whether events may change the tree: a follower's is the leader's, until it has restored
        the kept state as a leader itself."""
        self._restoring = asyncio.Lock()
        self._acts = asyncio.Event()
        self.become(role)

    @property
    def role(self) -> Role:
        """The current role. A leader whose term is over is a follower without a leader; it ends."""
        if self._role.kind is RoleKind.LEADER and not self.may_act():
            return FOLLOWER
        return self._role

    @property
    def serves(self) -> bool:
        """Whether what this master knows is current: it acts, and has restored what was kept.

        Before that a new leader has the state of a follower, which the restored one replaces: a
        hold that it gave would be lost.
        """
        return self.is_fed and self.role.acts

    @property
    def has_acted(self) -> bool:
        """Whether this process ever acted."""
        return self._acts.is_set()

    def become(self, role: Role) -> None:
        """Change the role.

        A master that acted never follows: its work in progress could write beside the new leader,
        so it must end instead.
        """
        if self._acts.is_set() and not role.acts:
            raise BrokenInvariantError("a master that acted cannot become a follower")
        self._role = role
        if role.acts:
            self._acts.set()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work once this master acts and the kept state is restored."""
        await self._acts.wait()
        await self.restored()
        await work()

    async def restored(self) -> None:
        """Return when the kept state is restored; the first caller restores it, the others wait.

        A saver that began before would overwrite what it has not read.
        """
        async with self._restoring:
            if self.restore is not None:
                await self.restore()
                self.restore = None
            self.is_fed = True


def not_leader(role: Role) -> web.Response:
    """Return the refusal of a call that changes something, sent to a master of this role.

    A leader refuses such a call until it has restored what was kept.
    """
    url = role.leader_url
    what = "this master is a follower: only the leader takes calls that change something"
    fix = f"send the call to the leader, {url}" if url else f"ask again: {_NO_LEADER}"
    if role.acts:
        what = "this master has just come to lead and restores what was kept"
        fix = "ask again in a second"
    headers = {"Retry-After": _RETRY_S}
    return problem(503, what, fix=fix, headers=headers, role=role.kind.value, leader=url or None)
