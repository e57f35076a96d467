"""A process that ends with its parent, and is otherwise the program itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import CEILING_S
from topo.kit.process import child_process


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """The command, run to its end."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=CEILING_S)


def test_a_tied_program_is_the_program() -> None:
    """Its arguments, its output, its exit status."""
    done = run(
        *child_process.die_with_parent_command("/bin/sh", "-c", 'echo "$0 $1"; exit 7', "a", "b c")
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "a b c\n", "")


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    """As a shell would: exit status 126."""
    program = str(tmp_path / "none")
    done = run(sys.executable, "-m", "topo.kit.process.child_process", str(os.getpid()), program)
    assert done.returncode == child_process.CANNOT_START
    assert done.stderr == "it cannot be started: No such file or directory\n"


def test_a_process_whose_parent_is_gone_already_does_not_begin() -> None:
    """It was started by another process than it names."""
    done = run(sys.executable, "-m", "topo.kit.process.child_process", "1", "/bin/echo", "ran")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_tied_process_dies_with_a_parent_that_was_killed() -> None:
    """It never hears of it: the kernel ends it."""
    script = (
        "import subprocess, time\n"
        "from topo.kit.process.child_process import die_with_parent_command\n"
        "command = die_with_parent_command('/bin/sh', '-c', 'echo $$; exec sleep 600')\n"
        "child = subprocess.Popen(command)\n"
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().strip().isdigit()
        parent.send_signal(signal.SIGKILL)
        assert parent.stdout.read() == ""  # its end: the child, too, has let go of it
