"""The documents of the API: what a reader takes, what a writer leaves out, what is published."""

import gc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.cli import samples
from tests.master.documents import faults
from topo.cli.client.decoding import decode, decode_or_refuse
from topo.kit.serving.problem import problem
from topo.model.errors import Refusal
from topo.model.rest.changes import ChangeDocument
from topo.model.rest.document import validator
from topo.model.rest.fragmentation import FragmentationDocument
from topo.model.rest.generation_id import GenerationId
from topo.model.rest.jobs import JobBody
from topo.model.rest.placements import FitsDocument, HoldDocument, NoFitDocument
from topo.model.rest.service import Problem
from topo.model.rest.topology import SourceDocument, TopologyDocument


@given(
    st.integers(0, 10**18 - 1), st.text("0123456789abcdef", min_size=8, max_size=8) | st.just("")
)
def test_a_generation_is_read_as_it_is_written(number: int, run: str) -> None:
    named = GenerationId(number, run)
    assert GenerationId.read(str(named)) == named
    assert named.is_of(run or "any")
    assert named.previous.number in (number - 1, 0)


@pytest.mark.parametrize(
    "text", ["", "-1", "7.", "7.5e0c21a", "7.5E0C21AF", "\u0667", "1" * 19, "7\n"]
)
def test_other_texts_name_no_generation(text: str) -> None:
    assert GenerationId.read(text) is None


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (TopologyDocument, samples.healthy()),
        (TopologyDocument, samples.inside()),
        (HoldDocument, samples.hold()),
        (FitsDocument, {**samples.placement(), "hold": samples.held()}),
        (NoFitDocument, samples.refusal()),
        (FragmentationDocument, samples.fragmentation()),
        (ChangeDocument, samples.changes()[0]),
    ],
)
def test_a_client_reads_keys_and_words_of_a_later_release(
    kind: Any, document: dict[str, object]
) -> None:
    """It ignores the keys, wherever they are; a test that forbids them finds them."""
    later = {**document, "from_the_future": [1]}
    assert decode(kind, later) == decode(kind, document)
    with pytest.raises(ValidationError, match="from_the_future"):
        validator(kind).validate_python(later, extra="forbid")


def test_a_word_of_a_later_release_is_read_and_is_not_published() -> None:
    state = {**samples.source("workers"), "state": "resting"}
    assert decode(SourceDocument, state)["state"] == "resting"
    schema = validator(SourceDocument).json_schema(mode="serialization")
    assert faults(state, schema, {}) == [
        "$.state: 'resting' against enum ['ok', 'waiting', 'failing']"
    ]


def test_what_is_no_document_is_refused_by_its_field_and_the_collector_goes_on() -> None:
    assert gc.isenabled()
    refusal = decode_or_refuse(TopologyDocument, {"generation": "seven", "groups": []})
    assert isinstance(refusal, Refusal)
    assert refusal.where == "generation"
    assert gc.isenabled()


def test_a_body_is_taken_as_it_is_described_and_nothing_else() -> None:
    JobBody.model_validate_json('{"pods": 1, "gpus_per_pod": 8}')
    for text in ('{"pods": "1", "gpus_per_pod": 8}', '{"pods": 1, "gpus_per_pod": 8, "x": 1}'):
        with pytest.raises(ValidationError):
            JobBody.model_validate_json(text)


def test_a_problem_says_only_what_is_known() -> None:
    body = problem(404, "x").body
    assert isinstance(body, bytes)
    assert orjson.loads(body).keys() == Problem.__required_keys__


def test_a_reader_fills_in_what_an_earlier_release_does_not_send() -> None:
    source = decode(SourceDocument, {"source": "workers", "state": "ok"})
    assert source == {
        "source": "workers",
        "state": "ok",
        "age_s": None,
        "failing_s": None,
        "trouble": "",
        "fix": "",
        "warnings": (),
        "detail": "",
    }


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"name": "n", "pods": 1}, []),
        ({"name": "n"}, ["$.pods is missing"]),
        ({"name": "n", "pods": 1, "more": 2}, ["$.more is not described"]),
        ({"name": 3, "pods": 1}, ["$.name: 3 is no string"]),
        (
            {"name": "", "pods": True},
            ["$.name: '' against minLength 1", "$.pods: True is no integer"],
        ),
    ],
)
def test_the_tests_reader_finds_what_is_not_published(value: object, fault: list[str]) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1}, "pods": {"type": "integer"}},
        "required": ["name", "pods"],
    }
    assert faults(value, schema, {}) == fault
