"""The plan of the cables and the comparison with what is seen, put together from their parts."""

from collections.abc import Callable

from master.availability import Availability
from master.composition.core import Core
from master.controllers.table import Controllers
from master.current_topology import CurrentTopology
from master.wiring.check import PlanFile, PlanSource, WiringCheck, WiringCollector
from master.wiring.netbox import NetBoxPlan, netbox_settings
from topo.diagnosis.wiring.cost import Job


def build_wiring(
    core: Core,
    availability: Availability,
    controllers: Controllers,
    topology: Callable[[], CurrentTopology],
) -> WiringCheck | None:
    """Return what compares the plan with the cables; None in a master without one."""
    source = _source(core)
    if source is None:
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
        source=source,
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


def _source(core: Core) -> PlanSource | None:
    """Return who has the plan; the settings name one at most."""
    settings = core.settings
    if settings.wiring_plan is not None:
        return PlanFile(settings.wiring_plan)
    if not settings.wiring_netbox_address:
        return None
    peer = netbox_settings(
        settings.wiring_netbox_address,
        settings.wiring_netbox_token_file,
        settings.wiring_netbox_ca_file,
    )
    return NetBoxPlan(peer, core.registry, core.engine.clock)
