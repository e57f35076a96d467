"""The helper process: loads one vendor library and answers readings on its output.

A vendor's library may hang in its driver or crash; here it takes only this process along. The
worker asks by a line on standard input and gets one line of JSON: `{"state", "text", "detail"}`.
The process ends with its worker: at the end of its input, or by the kernel's parent-death signal
when it hangs. It imports next to nothing, because it lives as long as the worker does.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import BinaryIO

from topo.kit.child_process import die_with_parent
from worker.probes import metax_library

OK, ABSENT, FAILED = "ok", "absent", "failed"

Answer = tuple[str, str, str]
"""State, text, detail."""
Read = Callable[[], Answer]


def main(argv: list[str]) -> int:
    """`helper LIBRARY [PATH]`; LIBRARY is `mxsml` or `nvml`."""
    die_with_parent()
    answers = _take_over_stdout()
    read = _READERS[argv[0]](argv[1] if len(argv) > 1 else None)
    for _ in sys.stdin:
        try:
            state, text, detail = read()
        except Exception as error:  # noqa: BLE001 - our own mistake must reach the worker's log
            state, text, detail = FAILED, "", f"{type(error).__name__}: {error}"
        answer = json.dumps({"state": state, "text": text, "detail": detail})
        answers.write(answer.encode() + b"\n")
        answers.flush()
    return 0


def _take_over_stdout() -> BinaryIO:
    """Our own channel; whatever a library prints goes to standard error instead."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _metax(path: str | None) -> Read:
    libraries: list[metax_library.MetaxLibrary] = []

    def read() -> Answer:
        try:
            if not libraries:
                libraries.append(metax_library.MetaxLibrary(path))
            return OK, libraries[0].read(), ""
        except metax_library.LibraryMissingError as error:
            return ABSENT, "", f"{error} is not on this host"
        except metax_library.CallFailedError as error:
            return FAILED, "", str(error)

    return read


def _nvidia(_path: str | None) -> Read:
    # pynvml costs 4 MiB, which a MetaX host need not pay.
    import pynvml  # noqa: PLC0415

    from worker.probes.nvidia_library import NvidiaLibrary  # noqa: PLC0415

    library = NvidiaLibrary()

    def read() -> Answer:
        try:
            return OK, library.read(), ""
        except pynvml.NVMLError as error:
            missing = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
            return ABSENT if missing else FAILED, "", str(error)

    return read


_READERS: dict[str, Callable[[str | None], Read]] = {"mxsml": _metax, "nvml": _nvidia}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
