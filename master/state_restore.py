"""Restores what a store kept, or what a follower was sent, when a master begins to act."""

import time
from typing import TYPE_CHECKING

import structlog

from master.object_errors import ObjectKind
from master.replicas.follower import Origin, Replicated
from master.state.document import State
from topo.model.errors import BadInputError
from topo.model.forest import Forest
from topo.model.isolation import ObjectError
from topo.placement.booking.holds import HoldsMemory

if TYPE_CHECKING:
    from master.service import Service

_log = structlog.get_logger(__name__)


async def restore(service: "Service") -> None:
    """Restore the newest state that is known, and the holds that were promised."""
    saver, replicas = service.saver, service.replicas
    follower = replicas.follower if replicas is not None else None
    known, now_s = follower.newest if follower is not None else None, time.time()
    found = None
    if saver is not None:
        found = await saver.store.load(service.settings.mode, now_s)
        if known is None and follower is not None and not isinstance(found, State):
            known = follower.kept  # the cluster keeps nothing: what was shown is all that is known
        for hold, why in saver.store.unusable_holds.items():
            service.object_errors.note(ObjectKind.HOLD, hold, ObjectError(why))
        service.readiness.startup.is_first = saver.store.is_new and known is None
    state, holds = newer_state(found, known), promised_holds(found, known)
    if state is not None:
        is_kept = saver is not None and state is found
        age_s = saver.store.age_s(now_s) if is_kept and saver else follower and follower.age_s
        await service.engine.restore(state.memory, age_s or 0.0)
        service.readiness.restored = service.engine.snapshot.forest != Forest()
        generation = service.engine.snapshot.generation
        _log.info("state restored", age_s=round(age_s or 0.0, 1), generation=generation)
    if holds is not None:
        service.placements.state.restore(holds)
    if saver is not None and (taken := state or holds) is not None:
        await saver.loaded(taken)


async def show_kept(service: "Service") -> None:
    """Show in a follower what a shared store keeps, where no leader sent more yet."""
    saver, replicas = service.saver, service.replicas
    if saver is None or not saver.store.is_shared or replicas is None:
        return
    now_s = time.time()
    try:
        found = await saver.store.load(service.settings.mode, now_s)
    except BadInputError as error:
        _log.warning("what is kept is not shown", why=str(error))
        return
    if (
        isinstance(found, State)
        and not service.replica.role.acts
        and replicas.follower.newest is None
    ):
        age_s = saver.store.age_s(now_s) or 0.0
        await replicas.follower.show_kept(found, age_s, Origin.STORE)
        _log.info("the kept state is shown", age_s=round(age_s, 1))


async def show_copy(service: "Service") -> None:
    """Show in a follower the copy that it made, before its ports listen."""
    copy, replicas = service.state_copy, service.replicas
    if copy is None or replicas is None or (found := await copy.load()) is None:
        return
    age_s = max(0.0, time.time() - found.saved_at_s)
    await replicas.follower.show_kept(found, age_s, Origin.COPY)
    _log.info("the copy of the state is shown", age_s=round(age_s, 1))


def newer_state(found: State | HoldsMemory | None, known: Replicated | None) -> State | None:
    """Return the later judgement of the two: its generation decides, whatever the clocks say."""
    kept = found if isinstance(found, State) else None
    if kept is None or known is None:
        return kept or (known.state if known is not None else None)
    one, other = ((s.memory.generation, s.saved_at_s) for s in (kept, known.state))
    return kept if one > other else known.state


def promised_holds(
    found: State | HoldsMemory | None, known: Replicated | None
) -> HoldsMemory | None:
    """Return the holds: those of the store, where all promised ones are; else those followed.

    Followed ones tell how times of their leader map to ours.
    """
    kept = found.holds if isinstance(found, State) else found
    if known is None:
        return kept
    return known.holds if kept is None else known.on_our_clock(kept)
