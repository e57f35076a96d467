"""The helper process: loads one vendor library and answers readings on its output.

A vendor's library may hang in its driver or crash; here it takes only this process along. The
worker asks by a line on standard input and gets one line of JSON: `{"state", "text", "detail"}`.
The process ends with its worker: at the end of its input, or by the kernel's parent-death signal
when it hangs. It imports next to nothing, because it lives as long as the worker does.

`open_library(*arguments)` of the module that binds the library gives the function that reads it.
That function returns the text, or raises `AbsentError` or `FailedError`.
"""

import importlib
import json
import os
import sys
from typing import BinaryIO

from topo.kit.process.child_process import die_with_parent
from worker.probes.library import AbsentError, FailedError


def main(argv: list[str]) -> int:
    """`helper MODULE [ARGUMENT…]`."""
    die_with_parent()
    answers = _take_over_stdout()
    read = importlib.import_module(argv[0]).open_library(*argv[1:])
    for _ in sys.stdin:
        try:
            state, text, detail = "ok", read(), ""
        except AbsentError as error:
            state, text, detail = "absent", "", str(error)
        except FailedError as error:
            state, text, detail = "failed", "", str(error)
        except Exception as error:  # noqa: BLE001 - our own mistake must reach the worker's log
            state, text, detail = "failed", "", f"{type(error).__name__}: {error}"
        answer = json.dumps({"state": state, "text": text, "detail": detail})
        answers.write(answer.encode() + b"\n")
        answers.flush()
    return 0


def _take_over_stdout() -> BinaryIO:
    """Our own channel; whatever a library prints goes to standard error instead."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
