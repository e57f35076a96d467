"""All dashboards, in the order in which one looks at them."""

from monitoring.dashboards.capacity import CAPACITY
from monitoring.dashboards.internals import INTERNALS
from monitoring.dashboards.node import NODE
from monitoring.dashboards.overview import OVERVIEW
from monitoring.dashboards.placement import PLACEMENT

BOARDS = (OVERVIEW, CAPACITY, PLACEMENT, INTERNALS, NODE)
