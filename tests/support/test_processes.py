"""What tests know and want of their processes."""

import signal
import subprocess

from tests.support.processes import end_by_ctrl_c


def test_ctrl_c_ends_a_process_of_a_run_in_the_background():
    """As under `make test &`: the shell has this process ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        end_by_ctrl_c()
        with subprocess.Popen(["sleep", "60"]) as child:
            child.send_signal(signal.SIGINT)
            assert child.wait() == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)
