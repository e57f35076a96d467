"""A thread that computes does not keep the loop waiting."""

import sys

import pytest

from topo.kit.threads import TURN_S, favour_the_loop


def test_a_thread_that_computes_gives_way_ten_times_as_soon_as_python_would_let_it() -> None:
    """A loop gives way with each read and write of TLS, so it may wait as often."""
    before_s = sys.getswitchinterval()
    try:
        favour_the_loop()
        assert sys.getswitchinterval() == pytest.approx(TURN_S)
        assert before_s / 10 >= TURN_S
    finally:
        sys.setswitchinterval(before_s)
