"""TLS contexts, waiting times and tokens."""

import ssl
from pathlib import Path

import pytest
from tenacity import Future, RetryCallState, Retrying

from topo.kit.backoff import (
    RETRY_AFTER_CEILING_S,
    RetryLaterError,
    full_jitter,
    parse_retry_after,
    retry_after_or,
)
from topo.kit.tls import client_context, server_context
from topo.kit.tokens import Identity, WorkerTokens, bearer
from topo.model.errors import BadInputError
from topo.model.ids import NodeName


def test_a_client_verifies_unless_told_otherwise(pair: tuple[Path, Path]) -> None:
    strict = client_context(pair[0])
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(strict.get_ca_certs()) >= 1
    loose = client_context(None, verify=False)
    assert (loose.verify_mode, loose.check_hostname) == (ssl.CERT_NONE, False)


def test_a_server_context_needs_a_matching_pair(pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert server_context(*pair).minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(BadInputError, match="cannot be used"):
        server_context(pair[1], pair[0])
    with pytest.raises(BadInputError, match="absent"):
        server_context(tmp_path / "absent", pair[1])


def test_an_unusable_ca_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("not pem")
    with pytest.raises(BadInputError, match="CA file"):
        client_context(tmp_path / "ca")


def _state(attempt: int, error: Exception | None) -> RetryCallState:
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    outcome = Future(attempt)
    if error is None:
        outcome.set_result(None)
    else:
        outcome.set_exception(error)
    state.outcome = outcome
    return state


def test_the_wait_is_jittered_in_full_and_has_a_ceiling() -> None:
    wait = full_jitter(0.1, 5.0)
    early = [wait(_state(1, OSError())) for _ in range(200)]
    late = [wait(_state(50, OSError())) for _ in range(200)]
    assert max(early) <= 0.2
    assert min(late) < 2.5 < max(late) <= 5.0


def test_the_peers_wish_is_heard_within_bounds() -> None:
    wait = retry_after_or(full_jitter(0.1, 0.2))
    assert wait(_state(1, RetryLaterError("busy", 7.0))) == 7.0
    assert wait(_state(1, RetryLaterError("busy", 1e9))) == RETRY_AFTER_CEILING_S
    assert wait(_state(1, RetryLaterError("busy"))) <= 0.2
    assert wait(_state(1, OSError())) <= 0.2
    assert wait(_state(1, None)) <= 0.2


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        ("Thu, 01 Jan 1970 00:16:40 GMT", 100.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, now_s=900.0) == seconds


def test_a_token_stands_for_its_node_or_for_all() -> None:
    tokens = WorkerTokens.parse("# comment\nshared\n\nnode-1 bound # of node-1\n")
    shared, bound = tokens.identify("shared"), tokens.identify("bound")
    assert shared == Identity()
    assert bound == Identity(NodeName("node-1"))
    assert shared is not None
    assert bound is not None
    assert shared.may_report(NodeName("any"))
    assert bound.may_report(NodeName("node-1"))
    assert not bound.may_report(NodeName("node-2"))
    for wrong in ("", "Shared", "shared ", "node-1", "\ud800"):
        assert tokens.identify(wrong) is None
    assert "bound" not in repr(tokens)


def test_a_comment_stands_apart_from_the_token() -> None:
    """A worker sends the whole word of its file, so the whole word is the token here too."""
    tokens = WorkerTokens.parse("  # both\nab#cd#\nnode-1 #ef\t# of node-1\n")
    assert tokens.identify("ab#cd#") == Identity()
    assert tokens.identify("ab") is None
    assert tokens.identify("node-1") == Identity()


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("good\na b c", "line 2", "3 words"),
        ("n1 same\ngood\nn2 same\nn1 same", "lines 1, 3, 4", "2 holders"),
        ("same\ngood\nn2 same", "lines 1, 3", "2 holders"),
        ("x" * 8001 + "\ngood", "line 1", "8001 characters (limit 8000)"),
        ("good\nn1 sécret", "line 2", "no header carries"),
        ("good\nn1 \x00same", "line 2", "no header carries"),
        ("n1 same\x85tail\ngood", "line 1", "3 words"),
        ("a b c\rgood\r\n# d e f\n", "line 1", "3 words"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_unshown_and_the_others_count(
    text: str, where: str, what: str
) -> None:
    tokens = WorkerTokens.parse(text)
    assert tokens.identify("good") == Identity()
    assert len(tokens) == 1, "of two holders none has the token, and no part of a line is one"
    (refused,) = tokens.refused
    assert refused.where == where
    assert what in refused.what
    assert not {"same", "tail", "crét"} & set(str(refused).split())


def test_a_token_that_one_holder_has_twice_counts_once() -> None:
    tokens = WorkerTokens.parse("n1 same\nn1 same # again\n")
    assert (len(tokens), tokens.refused) == (1, ())


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer " + "x" * 9000, None),
    ],
)
def test_the_bearer_token_is_taken_from_its_header(header: str, token: str | None) -> None:
    assert bearer({"Authorization": header}) == token
    assert bearer({}) is None
