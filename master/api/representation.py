"""Conditional and compressed answers: RFC 9110 sections 8.8.3 (ETag), 12.5.3 and 13.1.2."""

_UNLIMITED = "*"


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether the client takes gzip: named or `*`, and not with `q=0`."""
    if not accept_encoding:
        return False
    weights: dict[str, bool] = {}
    for part in accept_encoding.split(","):
        coding, _, parameters = part.partition(";")
        weights[coding.strip().lower()] = _wanted(parameters)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))


def _wanted(parameters: str) -> bool:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return True
    try:
        return float(value) > 0
    except ValueError:
        return False


def is_known(if_none_match: str | None, *tags: str) -> bool:
    """Whether the client's `If-None-Match` names one of our opaque tags (compared weakly)."""
    if if_none_match is None:
        return False
    for part in if_none_match.split(","):
        tag = part.strip().removeprefix("W/")
        if tag == _UNLIMITED or tag.strip('"') in tags:
            return True
    return False
