"""Keeps out of the worker what it would import and never use; import this module first.

structlog imports rich, for coloured tracebacks, wherever it is installed: 8 MiB of the 64 that a
worker may have. It does without where the import fails.
"""

import sys

sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
