"""A board as Grafana's own JSON, by grafana-foundation-sdk."""

import json
from functools import reduce
from itertools import count

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models

from monitoring.dashboards.board import Board, Look, Panel

TAG = "supernode-topology"
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_HEIGHT = {Look.NUMBER: 4, Look.LINES: 8, Look.STACK: 8}


def written(board: Board) -> str:
    """Return the text of its file."""
    made = (
        dashboard.Dashboard(f"Topology: {board.title}")
        .uid(f"topo-{board.name}")
        .description(board.means)
        .tags([TAG])
        .readonly()
        .time("now-6h", "now")
        .refresh("30s")
        .timezone(common.TimeZoneBrowser)
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Topology")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
        .with_variable(_choice(board))
    )
    ids = count(1)
    for section in board.sections:
        made.with_row(dashboard.Row(section.title).id(next(ids)))
        for panel in section.panels:
            shown = _number(panel) if panel.look is Look.NUMBER else _lines(panel)
            made.with_panel(shown.id(next(ids)))
    return json.dumps(made.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def _choice(board: Board) -> dashboard.QueryVariable:
    """Return which masters, or which node, one looks at."""
    name, label = ("node", "Node") if board.of_a_node else ("job", "Masters")
    metric = "topo_worker_build_info" if board.of_a_node else "topo_master_build_info"
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(_SOURCE)
        .query(f"label_values({metric}, {name})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def _number(panel: Panel) -> stat.Panel:
    shown = (
        stat.Panel()
        .title(panel.title)
        .description(panel.means)
        .datasource(_SOURCE)
        .unit(panel.unit.value)
        .span(panel.width)
        .height(_HEIGHT[panel.look])
        .graph_mode(common.BigValueGraphMode.AREA)
        .color_mode(common.BigValueColorMode.VALUE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(panel))
    )
    return reduce(lambda so_far, query: so_far.with_target(query), _targets(panel), shown)


def _lines(panel: Panel) -> timeseries.Panel:
    is_stack = panel.look is Look.STACK
    mode = common.StackingMode.NORMAL if is_stack else common.StackingMode.NONE
    shown = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.means)
        .datasource(_SOURCE)
        .unit(panel.unit.value)
        .min(0)
        .span(panel.width)
        .height(_HEIGHT[panel.look])
        .line_interpolation(common.LineInterpolation.STEP_AFTER)
        .fill_opacity(40 if is_stack else 5)
        .stacking(common_builders.StackingConfig().mode(mode))
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    return reduce(lambda so_far, query: so_far.with_target(query), _targets(panel), shown)


def _targets(panel: Panel) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery()
        .ref_id(chr(ord("A") + at))
        .datasource(_SOURCE)
        .expr(query.expr)
        .legend_format(query.legend or panel.title)
        .range()
        for at, query in enumerate(panel.queries)
    ]


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    """Return the colours: green, red from `bad_from` on, blue without judgement."""
    calm = models.Threshold(value=None, color="blue" if panel.bad_from is None else "green")
    bad = [] if panel.bad_from is None else [models.Threshold(value=panel.bad_from, color="red")]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps([calm, *bad])
