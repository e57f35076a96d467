"""A dump by its name, a file's or a node's: what counts of it, and what does not.

A dump that was cut off does not replace a whole one, and what cannot be read takes nothing away.
The same fabric found again is no other dump, only a newer one.
"""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, replace

from topo.facts.infiniband.dumps import read_dump
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump

PIECE_BYTES = 1 << 20


@dataclass(slots=True)
class Dump:
    """One dump: the last whole one of its name, and what is wrong with what came since.

    `found_at`: when the fabric was last found to be so (seconds since 1970): its file was written,
    or its sweep ended.
    """

    name: str
    again: str
    """What mends a dump that is cut off."""
    good: FabricDump | None = None
    refusal: Refusal | None = None
    found_at: float = 0.0

    def take(self, content: bytes | FabricDump | Refusal, found_at: float) -> bool:
        """Take new content, found to be so at this time; whether another dump counts now."""
        before = self.good
        found = _parsed(content) if isinstance(content, bytes) else content
        self.refusal = found if isinstance(found, Refusal) else None
        if isinstance(found, Refusal):
            return False
        if found.missing and before is not None and not before.missing:
            what = f"it is cut off ({found.missing}), and the whole dump before it counts"
            self.refusal = Refusal(what, self.name, self.again)
            return False
        self.found_at = found_at
        if before is not None and _say_the_same(before, found):
            return False
        self.good = replace(found, made_at=self.found_at)
        return True

    def renew(self, dumps: Iterable["Dump"]) -> bool:
        """Take the time at which it was last found to be so, where that decides anything.

        Whether it does: another dump, made later than this one before, differs in a switch of it.
        """
        good = self.good
        if good is None or self.found_at <= good.made_at:
            return False
        if not any(_is_later(each.good, good) for each in dumps if each is not self):
            return False
        self.good = replace(good, made_at=self.found_at)
        return True


def _say_the_same(one: FabricDump, other: FabricDump) -> bool:
    return replace(one, made_at=0) == replace(other, made_at=0)


def _is_later(other: FabricDump | None, one: FabricDump) -> bool:
    """Return whether the other dump is believed before this one, and that matters."""
    if other is None or other.made_at < one.made_at or _say_the_same(other, one):
        return False
    return not {each.guid for each in one.switches}.isdisjoint(each.guid for each in other.switches)


def _parsed(content: bytes) -> FabricDump | Refusal:
    """Return the dump of a text; its warnings are those of a dump that is not whole."""
    return read_dump(_text(content))


def _text(content: bytes) -> str:
    """Return the text without carriage returns, decoded in pieces: one call for 64 MiB of broken
    characters stops all threads for half a second.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    begins = range(0, len(content), PIECE_BYTES)
    pieces = (decoder.decode(content[at : at + PIECE_BYTES]) for at in begins)
    return "".join(each.replace("\r", "") for each in (*pieces, decoder.decode(b"", final=True)))
