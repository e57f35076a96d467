"""The link codes of the vendors' legends, and how to cut them apart where a tool glued them.

Sources: the legends printed by mx-smi 2.1 to 2.3, ht-smi 2.2, nvidia-smi 352 to 595, npu-smi 24.1
and 25.
"""

import re
from collections.abc import Iterator

from topo.model.machine import Link, LinkKind

_KINDS = {
    "X": LinkKind.SELF,
    "MX": LinkKind.METAXLINK,
    "HT": LinkKind.METAXLINK,  # MarsLink: MetaXLink on the boards of an OEM (ht-smi)
    "HCCS_SW": LinkKind.HCCS_SW,
    "HCCS": LinkKind.HCCS,
    "SIO": LinkKind.SIO,
    "UB": LinkKind.UNIFIED_BUS,
    "ETH": LinkKind.ETHERNET,
    "PIX": LinkKind.PIX,
    "PXB": LinkKind.PXB,
    "PHB": LinkKind.PHB,
    "NODE": LinkKind.NUMA_NODE,
    "SYS": LinkKind.SYSTEM,
    "SOC": LinkKind.SYSTEM,  # nvidia-smi before 390 wrote "socket-level link" so
    "N/A": LinkKind.NONE,
    "NA": LinkKind.NONE,
}
_KNOWN = re.compile(r"NV[0-9]{1,3}|" + "|".join(_KINDS), re.ASCII)
_NVLINK = re.compile(r"NV([0-9]{1,3})", re.ASCII)
_MOST_NVLINKS = 36
"""NVML_NVLINK_MAX_LINKS of nvidia-ml-py 13.615. `NV0` bonds nothing, so it is no link either."""
_ENDS = frozenset(code[at:] for code in _KINDS for at in range(1, len(code)))
_NVLINK_END = re.compile(r"V?[0-9]{1,3}", re.ASCII)
_CODE_LIKE = re.compile(r"[A-Za-z?*-][\w+*#/.?-]{0,15}", re.ASCII)


def cut(token: str, wanted: int) -> tuple[list[str], int] | None:
    """Return the codes that `token` is made of, at most `wanted`, and the characters they take.

    `NODEX` is two codes and `SYS0-63` one with a CPU list glued on; the codes are a prefix code, so
    there is one way to cut. A word in no legend is one code, itself. None: this is no code at all
    (it starts with a digit), as the cell after the last link cell is.
    """
    codes: list[str] = []
    at = 0
    while at < len(token) and len(codes) < wanted:
        match = _KNOWN.match(token, at)
        if match is None:
            break
        codes.append(match.group())
        at = match.end()
    if codes and (at == len(token) or (len(codes) == wanted and not _grows(token, at))):
        return codes, at
    return ([token], len(token)) if _CODE_LIKE.fullmatch(token) else None


def is_code(token: str) -> bool:
    """Return whether `token` consists of codes of a legend and nothing else."""
    parts = cut(token, len(token))
    return parts is not None and all(_KNOWN.fullmatch(code) for code in parts[0])


def is_rest(word: str) -> bool:
    """Return whether `word` is a code, or the end of one that was cut: `V18`, `ODE`."""
    return is_code(word) or word in _ENDS or _NVLINK_END.fullmatch(word) is not None


def may_grow(code: str) -> bool:
    """Return whether `code` could be the beginning of another: `NV1` of `NV18`, `HCCS` of
    `HCCS_SW`.
    """
    return code == "HCCS" or _KNOWN.fullmatch(code) is None or _NVLINK.fullmatch(code) is not None


def link(code: str) -> Link:
    """Return the link that `code` stands for; kind UNKNOWN, with the code kept, outside every
    legend.
    """
    if _is_nvlink(code):
        return Link(LinkKind.NVLINK, code, int(code[2:]))
    return Link(_KINDS.get(code, LinkKind.UNKNOWN), code)


def endings(code: str, behind: str) -> Iterator[str]:
    """Return what `code` may be, given what is glued `behind` it: of `NV10` before `-19`, also
    `NV1`.

    Only NVLink codes end in digits, so only they run into the CPU list behind them.
    """
    yield code
    if _NVLINK.fullmatch(code) and behind[:1] and not behind[0].isspace():
        yield from (code[:end] for end in range(3, len(code)) if _is_nvlink(code[:end]))


def _is_nvlink(code: str) -> bool:
    match = _NVLINK.fullmatch(code)
    return match is not None and 1 <= int(match.group(1)) <= _MOST_NVLINKS


def _grows(token: str, at: int) -> bool:
    """Return whether what follows the cut is a letter: then the whole was one longer,
    unknown word.
    """
    return token[at].isalpha() or token[at] == "_"
