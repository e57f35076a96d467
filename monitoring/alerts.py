"""When somebody is called, and what they are told first; docs/operations.md has the rest.

The masters of a cluster tell the same of it, so each question is put to all of them together.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from topo.model.conditions.gang_states import GangState

PAGE = "docs/operations.md"
"""Where each alert has a heading."""
RUNBOOK = "runbook"
"""The annotation with that place in the repository. It is no URL, which only an installation knows:
the chart makes it a `runbook_url` where the address of the page is given."""
GROUP = "supernode-topology"
_EACH = "job, namespace"
_PROMPT_STATES = "|".join(state for state in GangState if state.row.is_prompt)


class Severity(StrEnum):
    """Who is called: `critical` somebody at night, `warning` somebody in the morning."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Alert:
    """`summary` is one sentence, a template of Prometheus; `for_s`: how long it may be so."""

    name: str
    expr: str
    for_s: int
    severity: Severity
    summary: str

    def rule(self, for_s: int) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": f"{for_s}s",
            "labels": {"severity": self.severity.value},
            "annotations": {
                "summary": self.summary,
                RUNBOOK: f"{PAGE}#{self.name.lower()}",
            },
        }


def _most(metric: str, label: str = "") -> str:
    """Return the highest of what the masters tell, for each value of the label."""
    return f"max by ({_EACH}{', ' if label else ''}{label}) ({metric})"


def _counted(noun: str) -> str:
    """Return the template of the value with its noun in the number that it needs."""
    return "{{ $value }} " + noun + "{{ if ne $value 1.0 }}s{{ end }}"


def _happened(counter: str) -> str:
    return f"sum by ({_EACH}) (increase({counter}[15m])) > 0"


def _ends_soon(which: str, name: str) -> str:
    """Return the rule of the last sixth of a life, at most a week: renewal was due before."""
    begins, ends = (
        f"topo_master_{which}certificate_{edge}_timestamp_seconds" for edge in ("begin", "end")
    )
    left = f"({ends} > 0) - time()"
    soon = f"min by ({_EACH}) ({left} < {7 * 86400} and {left} < ({ends} - {begins}) / 6)"
    return f'label_replace({soon}, "certificate", "{name}", "", "")'


def _errors_rise(most: int, kinds: str = "") -> str:
    """Return the rule of more errors than `count` within a quarter of an hour on one link."""
    series = f"topo_worker_link_errors_total{kinds}[15m]"
    return f"sum by ({_EACH}, node, gpu, link) (increase({series})) > {most}"


_HARMFUL = '{kind=~"recovery|recovery-failed|link-integrity|uncorrected"}'
"""Errors that interrupt a link; the others are mended as they come, at the price of speed."""
_SUSPECTED = "link-suspected|links-suspected-together"
_IGNORED = 'topo_master_volcano_groups{heeding="ignored"}'
_NATIVE = 'topo_master_gangs{reason="native"}'
_READY = 'topo_master_nodes{status="Ready"}'
_OF_SILENCE, _OF_TROUBLE = (f'{sign}"worker-stale|no-worker"' for sign in ("=~", "!~"))
_REFUSED_REPORTS = 'topo_master_source_warnings{source="workers"}'
_REASON = "topo_master_node_reasons"
_NOTED = f"link-degraded|super-pod-incomplete|quarantined|{_SUSPECTED}"
"""Conflicts in which nothing is contradicted."""
_NEW_REASONS = f"{_most(f'({_REASON} - ({_REASON} offset 1h or {_REASON} * 0))', 'reason')} > 0"
_SHRANK = (
    f"(min by ({_EACH}) ({_READY} and on (instance) topo_master_ready == 1)"
    f" < 0.8 * {_most(f'max_over_time({_READY}[1h])')})"
)
_MOST_NODES = f"topk by ({_EACH}) (1, {_NEW_REASONS}) and on ({_EACH}) {_SHRANK}"
"""Of a forest that shrank the reason that most nodes got within the hour: it is the alert of it,
and no second one."""


def _nodes(reasons: str) -> str:
    """Return the rule of nodes with such reasons, which a forest that shrank tells itself."""
    found = f"{_most(f'topo_master_node_reasons{{reason{reasons}}}', 'reason')} > 0"
    return f"({found}) unless on ({_EACH}, reason) ({_MOST_NODES})"


_SILENT = f"{_most(f'{_REASON}{{reason{_OF_SILENCE}}}', 'reason')}"
_EXPLAINED = f"{_SILENT} <= on ({_EACH}) group_left () 2 * {_most(_REFUSED_REPORTS)}"
"""No more silent nodes than refused workers may be the reason of: one warning names a token, and
a node may be silent before its worker is refused."""

