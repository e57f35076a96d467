"""Conditions by which schedulers explain how a gang stands."""

from collections.abc import Iterable

from master.kube.schema.slim import slim


@slim
class ExplainedCondition:
    """A condition of which the explanation alone is read."""

    message: str = ""


def explanation(conditions: Iterable[ExplainedCondition]) -> str:
    """Return the first explanation; empty where a scheduler gives none."""
    return next((each.message for each in conditions if each.message), "")
