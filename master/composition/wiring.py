"""The plan of the cables, put together with what it is held beside."""

from collections.abc import Callable

from master.availability import Availability
from master.composition.core import Core
from master.controllers.table import Controllers
from master.current_topology import CurrentTopology
from master.wiring.check import WiringCheck, WiringCollector
from topo.diagnosis.wiring.cost import Job


def build_wiring(
    core: Core,
    availability: Availability,
    controllers: Controllers,
    topology: Callable[[], CurrentTopology],
) -> WiringCheck | None:
    """Return what compares the plan with the cables; None in a master without one."""
    plan_file = core.settings.wiring_plan
    if plan_file is None:
        return None

    def jobs() -> tuple[Job, ...]:
        nomination = controllers.nomination
        if nomination is None:
            return ()
        return tuple(
            Job(
                f"{gang.namespace}/{gang.name}",
                frozenset(node for _, node in status.places),
                status.would_fit,
            )
            for gang, status in nomination.view.all()
        )

    check = WiringCheck(
        plan_file=plan_file,
        mode=core.settings.mode.value,
        topology=topology,
        is_complete=lambda: not availability.missing(),
        facts=core.engine.facts,
        jobs=jobs,
        files=core.file_warnings,
        clock=core.engine.clock,
    )
    core.registry.register(WiringCollector(check))
    return check
