"""What a worker may say: whatever the wire takes, the master can keep, compare and tell."""

import json
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from topo.model.machine import Link, LinkKind
from topo.model.wire import Report


def report(**sections: Any) -> bytes:
    """A full report of those sections."""
    facts = {"identity": {"name": "n1", "boot_id": "b"}, **sections}
    head = {"node": "n1", "instance": "instance-1", "seq": 0, "kind": "full"}
    return json.dumps({**head, "facts": facts}).encode()


def gpu(**more: Any) -> dict[str, Any]:
    return {"gpus": [{"index": 0, **more}]}


def port(**more: Any) -> dict[str, Any]:
    return {"ports": [{"gpu": 0, "port": 0, "state": "up", **more}]}


def matrix(**more: Any) -> dict[str, Any]:
    return {"matrix": {"gpus": ["GPU0"], "nics": [], "links": [], **more}}


def fabric(**more: Any) -> dict[str, Any]:
    return {"fabrics": [{"gpu": 0, "state": "Completed", **more}]}


CELL = {"kind": "X", "code": "X"}
HUGE = 10**30


@pytest.mark.parametrize(
    ("sections", "where"),
    [
        (gpu(memory_bytes=HUGE), "gpus.0.memory_bytes"),
        (gpu(numa=HUGE), "gpus.0.numa"),
        (gpu(numa=-1), "gpus.0.numa"),
        (gpu(uuid="9" * 5000), "gpus.0.uuid"),
        (gpu(bdf="9" * 5000), "gpus.0.bdf"),
        (port(width=HUGE), "ports.0.width"),
        (port(speed_gts=float("inf")), "ports.0.speed_gts"),
        (port(speed_gts=float("nan")), "ports.0.speed_gts"),
        (matrix(unknown_codes=HUGE), "matrix.unknown_codes"),
        (matrix(numa=[HUGE]), "matrix.numa.0"),
        (matrix(numa=[None] * 1000), "matrix.numa"),
        (matrix(cpus=["0" * 1000]), "matrix.cpus.0"),
        (matrix(cpus=[""] * 1000), "matrix.cpus"),
        (matrix(links=[[CELL] * 1000]), "matrix.links.0"),
        (fabric(clique=HUGE), "fabrics.0.clique"),
        ({"peers": {"local": "9" * 5000}}, "peers.local"),
        ({"peers": {"local": "a", "remotes": [{"slot": 1, "uuid": "9" * 5000}]}}, "peers.remotes"),
        (
            {"nics": [{"hca": "m", "port": 1, "up": True, "rate_gbps": float("nan")}]},
            "nics.0.rate_gbps",
        ),
    ],
)
def test_what_no_host_has_is_refused_with_its_place(sections: dict[str, Any], where: str) -> None:
    """A number beyond 64 bits could not be told to anybody, NaN equals not even itself."""
    with pytest.raises(ValidationError) as refused:
        Report.model_validate_json(report(**sections))
    place = ".".join(str(part) for part in refused.value.errors()[0]["loc"])
    assert place.startswith(f"facts.{where}")


def test_the_most_that_a_host_may_have_is_taken_and_can_be_told() -> None:
    sections = {
        **gpu(memory_bytes=1 << 60, numa=1023, uuid="u" * 128),
        **port(width=1024, speed_gts=1e6),
        **matrix(links=[[CELL] * 384] * 384, numa=[None] * 128, cpus=["0" * 512] * 128),
        **fabric(clique=(1 << 32) - 1),
    }
    taken = Report.model_validate_json(report(**sections)).facts
    assert taken is not None
    assert orjson.loads(orjson.dumps(taken))["gpus"][0]["memory_bytes"] == 1 << 60


def test_a_kind_of_link_of_a_later_release_is_unknown_and_costs_no_report() -> None:
    """Its code stays, so people see what it is."""
    cell = {"kind": "LASER", "code": "LASER"}
    facts = Report.model_validate_json(report(**matrix(links=[[cell]]))).facts
    assert facts is not None
    assert facts.matrix is not None
    assert facts.matrix.links == ((Link(LinkKind.UNKNOWN, "LASER"),),)
