"""`make site`: the pages of the repository as a site with search, in build/site.

Pages link to each other and to files beside them, as they lie in the repository. So the site has
the same folders: every page, and each other file that a page links to. A link to nothing or to a
heading that is not there ends the build. Nothing in the site is loaded from elsewhere.
"""

import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).parents[2]
CONFIGURATION = Path(__file__).with_name("mkdocs.yml")
_LINK = re.compile(r"""\]\(([^)#\s]+)|(?:src|srcset|href)="([^"#]+)\"""")


def main(to: Path) -> int:
    """Write the site; return the exit code, 1 where a link is broken."""
    with TemporaryDirectory() as folder:
        for path in sorted({*pages(), *linked()}):
            copy = Path(folder, path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, copy)
        config = load_config(str(CONFIGURATION), docs_dir=folder, site_dir=str(to), strict=True)
        try:
            build(config)
        except Abort as refusal:
            sys.stderr.write(f"{refusal}\n")
            return 1
    return 0


def pages() -> Iterator[Path]:
    """Yield the pages that the repository has, as paths from its root."""
    words = ("git", "ls-files", "-co", "--exclude-standard", "*.md")
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    for line in listed.stdout.splitlines():
        if (ROOT / line).exists():
            yield Path(line)


def linked() -> Iterator[Path]:
    """Yield the other files that pages link to; a link to a folder is one to its README.md."""
    for page in pages():
        for match in _LINK.finditer((ROOT / page).read_text("utf-8")):
            place = (ROOT / page).parent / (match[1] or match[2])
            if place.is_file() and place.resolve().is_relative_to(ROOT):
                yield place.resolve().relative_to(ROOT)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    sys.exit(main(Path(sys.argv[1]).resolve()))
