"""Each alert fires when it should, is silent when it should be, and says what docs explain."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.alerts import ALERTS, GROUP, PAGE, RUNBOOK, rule_file

PROMTOOL = shutil.which("promtool")
ROOT = Path(__file__).parents[2]
OPERATIONS = (ROOT / PAGE).read_text()
METRICS = (ROOT / "docs" / "metrics.md").read_text()
NAMES = [each.name for each in ALERTS]
JOB = {"job": "topo-master", "namespace": "topo"}
WHERE = 'job="topo-master",namespace="topo",instance='


@dataclass(frozen=True)
class Example:
    """Series (a name with labels of its own → values, a minute apart), and when to look.

    `summary`: what is said then, empty where nothing may be.
    """

    series: Mapping[str, str]
    at: str
    summary: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def one(name: str, values: str, at: str, summary: str = "", **labels: str) -> Example:
    """An example of one metric of one master, the labels being those of metric and alert."""
    shown = "".join(f',{key}="{value}"' for key, value in labels.items())
    return Example({f'topo_master_{name}{{{WHERE}"a"{shown}}}': values}, at, summary, labels)


def told(name: str, values: str, at: str, summary: str = "", **own: str) -> Example:
    """The same where the alert has none of the metric's labels."""
    found = one(name, values, at, summary, **own)
    return Example(found.series, at, summary)


def lasting(which: str, begin_s: int, end_s: int) -> dict[str, str]:
    """The series of a certificate that holds from then until then."""
    name = f"topo_master_{which}certificate"
    edges = (("begin", begin_s), ("end", end_s))
    return {
        f'{name}_{edge}_timestamp_seconds{{{WHERE}"a"}}': f"{at_s}+0x99" for edge, at_s in edges
    }


def errors(kind: str, values: str, at: str, summary: str = "") -> Example:
    """One counter of a link of a node, as its worker tells it."""
    node = 'job="topo-worker",namespace="topo",node="node-1",gpu="2",link="3"'
    series = f'topo_worker_link_errors_total{{{node},instance="a",kind="{kind}"}}'
    own = {"job": "topo-worker", "node": "node-1", "gpu": "2", "link": "3"}
    return Example({series: values}, at, summary, own)


def native(heeding: str, jobs: int) -> dict[str, str]:
    """The series of a Volcano that is configured so, with so many native jobs."""
    return {
        f'topo_master_volcano_groups{{{WHERE}"a",heeding="{heeding}"}}': "1+0x20",
        f'topo_master_gangs{{{WHERE}"a",reason="native"}}': f"{jobs}+0x20",
    }


