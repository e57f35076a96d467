"""The pages of a list, as the REST APIs of NetBox and Nautobot answer them.

    {"count": 2, "next": "https://…?limit=1&offset=1", "previous": null, "results": [{"id": …}, …]}

Pages stand one after another, as curl appends them. Together they have to have as many objects as
the first counts, each once, so that a list that was cut off or changed between two pages is
refused. Sources: NetBox 4.4 and Nautobot 3.2, "REST API", pagination. O(size).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from topo.model.errors import Refusal

LEAVING: Final = "decommissioning"
"""The status of a cable that is no longer planned, in lower case."""
_BLANK = re.compile(r"\s*")
_FIX = "give all pages of {}, one after another: the first asks ?limit=200"
_MALFORMED = "these are no pages of {} as NetBox or Nautobot answers them"


def is_json_with(text: str, key: str) -> bool:
    """Return whether a text is JSON that has this key, in its quotes, anywhere."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and key in text


class ListPages:
    """The pages of the list at a path in their order; `take` gets each object. Mutable."""

    def __init__(self, path: str, take: Callable[[Mapping[str, Any]], None]) -> None:
        self._path = path
        self._take = take
        self._ids: set[str] = set()
        self._count = 0
        self.is_last = False
        """Whether no page follows the last one."""

    @property
    def seen(self) -> int:
        """How many objects the pages had so far."""
        return len(self._ids)

    def add(self, page: Any) -> Refusal | None:
        """Take the next page; return why it is none."""
        try:
            self._count = self._count if self._ids else int(page["count"])
            for found in page["results"]:
                name = str(found["id"])
                if name in self._ids:
                    what = f"{name} of {self._path} is there twice: the list changed meanwhile"
                    return Refusal(what, "the pages", "read all pages again")
                self._ids.add(name)
                self._take(found)
            self.is_last = page["next"] is None
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
            return malformed(self._path)
        return None

    def missing(self) -> Refusal | None:
        """Return why the pages are not all, None where they are."""
        if self.seen == self._count and self.is_last:
            return None
        what = f"{self.seen} of {self._count} objects of {self._path}: pages are missing"
        return Refusal(what, "the pages", _FIX.format(self._path))


def malformed(path: str) -> Refusal:
    """Return the refusal of pages that are none of this list."""
    return Refusal(_MALFORMED.format(path), "the pages", _FIX.format(path))


def add_all(text: str, lists: Callable[[Any], ListPages | Refusal]) -> Refusal | None:
    """Give each page of a text to its list; return why the text, or a page, is none."""
    try:
        for page in _pages(text.lstrip("\ufeff")):
            pages = lists(page)
            refused = pages if isinstance(pages, Refusal) else pages.add(page)
            if refused is not None:
                return refused
    except json.JSONDecodeError as error:
        fix = "give all pages, one after another, each to its end"
        return Refusal("this is no whole JSON", f"line {error.lineno}", fix)
    except RecursionError:
        return Refusal("this is JSON of too many levels", "the pages", "give the API's answers")
    return None


def _pages(text: str) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        page, end = decoder.raw_decode(text, at)
        yield page
        blank = _BLANK.match(text, end)
        at = end if blank is None else blank.end()


def passed_over(names: Sequence[str]) -> Iterator[str]:
    """Yield the note about cables of these ids that a plan passes over, where there are any."""
    if names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        what = "not between two interfaces, or being decommissioned"
        are = "cable is" if len(names) == 1 else "cables are"
        yield f"{len(names)} {are} {what} (cable {shown}): panels are not followed"
