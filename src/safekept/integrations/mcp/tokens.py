"""Confirmations: a plan that was shown may be carried out once, soon, and only as it was shown.

A token is a seal over the plan's fingerprint with a secret that this process made for itself: one of
another process, of another plan, altered, used or too old is worth nothing. The fingerprint holds what
would be done and the state of what it would be done to, so a change in between makes it worthless too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable

#: Seconds for which a plan may be confirmed.
LIFETIME = 600.0
#: Tokens that may be open at a time; the oldest go first.
_OPEN = 256

UNKNOWN = "it is none that this server gave out, or it was altered"
USED = "it was used already"
EXPIRED = "it is older than ten minutes"
OTHER = "it belongs to another plan, or what the plan is about changed since"


class Confirmations:
    """The tokens of one server process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._open: dict[str, tuple[str, float]] = {}  # nonce: fingerprint, time
        self._used: dict[str, None] = {}
        self._lock = threading.Lock()

    def give(self, fingerprint: str) -> str:
        """A token for exactly this plan."""
        nonce = secrets.token_urlsafe(9)
        with self._lock:
            self._open[nonce] = (fingerprint, self._clock())
            while len(self._open) > _OPEN:
                del self._open[next(iter(self._open))]
        return f"{nonce}.{self._seal(nonce, fingerprint)}"

    def refusal(self, token: str, fingerprint: str) -> str:
        """Why this token does not confirm this plan, in words; nothing where it does. Takes nothing away."""
        nonce, _, seal = token.strip().partition(".")
        with self._lock:
            held = self._open.get(nonce)
            used = nonce in self._used
        if held is None:
            return USED if used else UNKNOWN
        given, when = held
        if not hmac.compare_digest(seal.encode("utf-8", "replace"), self._seal(nonce, given).encode()):
            return UNKNOWN
        if self._clock() - when > LIFETIME:
            return EXPIRED
        return "" if hmac.compare_digest(given, fingerprint) else OTHER

    def spend(self, token: str, fingerprint: str) -> str:
        """The same, and a token that confirms the plan is used up by it."""
        refusal = self.refusal(token, fingerprint)
        if refusal:
            return refusal
        nonce = token.strip().partition(".")[0]
        with self._lock:
            if self._open.pop(nonce, None) is None:  # somebody was faster with the same one
                return USED
            self._used[nonce] = None
            while len(self._used) > _OPEN:
                del self._used[next(iter(self._used))]
        return ""

    def _seal(self, nonce: str, fingerprint: str) -> str:
        made = hmac.new(self._secret, f"{nonce}\0{fingerprint}".encode(), hashlib.sha256)
        return made.hexdigest()[:32]


def fingerprint_of(facts: object) -> str:
    """One short name for facts made of lists, mappings, texts and numbers."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