ALERTS = (
    Alert(
        "TopoSourceStale",
        f"{_most('topo_master_source_failing', 'source')} == 1"
        f" or {_most('topo_master_kube_last_heard_age_seconds', 'resource')} > 140",
        300,
        Severity.WARNING,
        "Nothing good is heard of {{ or $labels.source $labels.resource }};"
        " what it said last is shown.",
    ),
    Alert(
        "TopoReportsRefused",
        f"{_most(_REFUSED_REPORTS)} > 0",
        60,
        Severity.WARNING,
        "Reports of workers are refused, mostly for their tokens; their nodes fall silent.",
    ),
    Alert(
        "TopoWorkersLost",
        f"({_nodes(_OF_SILENCE)}) unless on ({_EACH}, reason) ({_EXPLAINED})",
        300,
        Severity.WARNING,
        f"Workers say nothing: {_counted('node')} ({{{{ $labels.reason }}}}).",
    ),
    Alert(
        "TopoNodesNotReady",
        _nodes(_OF_TROUBLE),
        300,
        Severity.WARNING,
        f"Not Ready, and without jobs: {_counted('node')} ({{{{ $labels.reason }}}}).",
    ),
    Alert(
        "TopoGroupDegraded",
        f"{_most('topo_master_groups_not_ready_alone', 'kind')} > 0",
        600,
        Severity.WARNING,
        f"Not Ready although its nodes are: {_counted('group')} of kind {{{{ $labels.kind }}}}.",
    ),
    Alert(
        "TopoLinkErrors",
        f"{_errors_rise(0, _HARMFUL)} or {_errors_rise(900)}",
        300,
        Severity.WARNING,
        "Errors rise on link {{ $labels.link }} of GPU {{ $labels.gpu }} of {{ $labels.node }}.",
    ),
    Alert(
        "TopoLinkSuspected",
        _most(f'topo_master_conflicts{{code=~"{_SUSPECTED}"}}', "code") + " > 0",
        60,
        Severity.WARNING,
        f"{_counted('finding')} of links that fail again and again ({{{{ $labels.code }}}}).",
    ),
    Alert(
        "TopoForestShrank",
        f"({_MOST_NODES}) or {_SHRANK} unless on ({_EACH}) ({_NEW_REASONS})",
        120,
        Severity.CRITICAL,
        "Within an hour more than a fifth of the nodes stopped being Ready:"
        f" {{{{ if $labels.reason }}}}{_counted('node')} {{{{ $labels.reason }}}}"
        "{{ else }}{{ $value }} are left{{ end }}.",
    ),
    Alert(
        "TopoSourcesDisagree",
        _most(f'topo_master_conflicts{{code!~"{_NOTED}"}}', "code") + " > 0",
        600,
        Severity.WARNING,
        f"{_counted('statement')} contradicted ({{{{ $labels.code }}}}).",
    ),
    Alert(
        "TopoCablesDiffer",
        _most('topo_master_wiring_cables{verdict!~"right|unseen"}', "verdict") + " > 0",
        600,
        Severity.WARNING,
        f"Not as the plan has them: {_counted('cable')} ({{{{ $labels.verdict }}}}).",
    ),
    Alert(
        "TopoGangWaitsWithRoom",
        _most(
            f'topo_master_gang_longest_seconds{{reason=~"{_PROMPT_STATES}"}}',
            "reason",
        )
        + " > 600",
        60,
        Severity.WARNING,
        "A gang for which there is room, or whose turn it is, does not start:"
        " {{ $labels.reason }} for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "TopoGangDeniedRoom",
        f"{_most('topo_master_gangs_denied_room')} > 0",
        60,
        Severity.WARNING,
        f"Told that there is no room, where a second count finds some: {_counted('gang')}.",
    ),
    Alert(
        "TopoGroupsIgnored",
        f"{_most(_IGNORED)} == 1 and {_most(_NATIVE)} > 0",
        60,
        Severity.WARNING,
        "Volcano chooses the nodes of jobs, and is configured to ignore their groups.",
    ),
    Alert(
        "TopoGangSplit",
        _most('topo_master_gangs{reason="split"}') + " > 0",
        60,
        Severity.WARNING,
        f"A group runs in several domains although it is required whole: {_counted('gang')}.",
    ),
    Alert(
        "TopoGateOpenedUnplanned",
        _happened('topo_master_gang_gates_opened_total{how!="planned"}'),
        0,
        Severity.WARNING,
        "Pods were let go without a plan; their groups may be split.",
    ),
    Alert(
        "TopoNominationMissed",
        _happened('topo_master_gang_pods_bound_total{where="elsewhere"}'),
        0,
        Severity.WARNING,
        "The scheduler bound pods elsewhere than they were planned.",
    ),
    Alert(
        "TopoWebhookBypassed",
        f"{_most('topo_master_gang_pods_without_gate')} > 0",
        60,
        Severity.WARNING,
        f"Made past the webhook, so that nobody places them: {_counted('pod')}.",
    ),
    Alert(
        "TopoNoLeader",
        f"sum by ({_EACH}) (topo_master_leads) == 0 or absent(topo_master_ready)",
        60,
        Severity.CRITICAL,
        "No master leads, or none answers: nothing is placed, and nothing follows the forest.",
    ),
    Alert(
        "TopoGangsUnattended",
        f"{_most('topo_master_gangs_unattended_seconds')} > 120",
        0,
        Severity.CRITICAL,
        "Nobody has placed gangs for {{ $value | humanizeDuration }}: their pods wait.",
    ),
    Alert(
        "TopoCapacityMiscounted",
        _happened("topo_master_capacity_differences_total"),
        0,
        Severity.WARNING,
        "The free capacity of nodes was kept wrongly; a recount has corrected it.",
    ),
    Alert(
        "TopoNodesOverbooked",
        f"{_most('topo_master_overbooked_gpus')} > 0",
        600,
        Severity.WARNING,
        f"Pods and holds take {_counted('GPU')} more than their nodes have.",
    ),
    Alert(
        "TopoCertificateExpiring",
        f"{_ends_soon('admission_', 'webhook')} or {_ends_soon('extender_', 'extender')}"
        f" or {_ends_soon('', 'ports')}",
        300,
        Severity.CRITICAL,
        "The certificate of the {{ $labels.certificate }} ends in {{ $value | humanizeDuration }}.",
    ),
)


def rule_file(alerts: Iterable[Alert] = ALERTS, *, for_s: int | None = None) -> str:
    """Return the rules as Prometheus reads them from a file; with `for_s` each waits so
    long alone.
    """
    rules = [each.rule(each.for_s if for_s is None else for_s) for each in alerts]
    groups = {"groups": [{"name": GROUP, "rules": rules}]}
    text: str = yaml.safe_dump(groups, sort_keys=False, width=100)
    return text