DAY_S = 86400
EVIL = "<b>{{ $value }}</b> \u202e" + "n" * 253
FIFTH = "Within an hour more than a fifth of the nodes stopped being Ready: "
SHRANK = f"{FIFTH}70 are left."
REFUSED = "Reports of workers are refused, mostly for their tokens; their nodes fall silent."
RISING = "Errors rise on link 3 of GPU 2 of node-1."
UNPLANNED = "Pods were let go without a plan; their groups may be split."
IGNORED = "Volcano chooses the nodes of jobs, and is configured to ignore their groups."
MISSED = "The scheduler bound pods elsewhere than they were planned."
LEADERLESS = "No master leads, or none answers: nothing is placed, and nothing follows the forest."
LOST = {  # three of eight, one of which has a cable out, too
    f'topo_master_nodes{{{WHERE}"a",status="Ready"}}': "8+0x20 5+0x20",
    f'topo_master_node_reasons{{{WHERE}"a",reason="worker-stale"}}': "0+0x20 3+0x20",
    f'topo_master_node_reasons{{{WHERE}"a",reason="link-down"}}': "0+0x20 1+0x20",
}
FIRES: Mapping[str, tuple[Example, ...]] = {
    "TopoSourceStale": (
        one(
            *("source_failing", "1+0x20", "6m"),
            "Nothing good is heard of cluster-manager; what it said last is shown.",
            source="cluster-manager",
        ),
        one(
            *("kube_last_heard_age_seconds", "150+60x20", "6m"),
            "Nothing good is heard of pods; what it said last is shown.",
            resource="pods",
        ),
    ),
    "TopoReportsRefused": (
        told("source_warnings", "0+0x2 1+0x20", "6m", REFUSED, source="workers"),
    ),
    "TopoWorkersLost": (
        *(
            one(
                *("node_reasons", f"{number}+0x20", "6m"),
                f"Workers say nothing: {words} (worker-stale).",
                reason="worker-stale",
            )
            for number, words in ((3, "3 nodes"), (1, "1 node"))
        ),
        Example(  # one worker with a wrong token does not explain them
            {
                f'topo_master_node_reasons{{{WHERE}"a",reason="worker-stale"}}': "500+0x20",
                f'topo_master_source_warnings{{{WHERE}"a",source="workers"}}': "1+0x20",
            },
            "6m",
            "Workers say nothing: 500 nodes (worker-stale).",
            {"reason": "worker-stale"},
        ),
    ),
    "TopoNodesNotReady": (
        Example(
            {  # told by both masters, said once
                f'topo_master_node_reasons{{{WHERE}{each},reason="link-down"}}': "2+0x20"
                for each in ('"a"', '"b"')
            },
            "6m",
            "Not Ready, and without jobs: 2 nodes (link-down).",
            {"reason": "link-down"},
        ),
    ),
    "TopoGroupDegraded": (
        Example(
            {  # told by both masters, said once
                f'topo_master_groups_not_ready_alone{{{WHERE}{each},kind="dragonfly"}}': "2+0x20"
                for each in ('"a"', '"b"')
            },
            "11m",
            "Not Ready although its nodes are: 2 groups of kind dragonfly.",
            {"kind": "dragonfly"},
        ),
        Example(  # what people call a kind is said as it stands, and is no template
            {f'topo_master_groups_not_ready_alone{{{WHERE}"a",kind="{EVIL}"}}': "1+0x20"},
            "11m",
            f"Not Ready although its nodes are: 1 group of kind {EVIL}.",
            {"kind": EVIL},
        ),
    ),
    "TopoLinkErrors": (
        errors("recovery", "5+0x20 6+0x20", "28m", RISING),
        errors("uncorrected", "0+0x20 1+0x20", "28m", RISING),
        errors("crc", "0+120x40", "28m", RISING),
    ),
    "TopoForestShrank": (
        told("nodes", "100+0x20 70+0x20", "25m", SHRANK, status="Ready"),
        Example(  # a follower that hears nothing of its leader goes on showing what was
            {
                f'topo_master_nodes{{{WHERE}"a",status="Ready"}}': "100+0x20 70+0x20",
                f'topo_master_nodes{{{WHERE}"b",status="Ready"}}': "100+0x40",
                f'topo_master_ready{{{WHERE}"a"}}': "1+0x40",
                f'topo_master_ready{{{WHERE}"b"}}': "1+0x40",
            },
            "25m",
            SHRANK,
        ),
        Example(LOST, "25m", f"{FIFTH}3 nodes worker-stale.", {"reason": "worker-stale"}),
        Example(  # what was so before is not what made it shrink
            {
                f'topo_master_nodes{{{WHERE}"a",status="Ready"}}': "100+0x80 60+0x20",
                f'topo_master_ready{{{WHERE}"a"}}': "1+0x100",
                f'topo_master_node_reasons{{{WHERE}"a",reason="no-worker"}}': "30+0x100",
                f'topo_master_node_reasons{{{WHERE}"a",reason="link-down"}}': "0+0x80 25+0x20",
            },
            "85m",
            f"{FIFTH}25 nodes link-down.",
            {"reason": "link-down"},
        ),
    ),
    "TopoCablesDiffer": (
        one(
            *("wiring_cables", "0+0x2 2+0x20", "14m"),
            "Not as the plan has them: 2 cables (swap).",
            verdict="swap",
        ),
    ),
    "TopoLinkSuspected": (
        one(
            *("conflicts", "2+0x20", "2m"),
            "2 findings of links that fail again and again (link-suspected).",
            code="link-suspected",
        ),
    ),
    "TopoSourcesDisagree": (
        one(
            *("conflicts", "1+0x20", "11m"),
            "1 statement contradicted (wiring-differs-from-manager).",
            code="wiring-differs-from-manager",
        ),
    ),
    "TopoGangWaitsWithRoom": (
        one(
            *("gang_longest_seconds", "0+60x20", "13m"),
            "A gang for which there is room, or whose turn it is, does not start:"
            " opened for 13m 0s.",
            reason="opened",
        ),
    ),
    "TopoGangDeniedRoom": (
        told(
            *("gangs_denied_room", "0+0x2 2+0x9", "5m"),
            "Told that there is no room, where a second count finds some: 2 gangs.",
        ),
    ),
    "TopoGroupsIgnored": (Example(native("ignored", jobs=3), "3m", IGNORED),),
    "TopoGangSplit": (
        told(
            *("gangs", "0+0x2 2+0x9", "5m"),
            "A group runs in several domains although it is required whole: 2 gangs.",
            reason="split",
        ),
    ),
    "TopoGateOpenedUnplanned": (
        told("gang_gates_opened_total", "0+0x5 8+0x9", "7m", UNPLANNED, how="unplanned"),
    ),
    "TopoNominationMissed": (
        told("gang_pods_bound_total", "0+0x5 2+0x9", "7m", MISSED, where="elsewhere"),
    ),
    "TopoWebhookBypassed": (
        told(
            *("gang_pods_without_gate", "4+0x9", "2m"),
            "Made past the webhook, so that nobody places them: 4 pods.",
        ),
    ),
    "TopoNoLeader": (told("leads", "0+0x9", "2m", LEADERLESS),),
    "TopoGangsUnattended": (
        told(
            *("gangs_unattended_seconds", "0+60x9", "3m"),
            "Nobody has placed gangs for 3m 0s: their pods wait.",
        ),
    ),
    "TopoCapacityMiscounted": (
        told(
            *("capacity_differences_total", "0+0x5 1+0x9", "7m"),
            "The free capacity of nodes was kept wrongly; a recount has corrected it.",
        ),
    ),
    "TopoNodesOverbooked": (
        told(
            *("overbooked_gpus", "8+0x30", "12m"),
            "Pods and holds take 8 GPUs more than their nodes have.",
        ),
    ),
    "TopoCertificateExpiring": tuple(
        Example(
            lasting(which, -before_s, 90000),
            "65m",
            f"The certificate of the {name} ends in 23h 55m 0s.",
            {"certificate": name},
        )
        for which, name in (("admission_", "webhook"), ("extender_", "extender"), ("", "ports"))
        for before_s in (6 * DAY_S, 90 * DAY_S)  # it lives for a week, and for three months
    ),
}
SILENT: Mapping[str, tuple[Example, ...]] = {
    "TopoSourceStale": (
        one("source_failing", "1+0x3 0+0x20", "10m", source="config-file"),  # it came back
        one("kube_last_heard_age_seconds", "60+0x20", "10m", resource="pods"),
    ),
    "TopoWorkersLost": (
        one("node_reasons", "0+0x20", "9m", reason="worker-stale"),
        one("node_reasons", "3+0x20", "9m", reason="port-down"),
        Example(LOST, "30m"),  # the forest that shrank tells it
        Example(  # so do the refused reports
            {
                f'topo_master_node_reasons{{{WHERE}"a",reason="worker-stale"}}': "1+0x20",
                f'topo_master_source_warnings{{{WHERE}"a",source="workers"}}': "1+0x20",
            },
            "9m",
        ),
    ),
    "TopoReportsRefused": (
        told("source_warnings", "1+0x20", "9m", source="config-file"),
        told("source_warnings", "0+0x20", "9m", source="workers"),
    ),
    "TopoNodesNotReady": (one("node_reasons", "3+0x20", "9m", reason="worker-stale"),),
    "TopoGroupDegraded": (
        told("groups_not_ready_alone", "0+0x20", "15m", kind="dragonfly"),
        told("groups", "2+0x20", "15m", kind="dragonfly", status="NotReady"),  # its nodes are, too
    ),
    "TopoLinkErrors": (
        errors("crc", "0+10x40", "28m"),  # a few are mended as they come
        errors("recovery", "65535+0x40", "28m"),  # counted before anybody looked
        errors("uncorrected", "7+0x10 0+0x30", "28m"),  # the driver was loaded anew
    ),
    "TopoForestShrank": (
        told("nodes", "100+0x20 85+0x20", "35m", status="Ready"),
        told("nodes", "100+0x5 70+0x90", "80m", status="Ready"),  # so it has been for an hour
        Example(  # a master that starts has no tree to show yet
            {
                f'topo_master_nodes{{{WHERE}"a",status="Ready"}}': "100+0x40",
                f'topo_master_nodes{{{WHERE}"b",status="Ready"}}': "0+0x40",
                f'topo_master_ready{{{WHERE}"a"}}': "1+0x40",
                f'topo_master_ready{{{WHERE}"b"}}': "0+0x40",
            },
            "25m",
        ),
    ),
    "TopoLinkSuspected": (told("conflicts", "4+0x20", "15m", code="quarantined"),),
    "TopoSourcesDisagree": tuple(
        told("conflicts", "4+0x20", "15m", code=code)
        for code in ("link-degraded", "super-pod-incomplete", "link-suspected", "quarantined")
    ),
    "TopoCablesDiffer": tuple(
        told("wiring_cables", "4+0x20", "15m", verdict=verdict) for verdict in ("right", "unseen")
    ),
    "TopoGangWaitsWithRoom": (
        told("gang_longest_seconds", "0+60x90", "80m", reason="no-room"),
        told("gang_longest_seconds", "5+0x90", "80m", reason="placed"),
    ),
    "TopoGangDeniedRoom": (told("gangs_denied_room", "0+0x2 1+0x0 0+0x9", "9m"),),
    "TopoGroupsIgnored": (
        Example(native("ignored", jobs=0), "9m"),
        Example(native("heeded", jobs=3), "9m"),
        Example(native("unreadable", jobs=3), "9m"),
    ),
    "TopoGangSplit": (
        told("gangs", "0+0x20", "9m", reason="split"),
        told("gangs", "3+0x20", "9m", reason="native"),
    ),
    "TopoGateOpenedUnplanned": (
        told("gang_gates_opened_total", "0+9x20", "15m", how="planned"),
        told("gang_gates_opened_total", "8+0x20", "15m", how="unplanned"),  # long ago
    ),
    "TopoNominationMissed": (told("gang_pods_bound_total", "0+9x20", "9m", where="as-planned"),),
    "TopoWebhookBypassed": (told("gang_pods_without_gate", "0+0x20", "9m"),),
    "TopoNoLeader": (
        Example(
            {
                f'topo_master_leads{{{WHERE}"a"}}': "0+0x20",
                f'topo_master_leads{{{WHERE}"b"}}': "1+0x20",
                f'topo_master_ready{{{WHERE}"b"}}': "1+0x20",
            },
            "9m",
        ),
        told("ready", "1+0x20", "9m"),  # outside of Kubernetes nobody leads
    ),
    "TopoGangsUnattended": (told("gangs_unattended_seconds", "15+0x9", "9m"),),
    "TopoCapacityMiscounted": (told("capacity_differences_total", "3+0x30", "20m"),),
    "TopoNodesOverbooked": (told("overbooked_gpus", "8+0x8 0+0x30", "20m"),),  # an eviction
    "TopoCertificateExpiring": (
        Example(lasting("", 0, 0), "65m"),  # there is none
        Example(lasting("admission_", -83 * DAY_S, 8 * DAY_S), "20m"),
        Example(lasting("admission_", -10 * DAY_S, 4 * DAY_S), "65m"),  # of two weeks
        Example(lasting("", -18 * 3600, 6 * 3600), "65m"),  # of a day, renewed within two hours
    ),
}


