"""How a leader's sources fare comes over as it was told, on the follower's clock."""

import pytest

from master.replicas.source_states import MAX_SOURCES, decode, encode
from topo.model.forest import SourceState, SourceWarning
from topo.model.ids import SourceName

ODD = SourceWarning("odd", "a text", 80.0)
MANAGER = SourceState(SourceName("cluster-manager"), 90.0, 95.0, "it is away", "start it", (ODD,))
SILENT = SourceState(SourceName("workers"), None)


def test_what_is_told_at_one_time_is_heard_as_of_another_clock() -> None:
    (manager, silent) = decode(encode((MANAGER, SILENT), now_s=100.0), heard_s=1000.0)
    assert (manager.last_good_at_s, manager.failing_since_s) == (990.0, 995.0)
    assert (manager.trouble, manager.fix, manager.warnings) == (
        MANAGER.trouble,
        MANAGER.fix,
        (SourceWarning("odd", "a text", 980.0),),
    )
    assert silent == SILENT


def test_an_answer_that_was_long_under_way_moves_no_failure() -> None:
    """Else each poll would make every document anew."""
    before = decode(encode((MANAGER,), now_s=100.0), heard_s=1000.0)
    (manager,) = decode(encode((MANAGER,), now_s=101.0), heard_s=1002.5, before=before)
    assert manager.failing_since_s == 995.0
    later = SourceState(SourceName("cluster-manager"), 99.0, 200.0, "again")
    (manager,) = decode(encode((later,), now_s=201.0), heard_s=1101.0, before=before)
    assert manager.failing_since_s == 1100.0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'[{"source":"a"}]',
        b'[{"source":"a","good_age_s":-1,"failing_age_s":null,"trouble":"","fix":"","warnings":[]}]',
        b'[{"source":"a","good_age_s":1e99,"failing_age_s":null,"trouble":"","fix":"","warnings":[]}]',
        encode([SILENT] * (MAX_SOURCES + 1), 1.0),
    ],
)
def test_what_is_no_such_answer_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="validation error"):
        decode(content, 1.0)
