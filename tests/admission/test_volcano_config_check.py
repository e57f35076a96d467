"""Whether Volcano's scheduler heeds groups, as its ConfigMap says: told, measured, and mended."""

import asyncio
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import prometheus_client as prom
import pytest
import yaml

from master.admission.volcano_config_check import POLL_S, ConfigMapName, SchedulerConfigReader
from master.kube.client import Call
from master.kube.errors import Failure, KubeError

pytestmark = pytest.mark.virtual_time
KEY = "volcano-scheduler.conf"
_MANUAL = Path(__file__).parents[1] / "e2e" / "scheduling" / "vendor"
VENDORS, REGULAR = (
    yaml.safe_load((_MANUAL / f"volcano-scheduler-{each}.yaml").read_text())["data"][KEY]
    for each in ("supernode", "regular")
)
AWARE = """\
actions: "allocate"
tiers:
- plugins:
  - name: somebody-elses
- plugins:
  - name: network-topology-aware
"""
FLOW = 'tiers: [{plugins: [{name: gang}, {name: "nodeorder"}]}]\n'


@dataclass
class OneConfigMap:
    """An API server that has one ConfigMap, or fails."""

    data: dict[str, str] | None = None
    error: KubeError | None = None
    asked: list[Call] = field(default_factory=list)

    async def call(self, call: Call) -> bytes:
        self.asked.append(call)
        if self.error is not None:
            raise self.error
        if self.data is None:
            raise KubeError("not found", status=404)
        return orjson.dumps({"metadata": {"name": "conf"}, "data": self.data})


@dataclass
class Reading:
    """A reader that has looked."""

    server: OneConfigMap
    reader: SchedulerConfigReader
    registry: prom.CollectorRegistry

    def state(self) -> list[str]:
        """What the metric says."""
        (family,) = self.registry.collect()
        return [each.labels["heeding"] for each in family.samples if each.value]


async def read(server: OneConfigMap, after_s: float = 1.0) -> Reading:
    registry = prom.CollectorRegistry()
    resources = ("metax-tech.com/gpu", "nvidia.com/gpu")
    reader = SchedulerConfigReader(server, ConfigMapName("vs", "conf"), resources, registry)
    found = Reading(server, reader, registry)
    assert found.state() == ["unasked"]
    with suppress(TimeoutError):
        async with asyncio.timeout(after_s):
            await reader.run()
    return found


@pytest.mark.parametrize(
    ("written", "weights"),
    [
        ("{weight: 1, loss.weight: 0.5}", (1.0, 0.5)),
        ("{weight: 2, loss.weight: 0}", (2.0, 0.0)),
        ("{loss.weight: 3}", (1.0, 3.0)),
        ("{weight: -1, loss.weight: much}", (1.0, 0.5)),
        ("{weight: .inf, loss.weight: true}", (1.0, 0.5)),
        ("none", (1.0, 0.5)),
    ],
)
async def test_the_arguments_of_gpu_aware_are_those_of_the_configuration(written, weights):
    before, found_there, _ = REGULAR.partition(
        " # add it to enable gpu-ware plugin\n      weight: 1"
    )
    assert found_there
    found = await read(OneConfigMap({KEY: f"{before} {written}\n"}))
    assert found.reader.link_weights == weights
    without = await read(OneConfigMap({KEY: AWARE}))
    assert without.reader.link_weights == (1.0, 0.5)


async def test_a_configuration_that_cannot_be_read_for_once_keeps_the_arguments():
    server = OneConfigMap({KEY: REGULAR.replace("loss.weight: 0.5", "loss.weight: 0.25")})
    found = await read(server)
    server.error = KubeError("away", status=503)
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await found.reader.run()
    assert found.state() == ["unreadable"]
    assert found.reader.link_weights == (1.0, 0.25)


async def test_a_configuration_with_the_plugin_needs_no_words():
    found = await read(OneConfigMap({KEY: AWARE}))
    assert (found.reader.unheeded, found.reader.warnings) == ("", ())
    assert found.state() == ["heeded"]
    (call,) = found.server.asked
    assert (call.method, call.path) == ("GET", "/api/v1/namespaces/vs/configmaps/conf")


@pytest.mark.parametrize(
    "conf",
    [
        VENDORS,
        AWARE.replace("network-topology-aware", "gang"),
        VENDORS.replace("plugins:", "plugins: # these"),
    ],
)
async def test_without_the_plugin_the_warning_has_the_patch_that_adds_it_and_nothing_else(conf):
    found = await read(OneConfigMap({KEY: conf, "more": "x"}))
    assert found.state() == ["ignored"]
    assert found.reader.ignored == found.reader.unheeded != ""
    (warning,) = found.reader.warnings
    assert warning.code == "volcano-ignores-groups"
    assert "without its plugin network-topology-aware (ConfigMap vs/conf)" in warning.text
    _, command = warning.fix.split("\n")
    *keys, patch = shlex.split(command)
    assert keys == ["kubectl", "-n", "vs", "patch", "configmap", "conf", "--type=merge", "-p"]
    (text,) = orjson.loads(patch)["data"].values()
    before, after = yaml.safe_load(conf), yaml.safe_load(text)
    plugin, *rest = after["tiers"][-1]["plugins"]
    assert plugin == {
        "name": "network-topology-aware",
        "arguments": {"hypernode.binpack.resources": "metax-tech.com/gpu,nvidia.com/gpu"},
    }
    after["tiers"][-1]["plugins"] = rest
    assert after == before
    assert [line for line in text.splitlines() if line in conf.splitlines()] == conf.splitlines()
    again = await read(OneConfigMap({KEY: text}))
    assert again.state() == ["heeded"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"enqueue, allocate, backfill"', "enqueue, allocate, preempt, backfill"),
        ("allocate", "allocate, preempt"),
        ("'enqueue,backfill'  # ours", "enqueue, backfill, preempt"),
    ],
)
async def test_without_the_action_preempt_the_warning_has_the_patch_that_adds_it(
    written: str, expected: str
):
    conf = AWARE.replace('"allocate"', written)
    found = await read(OneConfigMap({KEY: conf}))
    assert "preempt is not among its actions" in found.reader.evicts_nobody
    (warning,) = found.reader.preemption_warnings
    assert warning.code == "volcano-evicts-nobody"
    assert "enablePreemptable: false" in warning.fix
    _, command = warning.fix.split("\n")
    (text,) = orjson.loads(shlex.split(command)[-1])["data"].values()
    before, after = yaml.safe_load(conf), yaml.safe_load(text)
    assert after == {**before, "actions": expected}
    again = await read(OneConfigMap({KEY: text}))
    assert (again.reader.evicts_nobody, again.reader.preemption_warnings) == ("", ())


