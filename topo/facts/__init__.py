"""Raw output of a probe to an observation, or to a refusal with what is wrong, where, and the fix.

A format is a module: text in, `ParsedProbe | Refusal` out, nothing raised, linear in the length of
the text. `registry` knows them all; nothing here touches files, clocks or the network.
"""

from topo.facts.reading.text import MAX_BYTES, decode
from topo.facts.registry import FORMATS, parse, recognise

__all__ = ["FORMATS", "MAX_BYTES", "decode", "parse", "recognise"]
