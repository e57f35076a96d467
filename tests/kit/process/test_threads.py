"""A thread that computes does not keep the loop waiting."""

import subprocess
import sys
import textwrap

import pytest

from topo.kit.threads import TURN_S, shorten_switch_interval


def test_a_thread_that_computes_gives_way_ten_times_as_soon_as_python_would_let_it() -> None:
    """A loop gives way with each read and write of TLS, so it may wait as often."""
    before_s = sys.getswitchinterval()
    try:
        shorten_switch_interval()
        assert sys.getswitchinterval() == pytest.approx(TURN_S)
        assert before_s / 10 >= TURN_S
    finally:
        sys.setswitchinterval(before_s)


def ended(call: str) -> subprocess.CompletedProcess[str]:
    """A process that ends while this call is under way in a thread."""
    program = f"""
        import sys, threading, time
        from topo.kit.threads import DAEMON_THREADS
        began = threading.Event()
        def call():
            began.set()
            {call}
        DAEMON_THREADS.submit(call)
        began.wait()
        sys.exit(3)
    """
    argv = (sys.executable, "-c", textwrap.dedent(program))
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def test_a_process_that_ends_lets_the_calls_in_threads_end_first() -> None:
    """OpenSSL takes itself down at the end: a thread inside of it would end all with signal 11."""
    found = ended("time.sleep(0.2); print('whole', flush=True)")
    assert (found.returncode, found.stdout, found.stderr) == (3, "whole\n", "")


def test_a_call_that_hangs_keeps_no_process_from_ending() -> None:
    """The guard of two minutes is far from the second that it is given."""
    assert ended("time.sleep(3600)").returncode == 3