async def test_the_action_gangpreempt_evicts_as_well_and_is_not_joined_by_preempt():
    found = await read(OneConfigMap({KEY: AWARE.replace('"allocate"', '"allocate, gangpreempt"')}))
    assert (found.reader.evicts_nobody, found.reader.joint_warnings) == ("", ())


async def test_where_groups_are_ignored_and_nobody_is_evicted_one_command_mends_both():
    """Each command has all of the configuration, so of two the last would undo the first."""
    found = await read(OneConfigMap({KEY: VENDORS}))
    both = found.reader.joint_warnings
    assert [each.code for each in both] == ["volcano-ignores-groups", "volcano-evicts-nobody"]
    (command,) = {each.fix.split("\n")[1] for each in both}
    (text,) = orjson.loads(shlex.split(command)[-1])["data"].values()
    again = await read(OneConfigMap({KEY: text}))
    assert again.state() == ["heeded"]
    assert again.reader.joint_warnings == ()


async def test_actions_that_are_not_on_one_line_are_said_to_lack_it_without_a_patch():
    found = await read(OneConfigMap({KEY: "actions: >-\n  enqueue,\n  allocate\ntiers: []\n"}))
    (warning,) = found.reader.preemption_warnings
    assert "(enqueue, allocate; ConfigMap vs/conf)" in warning.text
    assert "kubectl" not in warning.fix


async def test_where_nobody_knows_the_configuration_nothing_is_said_of_evictions():
    found = await read(OneConfigMap(None))
    assert (found.reader.evicts_nobody, found.reader.preemption_warnings) == ("", ())


async def test_where_the_text_cannot_be_mended_line_by_line_it_is_said_what_to_add():
    found = await read(OneConfigMap({KEY: FLOW}))
    assert found.state() == ["ignored"]
    (warning,) = found.reader.warnings
    assert "add the plugin network-topology-aware to its last plugins" in warning.fix


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({KEY: "tiers: {plugins: []}"}, "tiers"),
        ({KEY: "tiers:\n- plugins: gang\n"}, "tiers[0].plugins"),
        ({KEY: "tiers:\n- plugins:\n  - gang\n"}, "tiers[0].plugins[0]"),
        ({KEY: "tiers: [\n"}, "line"),
        ({KEY: "- plugins"}, "mapping"),
        ({KEY: "actions: [allocate]\ntiers: []\n"}, "actions is no text"),
        ({KEY: ""}, "mapping"),
        ({"a": "x", "b": "y"}, "it holds a, b, and no volcano-scheduler.conf"),
        ({}, "it holds nothing"),
    ],
)
async def test_what_is_not_understood_is_not_taken_for_missing(data: dict[str, str], said: str):
    found = await read(OneConfigMap(data))
    assert found.state() == ["unreadable"]
    assert (found.reader.ignored, found.reader.evicts_nobody) == ("", "")
    (warning,) = found.reader.warnings
    assert warning.code == "volcano-configuration"
    assert "is not known" in warning.text
    assert said in warning.text
    assert warning.fix


async def test_a_single_entry_is_the_configuration_whatever_it_is_called():
    assert (await read(OneConfigMap({"scheduler.yaml": AWARE}))).state() == ["heeded"]


@pytest.mark.parametrize(
    ("error", "state", "fix"),
    [
        (None, "missing", "--volcano-config-map=<namespace>/<name>"),
        (KubeError("forbidden", status=403), "unreadable", "the chart's roles"),
        (KubeError("refused", failure=Failure.CONNECT), "unreadable", "API server running"),
    ],
)
async def test_what_cannot_be_read_is_told_with_the_next_step(error: Any, state: str, fix: str):
    found = await read(OneConfigMap(None, error))
    assert found.state() == [state]
    (warning,) = found.reader.warnings
    assert fix in warning.fix
    assert found.reader.unheeded == warning.text


async def test_a_change_is_seen_without_a_restart():
    server = OneConfigMap({KEY: VENDORS})
    found = await read(server)
    server.data = {KEY: AWARE}
    with suppress(TimeoutError):
        async with asyncio.timeout(POLL_S + 1):
            await found.reader.run()
    assert found.state() == ["heeded"]
