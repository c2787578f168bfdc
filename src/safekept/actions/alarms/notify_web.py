"""Telling by HTTP: a healthchecks-style ping, an ntfy topic, a webhook. The standard library is enough.

Nothing is followed: a redirect could carry the secret of a URL to another host. What went wrong is said
in words of our own, because the library's own texts may quote the URL.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING

from safekept import __version__

if TYPE_CHECKING:
    from .notify import Notice

#: What is sent at most. healthchecks keeps 100 KB of a ping, ntfy shows 4 KB of a message.
_LONGEST_PING, _LONGEST_MESSAGE = 100_000, 4000
_SUFFIXES = {"start": "/start", "success": "", "test": ""}  # everything else: `/fail`
_PRIORITIES = {"test": "default", "overdue": "high", "loss": "urgent"}  # everything else: high
_TAGS = {"test": "white_check_mark", "loss": "rotating_light"}  # everything else: warning


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: object, fp: IO[bytes], code: int, msg: str, headers: object, newurl: str
    ) -> None:
        return None


class Web:
    """HTTP with a deadline, and with the proxies that the environment it is given names."""

    def __init__(self, environment: Mapping[str, str], deadline: float) -> None:
        self._deadline = deadline
        # HTTP_PROXY in capitals is what a web server makes of a request's `Proxy:` header; it is not asked.
        proxies = {
            "http": environment.get("http_proxy", ""),
            "https": environment.get("https_proxy", "") or environment.get("HTTPS_PROXY", ""),
        }
        self._proxies = {scheme: proxy for scheme, proxy in proxies.items() if proxy}
        self._direct = environment.get("no_proxy") or environment.get("NO_PROXY") or ""

    def ping(self, url: str, notice: Notice) -> str:
        """Reach `URL`, `URL/start` or `URL/fail`; the text goes along as the body."""
        body = "\n".join(part for part in (notice.title, notice.text) if part).encode()[:_LONGEST_PING]
        address = _with_suffix(url, _SUFFIXES.get(notice.kind, "/fail"))
        return self._post(address, body, {"Content-Type": "text/plain; charset=utf-8"})

    def ntfy(self, url: str, notice: Notice) -> str:
        body = (notice.text or notice.title).encode()[:_LONGEST_MESSAGE].decode("utf-8", "ignore").encode()
        headers = {
            "Title": _header(notice.title),
            "Priority": _PRIORITIES.get(notice.kind, "high"),
            "Tags": _TAGS.get(notice.kind, "warning"),
            "Content-Type": "text/plain; charset=utf-8",
        }
        return self._post(url, body, headers)

    def webhook(self, url: str, notice: Notice) -> str:
        return self._post(url, json.dumps(notice.as_dict()).encode(), {"Content-Type": "application/json"})

    def _post(self, url: str, body: bytes, headers: dict[str, str]) -> str:
        """Send it; empty where the answer was good, else why it was not."""
        if not _is_web(url):
            return "it is no http:// or https:// URL"
        address, authorization = _without_user(url)
        headers = {"User-Agent": f"safekept/{__version__}", **headers, **authorization}
        request = urllib.request.Request(address, body, headers, method="POST")  # noqa: S310
        proxies = {} if self._reached_directly(address) else self._proxies
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies), _NoRedirect)
        try:
            with opener.open(request, timeout=self._deadline) as answer:
                answer.read(1)
        except urllib.error.HTTPError as error:
            error.close()
            return _answered(error.code)
        except urllib.error.URLError as error:
            return _reason(error.reason)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return _reason(error)
        return ""

    def _reached_directly(self, url: str) -> bool:
        host = host_of(url).partition(":")[0].lower()
        names = [name.strip().lstrip(".").lower() for name in self._direct.split(",") if name.strip()]
        return any(name == "*" or host == name or host.endswith("." + name) for name in names)


def host_of(url: str) -> str:
    """The host of a URL, which may be shown: no user, no path, no query."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or "?"
        return f"{host}:{parts.port}" if parts.port else host
    except ValueError:
        return "?"


def _is_web(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _with_suffix(url: str, suffix: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(path=parts.path.rstrip("/") + suffix))


def _without_user(url: str) -> tuple[str, dict[str, str]]:
    """`https://user:word@host/…` -> the URL without them, and the header that carries them."""
    parts = urllib.parse.urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    token = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
    return urllib.parse.urlunsplit(parts._replace(netloc=place)), {"Authorization": f"Basic {token}"}


def _header(text: str) -> str:
    """A text that may stand in a header: one line, and encoded where it is not plain."""
    line = " ".join(text.split())
    if line.isascii():
        return line
    return f"=?UTF-8?B?{base64.b64encode(line.encode()).decode()}?="


def _answered(code: int) -> str:
    if 300 <= code < 400:
        return f"it answered {code}: the URL has moved, and redirects are not followed"
    return f"it answered {code} {http.client.responses.get(code, '')}".strip()


def _reason(error: object) -> str:
    """Why it was not reached, in words that cannot hold the URL."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, socket.gaierror):
        return "its host name is not known"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as it should"
    if isinstance(error, OSError) and error.errno and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return f"it could not be asked ({type(error).__name__})"
