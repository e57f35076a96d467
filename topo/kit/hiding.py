"""Masking of secrets inside texts, by their names and by their shapes.

A name is the name of a key, a flag, a header or a query parameter (`--password x`, `?sig=x`); a
shape is the format that issuers give their secrets so that they can be recognised (`ghp_…`, a JSON
Web Token, a PEM block). Texts that only look random, such as UUIDs and base64, are not masked,
because probes are full of them.

Sources of the shapes: RFC 7468 (PEM), RFC 7515 (JWT), and the token formats that GitHub, GitLab,
Slack, AWS, Google, Hugging Face, NVIDIA, OpenAI, Vault, npm, PyPI and Docker publish.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

HIDDEN = "***"
_LEAST_WIDTH = 40
"""Nobody folds texts into narrower lines."""

_WORDS = (
    r"tokens?|passw(?:or)?ds?|passphrase|[_-](?:pwd|pass)|secrets?|credentials?|"
    r"(?:api|access|secret|private|signing|encryption|account)[_-]?key"
)
_SECRET_KEY = re.compile(
    rf"(?:{_WORDS}|authorization|cookie|(?:^|[_-])sig(?:nature)?)$", re.IGNORECASE
)
"""Ends of keys whose values are secrets; `token_file` or `credentials_dir` name places."""

_VALUE = (
    r"(?!\*\*\*(?:[\s\"'<]|$))"
    r"(?:(?P<quote>[\"'])(?P<quoted>(?:(?!(?P=quote))[^\\\n]|\\[^\n])+)(?P=quote)"
    r"|[\"'](?P<unclosed>[^\n\"'<]+)"
    r"|(?P<bare>(?:[^\s\"'<\\]|<(?!/)|\\(?![\"'\n]))+))"
)
"""To the closing quote, to the end of a line that has none, or to the next blank; never past the
end of an XML element or a text. What is masked already is none."""
_GAP = r"(?:\s|\\\r?\n)+"
"""Separator of a flag and its value; a backslash continues a shell line."""
_REST = r"(?P<bare>(?!\*\*\*)[^\s\"'<\\](?:[^\n\"'<\\]|(?<==)\\*\"[^\n\"]*\")*)"
_ONE_PART = r"(?P<bare>(?!\*\*\*(?:[\s\"'<&;]|$))[^\s&;\"'<>\\]+)"

_SCHEME = r"(?:bearer|basic|token|key|api-?key|negotiate|ntlm)[ ]"
"""Schemes whose credentials are one word (RFC 9110 11.6.2); others have many parameters."""

_BELOW = r"[|>][+-]?[^\S\n]*\n"
_NAMED = (
    rf"\b(?:bearer|basic)\s+{_VALUE}",
    rf"authorization\\*[\"']?\s*[=:]\s*(?:\\*[\"'])?{_SCHEME}\s*{_VALUE}",
    # To the end of the line: the parameters of a scheme, all cookies of a client.
    rf"authorization\\*[\"']?\s*[=:]\s*(?:\\*[\"'])?(?!{_SCHEME}){_REST}",
    rf"\bcookie\\*[\"']?\s*[=:]\s*(?:\\*[\"'])?{_REST}",
    # In YAML the value may begin below: `password: |-`.
    rf"(?:{_WORDS})\\*[\"']?\s*[=:]\s*(?:{_BELOW}\s*|(?!{_BELOW})(?:\\+[\"'])?){_VALUE}",
    # A flag and its value in two words, as in a command line.
    rf"(?<![\w-])--[\w-]{{0,64}}?(?:{_WORDS}){_GAP}(?!-){_VALUE}",
    # A user's password for curl; numbers are a user and a group.
    rf"(?<![\w-])(?:-u|--user|--proxy-user){_GAP}[\"']?(?!\d+:\d+\b)[^\s:\"'/]{{1,256}}:{_ONE_PART}",
    # A part of a query, or of a connection string.
    rf"[?&;](?:[\w-]{{0,64}}[_-])?(?:sig|signature|key|pwd|pass|code)={_ONE_PART}",
    rf"\b(?:sig|signature)={_ONE_PART}",
)
_USER_INFORMATION = (
    # With or without a colon it may be all secret (RFC 3986 3.2.1); JSON may escape the slashes.
    r"(?:://|:\\/\\/)(?P<bare>(?!\*\*\*@)[^\s/?#\"'<>]+)(?=@)",
    # Of an address without a scheme, as in `http_proxy=user:password@proxy:3128`.
    r"(?<![\w.%+@:/-])[a-z_][\w.%+-]{0,63}:(?P<bare>(?!\*\*\*@)[^\s@:/\"'<>]{1,256})(?=@[\w\[])",
)
_PEM = r"-----BEGIN [A-Z0-9 ]{1,64}-----"
_PREFIXED = (
    r"gh[pousr]_[A-Za-z0-9]{16,}",
    r"github_pat_\w{16,}",
    r"glpat-[\w-]{16,}",
    r"xox[a-z]-[A-Za-z0-9-]{8,}",
    r"xapp-[A-Za-z0-9-]{8,}",
    r"hooks\.slack\.com/services/[\w/]+",
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"AIza[\w-]{35}",
    r"ya29\.[\w-]{16,}",
    r"hf_[A-Za-z0-9]{24,}",
    r"nvapi-[\w-]{24,}",
    r"sk-[\w-]{24,}",
    r"hvs\.[\w-]{24,}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[\w-]{48,}",
    r"dckr_pat_[\w-]{20,}",
)
_CUT_PEM = r"(?:\s|\\[nr])+(?:(?:Proc-Type|DEK-Info):[^\n\\]*|[A-Za-z0-9+/=]{16,})"
"""A line of a block whose end is not there: base64, or what stands above it."""
_SHAPES = (
    rf"{_PEM}(?P<bare>(?:(?!-----(?:BEGIN|END) )[\s\S])+)(?=-----END )",
    r"(?<![\w-])(?P<bare>eyJ[\w-]{6,}(?:\.[\w-]*){1,4})",
    rf"(?<![A-Za-z0-9])(?P<bare>{'|'.join(_PREFIXED)})",
)
_RULES = (
    *(re.compile(rule, re.IGNORECASE | re.ASCII) for rule in (*_NAMED, *_USER_INFORMATION)),
    *(re.compile(rule, re.ASCII) for rule in _SHAPES),
)
_OF_LINES = re.compile(rf"{_PEM}(?P<bare>(?:{_CUT_PEM})+)", re.ASCII)
"""Not applied to joined lines."""
Span = tuple[int, int]


def is_secret_name(name: str) -> bool:
    """Return whether the value of a key or variable of this name is a secret."""
    return _SECRET_KEY.search(name) is not None


def mask_secrets(text: str) -> str:
    """Return the text with everything that looks like a secret replaced by `***`.

    A secret that a terminal folded into several lines is masked in each of them; the number of
    lines stays. O(n log n) for n characters.
    """
    spans = sorted({*_found(text, (*_RULES, _OF_LINES)), *_found_folded(text)})
    parts, at = [], 0
    for begin, end in spans:
        if end <= at:
            continue
        parts += [text[at:begin], HIDDEN] if begin >= at else []
        at = end
    return "".join([*parts, text[at:]])


def _found(text: str, rules: Iterable[re.Pattern[str]]) -> Iterator[Span]:
    for rule in rules:
        for match in rule.finditer(text):
            yield match.span(match.lastgroup or 0)


def _found_folded(text: str) -> Iterable[Span]:
    """Yield secrets that continue on the next line: they end at the full width of the text."""
    lines = text.splitlines(keepends=True)
    widths = [len(line.rstrip("\r\n")) for line in lines]
    longest = max(widths, default=0)
    ends = list(accumulate(map(len, lines)))
    cuts = [
        (end - len(line) + width, end)
        for line, width, end in zip(lines[:-1], widths, ends, strict=False)
        if width == longest >= _LEAST_WIDTH and not line.rstrip("\r\n").endswith(HIDDEN)
    ]
    return _mapped_back(text, cuts) if cuts else ()


def _mapped_back(text: str, cuts: list[Span]) -> Iterator[Span]:
    """Yield the secrets found after joining folded lines, as spans of the original text."""
    begins, kept = [0, *(end for _, end in cuts)], [*(begin for begin, _ in cuts), len(text)]
    joined = "".join(text[begin:end] for begin, end in zip(begins, kept, strict=True))
    sizes = (end - begin for begin, end in zip(begins, kept, strict=True))
    starts = [0, *accumulate(sizes)]
    for begin, end in _found(joined, _RULES):
        first, last = bisect_right(starts, begin) - 1, bisect_left(starts, end) - 1
        for line in range(first, last + 1):
            shift = begins[line] - starts[line]
            yield max(begin, starts[line]) + shift, min(end, starts[line + 1]) + shift
