"""The page as its user has it: `safekept ui` in a process of its own, and a client that says anything."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlencode

#: Variables that would lead to another user's things.
_OF_ANOTHER = ("XDG_", "SAFEKEPT_", "HERMES_")
SOURCE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "src")


@dataclass(frozen=True)
class Answered:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")


@dataclass
class ServedPage:
    """A running page. `enter()` uses its link; then `get` and `post` are those of the browser that did."""

    user: str
    options: tuple[str, ...] = ("--allow-changes",)
    environment: dict[str, str] = field(default_factory=dict)
    link: str = ""
    cookie: str = ""

    def __enter__(self) -> Self:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OF_ANOTHER)},
            "HOME": self.user,
            "HERMES_HOME": os.path.join(self.user, ".hermes"),
            "PYTHONPATH": os.path.abspath(SOURCE),
            **self.environment,
        }
        words = [sys.executable, "-m", "safekept", "ui", "--no-open", *self.options]
        self.process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=self.user
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"https?://\S+/open/\S+", line):
                self.link = found[0]
                break
        assert self.link, "no link was printed"
        self.authority = self.link.split("/")[2]
        self.origin = f"http://{self.authority}"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answered:
        """One request with exactly these headers, and the right host unless they name one."""
        connection = http.client.HTTPConnection(self.authority, timeout=120)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            given = {"Host": self.authority, **(headers or {})}
            if method == "POST":
                given = {"Content-Length": str(len(body)), **given}
            for name, value in given.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            found = answer.getheaders()
            return Answered(
                answer.status,
                {name.lower(): value for name, value in found},
                answer.read(),
                tuple(value for name, value in found if name.lower() == "set-cookie"),
            )
        finally:
            connection.close()

    def enter(self) -> Answered:
        answer = self.ask("GET", self.link.removeprefix(self.origin))
        if answer.cookies:
            self.cookie = answer.cookies[0].split(";")[0]
        return answer

    def get(self, path: str, **headers: str) -> Answered:
        return self.ask("GET", path, {"Cookie": self.cookie, **headers})

    def post(
        self, path: str, fields: Mapping[str, str] | Sequence[tuple[str, str]], **headers: str
    ) -> Answered:
        """As the browser sends a form of ours; `headers` replace its own."""
        own = {
            "Cookie": self.cookie,
            "Origin": self.origin,
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, {**own, **named}, urlencode(fields).encode())
