"""Checks that Volcano's scheduler is configured for groups of native jobs and for evictions.

Without the plugin Volcano silently ignores groups, without the action it evicts nothing. The
ConfigMap is polled, not watched: it rarely changes, and `get` of one ConfigMap by its name is the
least right there is.
"""

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import orjson
import prometheus_client as prom
import structlog

from master.kube.advice import next_step
from master.kube.client import Caller
from master.kube.errors import Failure, KubeError
from master.kube.objects import CONFIG_MAPS
from master.kube.reading import read
from master.kube.schedulers.volcano_config import (
    SchedulerConfig,
    scheduler_config,
    with_action,
    with_plugin,
)
from topo.gangs.native import PLUGIN
from topo.kit.metrics import gauge, read_each
from topo.model.conditions.master import MasterCondition
from topo.model.errors import Refusal
from topo.model.rest.topology import WarningDocument
from topo.placement.gpus.node_worth import OF_MANUAL, Weights

POLL_S = 10.0
PREEMPT, ALLOCATE = "preempt", "allocate"
EVICTING = frozenset({PREEMPT, "gangpreempt"})
"""Actions of Volcano, of which one evicts. Source: volcano-sh/volcano v1.15.1,
pkg/scheduler/actions/factory.go; `gangpreempt` is new there and replaces `preempt`."""
_log = structlog.get_logger(__name__)


class ConfigState(StrEnum):
    """Whether Volcano honours groups; also the values of a metric's label."""

    HEEDED = "heeded"
    IGNORED = "ignored"
    MISSING = "missing"
    """The ConfigMap does not exist."""
    UNREADABLE = "unreadable"
    """The ConfigMap cannot be read or understood."""
    UNASKED = "unasked"


class ConfigMapName(NamedTuple):
    """Namespace and name of the configuration."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a check: why groups are ignored or may be, and the next step.

    `preemption` warns that no pod is evicted; it is empty if pods are evicted or this is unknown.
    `joint` is the command that fixes both problems. `weights` are those of `gpu-aware`.
    """

    heeding: ConfigState
    why: str = ""
    fix: str = ""
    preemption: tuple[WarningDocument, ...] = ()
    joint: str = ""
    weights: Weights = OF_MANUAL

    @property
    def code(self) -> MasterCondition:
        is_known = self.heeding is ConfigState.IGNORED
        of_unknown = MasterCondition.VOLCANO_CONFIGURATION
        return MasterCondition.VOLCANO_IGNORES_GROUPS if is_known else of_unknown


_NOT_KNOWN = "whether Volcano's scheduler heeds groups is not known"


