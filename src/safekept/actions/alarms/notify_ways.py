"""Telling by HTTP: a healthchecks-style ping, an ntfy topic, a webhook. The standard library is enough.

Nothing is followed: a redirect could carry the secret of a URL to another host. What went wrong is reported
in words of our own, because the library's own texts may quote the URL.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from safekept import __version__

if TYPE_CHECKING:
    from .notify import Notice


# Telling by a program on this machine: sendmail, or a command of the user's own. Neither is run by a
# shell. A program that is not done in time is ended, with whatever it started.


class Local:
    """Programs with a deadline, in the environment that it is given."""

    def __init__(self, environment: Mapping[str, str], deadline: float) -> None:
        self._environment, self._deadline = environment, deadline

    def mail(self, sendmail: str, addresses: Sequence[str], notice: Notice) -> str:
        """A plain-text mail by `sendmail -t`, which every mail program of a Unix brings along."""
        from email.message import EmailMessage
        from email.policy import SMTP

        facts = notice.as_dict()
        message = EmailMessage(policy=SMTP.clone(linesep="\n"))
        message["To"] = ", ".join(addresses)
        message["Subject"] = " ".join(f"[safekept] {notice.title}".split())
        message["Auto-Submitted"] = "auto-generated"
        lines = [notice.text or notice.title, "", f"Host: {facts['host']}", f"Time: {facts['time']}"]
        message.set_content("\n".join([*lines, *([f"Home: {notice.home}"] if notice.home else []), ""]))
        return self._run((sendmail, "-i", "-t"), message.as_bytes(), {})

    def command(self, words: Sequence[str], notice: Notice) -> str:
        """The facts as JSON on its stdin, and the few that a shell script wants in its environment."""
        variables = {
            "SAFEKEPT_NOTICE_KIND": notice.kind,
            "SAFEKEPT_NOTICE_TITLE": notice.title,
            "SAFEKEPT_NOTICE_TEXT": notice.text,
            "SAFEKEPT_NOTICE_HOME": notice.home,
        }
        return self._run(words, json.dumps(notice.as_dict()).encode() + b"\n", variables)

    def _run(self, words: Sequence[str], given: bytes, variables: Mapping[str, str]) -> str:
        try:
            process = subprocess.Popen(
                list(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**self._environment, **variables},
                start_new_session=True,  # so that it can be ended with its children
            )
        except (OSError, ValueError) as error:
            return f"{words[0]} cannot be run: {getattr(error, 'strerror', None) or type(error).__name__}"
        with process:
            try:
                process.communicate(given, timeout=self._deadline)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return "it was not done in time, and was ended"
        return "" if process.returncode == 0 else f"it ended with status {process.returncode}"


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
