"""The tables of docs/placement.md and docs/gpus.md are those of the code."""

import re
from itertools import cycle
from pathlib import Path

from topo.model.machine import Link, LinkKind
from topo.placement.gpus.gpu_sets import weight
from topo.placement.job.plan import FitTest, objective_names

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str, head: str) -> list[list[str]]:
    """The rows of the table with this head."""
    text = (DOCS / page).read_text(encoding="utf-8").split(f"\n{head}\n", 1)[1]
    lines = text.split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


WEIGHTS = rows("gpus.md", "| link | weight | reason |")


def test_the_objectives_of_the_page_are_those_of_an_answer_in_their_order() -> None:
    table = rows("placement.md", "| | objective | why at this rank |")
    named = [name for _, cell, _ in table for name in re.findall(r"`(\w+)`", cell)]
    assert named == list(objective_names(2))


def test_the_tests_of_a_job_are_those_of_the_page_in_their_order() -> None:
    table = rows("placement.md", "| failed | there are not enough |")
    assert [name.strip("`") for name, _ in table] == list(FitTest)


def test_the_weight_of_each_link_is_that_of_the_page() -> None:
    told: dict[str, int] = {}
    for links, weights, _ in WEIGHTS:
        names = re.sub(r" \(.*?\)", "", links).split(", ")
        numbers = re.findall(r"\d+", weights)
        told |= {name: int(number) for name, number in zip(names, cycle(numbers), strict=False)}
    kinds = set(LinkKind) - {LinkKind.SELF, LinkKind.NVLINK, LinkKind.UNKNOWN}
    weights_of_code = {kind.value: weight(Link(kind, kind)) for kind in kinds}
    assert {name: told.get(name) for name in weights_of_code} == weights_of_code
    assert told["unknown"] == weight(Link(LinkKind.UNKNOWN, "?"))


def test_an_nvlink_weighs_a_base_and_one_for_each_bonded_link_up_to_the_best() -> None:
    (cell,) = [weights for links, weights, _ in WEIGHTS if links.startswith("NV")]
    base, best = (int(number) for number in re.findall(r"\d+", cell))
    for count in (1, 4, 12):
        assert weight(Link(LinkKind.NVLINK, f"NV{count}", count)) == min(best, base + count)
