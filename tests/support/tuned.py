"""Run a program with other constants, for tests of processes that would wait for them.

python -m tests.support.tuned worker.probes.probe:READING_TIMEOUT_S=0.3 -- worker FLAG …
"""

import importlib
import runpy
import sys
from collections.abc import Mapping


def command(program: str, constants: Mapping[str, float]) -> tuple[str, ...]:
    """Return the command line of a program (`master`, `worker`) with these constants."""
    changes = (f"{name}={value}" for name, value in constants.items())
    return (sys.executable, "-m", "tests.support.tuned", *changes, "--", program)


def main(words: list[str]) -> None:
    """Set the constants before another module can import them, then run the program."""
    at = words.index("--")
    for change in words[:at]:
        name, _, value = change.partition("=")
        module, _, constant = name.partition(":")
        defined = importlib.import_module(module)
        assert isinstance(getattr(defined, constant), int | float), name
        setattr(defined, constant, float(value))
    sys.argv = words[at + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
