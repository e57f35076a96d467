"""The next step of the certificates in the Secret: a pure function, applied by the leader.

    nothing usable     → a new pair serves at once
    authorities lost   → those of the stored pairs are trusted again
    two thirds over    → the next pair is stored too, and both authorities are trusted
    trusted long enough → the next pair serves; both authorities stay trusted

So API servers trust the certificate of every master at every moment, also while some masters still
serve the previous pair. If a leader ends between two steps, the next leader continues from the
content of the Secret.

The Secret holds `tls.crt` and `tls.key` (served by all), `ca.crt` (trusted), and during a rotation
`next.crt` and `next.key`.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from master.admission.certificates import Pair, issue, read_pair
from topo.model.errors import Refusal

CERT, KEY, TRUSTED = "tls.crt", "tls.key", "ca.crt"
NEXT_CERT, NEXT_KEY = "next.crt", "next.key"
LIFE = dt.timedelta(days=90)
"""How long a pair is valid, as with cert-manager and Let's Encrypt."""
RENEWED_AT = 2 / 3
"""The share of its life after which a pair gets a following one."""
LATE_AT = 5 / 6
"""The share of its life after which a missing renewal is a warning."""
TRUSTED_S = 60.0
"""A following pair serves after it was trusted for this long: API servers know of it by then."""
Change = Mapping[str, bytes | None]
"""Entries of the Secret to write; None removes one."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The content of the Secret. `trusted` are the authorities for the webhook
    configuration, PEM.
    """

    current: Pair | Refusal
    following: Pair | None = None
    trusted: bytes = b""

    def serves(self, now: dt.datetime) -> bool:
        """Return whether API servers accept the current pair."""
        return isinstance(self.current, Pair) and self.current.begins <= now < self.current.ends


def read_kept(data: Mapping[str, bytes], names: Sequence[str]) -> Kept:
    """Return the certificates in the data of a Secret."""
    if not data.get(CERT) or not data.get(KEY):
        fix = "wait for the leader, which makes it"
        return Kept(Refusal("there is no certificate yet", CERT, fix))
    following = read_pair(data.get(NEXT_CERT, b""), data.get(NEXT_KEY, b""), names)
    return Kept(
        read_pair(data[CERT], data[KEY], names),
        following if isinstance(following, Pair) else None,
        data.get(TRUSTED, b""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The lifetime of a pair and the DNS names that it is for."""

    names: tuple[str, ...]
    life: dt.timedelta = LIFE

    def step(self, kept: Kept, now: dt.datetime, trusted_s: float) -> Change | None:
        """Return the entries to write, None if no step is due.

        `trusted_s` is for how long the configuration has trusted all stored authorities, 0 if it
        does not.
        """
        current = kept.current
        # Without a usable pair no webhook works, so there is nothing that a jump could break.
        if isinstance(current, Refusal) or not kept.serves(now):
            made = issue(self.names, now, self.life)
            gone = {NEXT_CERT: None, NEXT_KEY: None}
            return {CERT: made.chain, KEY: made.key, TRUSTED: made.authority, **gone}
        following = kept.following
        authorities = [pair.authority for pair in (current, following) if pair is not None]
        if any(authority not in kept.trusted for authority in authorities):
            return {TRUSTED: b"".join(authorities)}  # somebody else wrote it
        if now < current.at(RENEWED_AT):
            return None
        # Its authority is trusted before it serves: API servers read the configuration late.
        if following is None or not following.begins <= now < following.at(RENEWED_AT):
            made = issue(self.names, now, self.life)
            trusted = current.authority + made.authority
            return {NEXT_CERT: made.chain, NEXT_KEY: made.key, TRUSTED: trusted}
        if trusted_s < TRUSTED_S:
            return None
        served = {CERT: following.chain, KEY: following.key}
        return {**served, NEXT_CERT: None, NEXT_KEY: None}
