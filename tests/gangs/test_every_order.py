"""Every order of two writers, a scheduler and a foreign pod, on models small enough for all."""

import pytest

from tests.gangs.small_model import Model, Setting
from topo.gangs.machine.gang import Binding

OURS = ("look", "write", "late", "never", "bind", "try", "wait")


def explored(setting: Setting) -> int:
    """Goes through all states, each judged; how many there are. Names the way to a bad one."""
    model = Model(setting)
    start = model.start()
    ways: dict[str, tuple[str, str] | None] = {start.key: None}
    todo = [(start, start.key)]
    while todo:
        state, key = todo.pop()
        rests = True
        try:
            model.judge(state)
            for name, after in model.following(state):
                after_key = after.key
                rests = rests and (not name.startswith(OURS) or after_key == key)
                if after_key not in ways:
                    ways[after_key] = key, name
                    todo.append((after, after_key))
            if rests:
                model.judge_rest(state)
        except Exception as error:
            raise AssertionError(f"{error} after: {', '.join(_way(ways, key))}") from error
    return len(ways)


def _way(ways: dict[str, tuple[str, str] | None], key: str) -> list[str]:
    names: list[str] = []
    while (step := ways[key]) is not None:
        key, name = step
        names.append(name)
    return names[::-1]


TWO_WRITERS = [Setting(2, 2, binding) for binding in Binding]
FOREIGN_POD = [Setting(2, 2, Binding.WHOLE, takes=(0,), second=False)]
OVER_OTHERS = [Setting(2, 1, Binding.WHOLE, takes=(0,), second=False, over=True)]
LARGER = [
    Setting(2, 2, Binding.POD_GROUP, takes=(0,), second=False),
    Setting(4, 3, Binding.WHOLE, takes=(0,), second=False),
]
LARGEST = [
    Setting(2, 1, Binding.PIECEMEAL, takes=(0,), second=False, over=True),
    Setting(2, 1, Binding.WHOLE, takes=(0,), over=True),
    Setting(2, 2, Binding.WHOLE, takes=(0,)),
    Setting(2, 2, Binding.PIECEMEAL, takes=(0,), second=False),
    Setting(4, 3, Binding.POD_GROUP, takes=(0,), second=False),
]


@pytest.mark.parametrize(
    "setting",
    [
        *TWO_WRITERS,
        *FOREIGN_POD,
        *OVER_OTHERS,
        *(pytest.param(each, marks=pytest.mark.slow) for each in LARGER),
        *(pytest.param(each, marks=pytest.mark.deep) for each in LARGEST),
    ],
    ids=lambda setting: (
        f"{setting.pods}-{setting.dragonflies}-{setting.binding}-{setting.second}-{setting.over}"
    ),
)
def test_no_order_of_events_splits_a_group_or_leaves_a_gang_waiting_in_vain(
    setting: Setting,
) -> None:
    """Groups of two pods that fill a dragonfly; the first planned node is the one that is taken."""
    assert explored(setting) > 100
