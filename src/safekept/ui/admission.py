"""Who may see the page: a browser with the link that was printed, once and soon; from then on a cookie.

Everything here belongs to one process. A cookie, a link or a form of another one is worth nothing, also
where it has the same port.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable

from safekept.core.records import dataclass

#: Seconds for which the printed link opens the page.
LINK_LIFETIME = 60.0


@dataclass(frozen=True, slots=True)
class PageAddress:
    """How a browser reaches the page: nothing that names another host is answered."""

    scheme: str
    authority: str  # host and port, exactly as a browser sends it

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def cookie(self) -> str:
        """Named with the port: a browser sends cookies to every port of a host."""
        port = self.authority.rpartition(":")[2]
        return f"safekept-{port}" if port.isdigit() else "safekept-socket"


class Admission:
    """The link, the cookie and the tokens of forms of one server."""

    def __init__(self, address: PageAddress, clock: Callable[[], float] = time.monotonic) -> None:
        self.address = address
        self._clock = clock
        self._link = secrets.token_urlsafe(32)
        self._made = clock()
        self._used = False
        self._cookie = secrets.token_urlsafe(32)
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()

    @property
    def link(self) -> str:
        """What is opened in a browser."""
        return f"{self.address.origin}/open/{self._link}"

    def enter(self, token: str) -> bool:
        """Whether this is the link, in time and for the first time; then it is used up."""
        with self._lock:
            if not _same(token, self._link) or self._used or self._clock() - self._made > LINK_LIFETIME:
                return False
            self._used = True
            return True

    @property
    def cookie_header(self) -> str:
        """What a browser is given for the link."""
        secure = "; Secure" if self.address.scheme == "https" else ""
        return f"{self.address.cookie}={self._cookie}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def knows(self, cookies: str) -> bool:
        """Whether a `Cookie` header has ours."""
        for part in cookies.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.address.cookie and _same(value, self._cookie):
                return True
        return False

    def form_token(self, path: str) -> str:
        """What a form that posts to this path must carry."""
        return hmac.new(self._secret, path.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()

    def is_own_form(self, path: str, token: str) -> bool:
        return _same(token, self.form_token(path))


def _same(given: str, ours: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), ours.encode())