class SchedulerConfigReader:
    """Polls the ConfigMap; `resources` are the resources that count as whole GPUs."""

    def __init__(
        self,
        client: Caller,
        name: ConfigMapName,
        resources: Sequence[str],
        registry: prom.CollectorRegistry,
    ) -> None:
        self._client, self._name, self._resources = client, name, resources
        self._found = _Found(ConfigState.UNASKED, f"{_NOT_KNOWN}: {name} was not read yet")
        read_each(
            gauge(registry, "topo_master_volcano_groups"),
            ConfigState,
            lambda: {self._found.heeding: 1},
        )

    @property
    def unheeded(self) -> str:
        """Why Volcano ignores groups, or that this is unknown; empty if it honours them."""
        return self._found.why

    @property
    def ignored(self) -> str:
        """Why Volcano certainly ignores groups; otherwise empty."""
        return self._found.why if self._found.heeding is ConfigState.IGNORED else ""

    @property
    def evicts_nobody(self) -> str:
        """Why Volcano evicts no pod for one of higher priority; empty if it may."""
        return next((each.text for each in self._found.preemption), "")

    @property
    def link_weights(self) -> Weights:
        """The arguments of the vendor's plugin `gpu-aware`."""
        return self._found.weights

    @property
    def preemption_warnings(self) -> tuple[WarningDocument, ...]:
        """`evicts_nobody` as warnings with the next step."""
        return self._found.preemption

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """`unheeded` as warnings with the next step."""
        found = self._found
        if not found.why:
            return ()
        return (WarningDocument.of(found.code, found.why, found.fix),)

    @property
    def joint_warnings(self) -> tuple[WarningDocument, ...]:
        """Both warnings with one command: run one by one, the second would undo the first."""
        both = *self.warnings, *self.preemption_warnings
        if not self._found.joint:
            return both
        said = [(each, each.fix.partition("\n")[0]) for each in both]
        joint = self._found.joint
        return tuple(replace(each, fix=f"{fix}\n{joint}") for each, fix in said)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            found = await self._look()
            if found != self._found and found.why:
                _log.warning("Volcano's scheduler", what=found.why, fix=found.fix)
            is_unread = found.heeding is ConfigState.UNREADABLE
            self._found = replace(found, weights=self._found.weights) if is_unread else found
            await asyncio.sleep(POLL_S)

    async def _look(self) -> _Found:
        name = self._name
        try:
            found = await read(self._client, CONFIG_MAPS, name.name, name.namespace)
        except KubeError as error:
            if error.failure is Failure.MALFORMED:
                why = f"{_NOT_KNOWN}: what answers for {name} is none"
                return _Found(ConfigState.UNREADABLE, why, "is this the address of an API server?")
            if error.is_missing:
                fix = "give the one of its scheduler: --volcano-config-map=<namespace>/<name>"
                return _Found(ConfigState.MISSING, f"{_NOT_KNOWN}: there is no {name}", fix)
            why = f"{_NOT_KNOWN}: {name}: {error.message}"
            return _Found(ConfigState.UNREADABLE, why, next_step(error))
        config = scheduler_config(found)
        if isinstance(config, Refusal):
            why = f"{_NOT_KNOWN}: {name} is not understood: {config.what} ({config.where})"
            return _Found(ConfigState.UNREADABLE, why, config.fix)
        weights = config.link_weights
        if PLUGIN in config.plugins:
            preemption = self._preemption(config)
            return _Found(ConfigState.HEEDED, preemption=preemption, weights=weights)
        why = f"Volcano's scheduler ignores groups without its plugin {PLUGIN} ({name})"
        fix, preemption = self._patch(config), self._preemption(config)
        return _Found(ConfigState.IGNORED, why, fix, preemption, self._joint(config), weights)

    def _preemption(self, config: SchedulerConfig) -> tuple[WarningDocument, ...]:
        if not EVICTING.isdisjoint(config.actions):
            return ()
        has = ", ".join(config.actions) or "none"
        why = f"Volcano evicts nobody: {PREEMPT} is not among its actions ({has}; {self._name})"
        text = with_action(config, PREEMPT, after=ALLOCATE)
        needs = "jobs are evicted only where the plugin gang has enablePreemptable: false"
        add = f"add {PREEMPT} to its actions, behind {ALLOCATE}; {needs}"
        fix = add if text is None else f"{add}:\n{self._command(config, text)}"
        return (WarningDocument.of(MasterCondition.VOLCANO_EVICTS_NOBODY, why, fix),)

    def _patch(self, config: SchedulerConfig) -> str:
        """Return how to add the plugin: a sentence, then the command on its own line."""
        text, counted = with_plugin(config, PLUGIN, [self._counted]), self._counted
        if text is None:
            return f"add the plugin {PLUGIN} to its last plugins, with arguments {counted}"
        command = self._command(config, text)
        return f"add it (Volcano reads its configuration anew within a minute or two):\n{command}"

    @property
    def _counted(self) -> str:
        """The plugin argument that lists the resources to count."""
        return f"hypernode.binpack.resources: {','.join(self._resources)}"

    def _joint(self, config: SchedulerConfig) -> str:
        """Return the command that adds plugin and action; empty if one of them is not missing."""
        evicts = not EVICTING.isdisjoint(config.actions)
        acts = None if evicts else with_action(config, PREEMPT, after=ALLOCATE)
        if acts is None:
            return ""
        both = with_plugin(replace(config, text=acts), PLUGIN, [self._counted])
        return self._command(config, both) if both is not None else ""

    def _command(self, config: SchedulerConfig, text: str) -> str:
        patch = orjson.dumps({"data": {config.key: text}}).decode()
        command = f"kubectl -n {self._name.namespace} patch configmap {self._name.name}"
        return f"{command} --type=merge -p {shlex.quote(patch)}"