def _input(series: Mapping[str, str]) -> list[dict[str, str]]:
    there = any("topo_master_ready" in each for each in series)
    ready = {} if there else {f'topo_master_ready{{{WHERE}"a"}}': "1+0x200"}
    return [{"series": name, "values": values} for name, values in (dict(series) | ready).items()]


def _expected(name: str, example: Example) -> list[dict[str, Any]]:
    if not example.summary:
        return []
    (rule,) = (each for each in ALERTS if each.name == name)
    return [
        {
            "exp_labels": {**JOB, **example.labels, "severity": rule.severity.value},
            "exp_annotations": {
                "summary": example.summary,
                RUNBOOK: f"{PAGE}#{name.lower()}",
            },
        }
    ]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian's prometheus) is not installed")
def test_each_alert_fires_when_it_should_and_is_silent_when_it_should_be(tmp_path: Path) -> None:
    assert set(FIRES) == set(SILENT) == set(NAMES)
    tests = [
        {
            "interval": "1m",
            "input_series": _input(each.series),
            "alert_rule_test": [
                {"eval_time": each.at, "alertname": name, "exp_alerts": _expected(name, each)}
            ],
        }
        for examples in (FIRES, SILENT)
        for name, found in examples.items()
        for each in found
    ]
    (tmp_path / "rules.yaml").write_text(rule_file())
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests})
    )
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", str(tmp_path / "tests.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian's prometheus) is not installed")
def test_no_cluster_without_masters_is_taken_for_a_quiet_one(tmp_path: Path) -> None:
    """Where no master is scraped, there is no series to ask: that is told, too."""
    (rule,) = (each for each in ALERTS if each.name == "TopoNoLeader")
    expected = {
        "exp_labels": {"severity": rule.severity.value},
        "exp_annotations": {"summary": LEADERLESS, RUNBOOK: f"{PAGE}#toponoleader"},
    }
    looked = [{"eval_time": "5m", "alertname": rule.name, "exp_alerts": [expected]}]
    test = {"interval": "1m", "input_series": [], "alert_rule_test": looked}
    (tmp_path / "rules.yaml").write_text(rule_file())
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]})
    )
    command = [str(PROMTOOL), "test", "rules", str(tmp_path / "tests.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_heading_that_its_link_leads_to() -> None:
    """With nothing else under "Alerts"; headings are linked by their letters in lower case."""
    section = OPERATIONS.split("\n## Alerts\n")[1].split("\n## ")[0]
    assert re.findall(r"^### (.+)$", section, re.MULTILINE) == NAMES
    for each in ALERTS:
        assert each.rule(0)["annotations"][RUNBOOK] == f"{PAGE}#{each.name.lower()}"


def test_every_metric_that_an_alert_asks_for_is_one() -> None:
    asked = set(re.findall(r"topo_[a-z_]+", " ".join(each.expr for each in ALERTS)))
    known = set(re.findall(r"^\| `(topo_\w+)` \|", METRICS, re.MULTILINE))
    assert len(asked) >= len(ALERTS)
    assert asked <= known


def test_the_rules_of_a_trial_differ_in_nothing_but_how_long_they_wait() -> None:
    (group,) = yaml.safe_load(rule_file(for_s=3))["groups"]
    (kept,) = yaml.safe_load(rule_file())["groups"]
    assert group["name"] == GROUP
    assert {each.pop("for") for each in group["rules"]} == {"3s"}
    for rule in kept["rules"]:
        del rule["for"]
    assert group == kept
