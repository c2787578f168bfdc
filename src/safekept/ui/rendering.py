"""Templates into pages. Whatever comes from a home is escaped, and its control characters are shown.

Every value that a template prints goes through `_printable`, so that no template can forget it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from safekept.core.ages import clock_text, count_text, seconds_text, size_text
from safekept.core.next_step import Step, step_text
from safekept.core.spelling import shown

from .pictures.bars import share_bar, took_text

_HERE = os.path.dirname(os.path.abspath(__file__))
#: What is served as it is: name, type.
STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


class TextLines(str):
    """Text of several lines: breaks and tabs stay, everything else that cannot be printed is shown."""

    __slots__ = ()


def _printable(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, TextLines):
        return "\n".join("\t".join(map(shown, line.split("\t"))) for line in value.split("\n"))
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return shown(value)
    return value


@functools.cache
def environment() -> Environment:
    """One for the process."""
    made = Environment(
        loader=FileSystemLoader(os.path.join(_HERE, "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "size": size_text,
        "seconds": took_text,
        "count": count_text,
        "lines": TextLines,
        "marked": marked,
        "query": query,
        "day": lambda when: moment_words(when).partition(",")[0],
        "words": moment_words,
        "clock": lambda when: time.strftime("%H:%M", time.localtime(when)),
        "moment": lambda when: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when)),
        "iso": lambda when: time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(when)),
    }
    made.globals |= {"static": static_name, "share": share_bar}
    return made


def moment_words(when: float) -> str:
    """`18 November 2026, 14:45`: how a person names a moment that they go back to."""
    return time.strftime("%d %B %Y, %H:%M", time.localtime(when)).removeprefix("0")


def ago(when: float, now: float) -> str:
    """`3 h ago`."""
    return f"{seconds_text(max(0.0, now - when))} ago" if when <= now + 120 else "in the future"


def render(template: str, values: Mapping[str, object], now: float | None = None) -> str:
    """One page as text. `ago` and `at` are about `now`."""
    now = time.time() if now is None else now
    return (
        environment()
        .get_template(template)
        .render(**values, now=now, ago=lambda when: ago(when, now), at=lambda when: clock_text(when, now))
    )


def exact(value: str) -> Markup:
    """A name in a hidden field, byte for byte: what cannot stand there is written as in an address."""
    return escape(quote(value, safe="/ ", errors="surrogateescape"))


def marked(text: str) -> Markup:
    """A sentence with what stands in backticks as code."""
    parts = shown(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def at_home(text: str, home: str) -> str:
    """A sentence with `~` for the user's directory; not within quotes, where no shell would know it."""
    home = home.rstrip("/")
    return re.sub(rf"(?<![^\s`(]){re.escape(home)}/", "~/", text) if home else text


def step_markup(step: Step, program: str, home: str = "") -> Markup:
    """What to do next, with its commands as code."""
    text = step_text(step, program)
    return marked(at_home(text, home) if isinstance(step, str) else text)


def query(values: Mapping[str, object]) -> str:
    """The end of an address; names of any bytes survive."""
    pairs = [(name, str(value)) for name, value in values.items() if value not in (None, "", False)]
    return urlencode(pairs, quote_via=quote, errors="surrogateescape")


@functools.cache
def static_file(name: str) -> bytes:
    with open(os.path.join(_HERE, "static", name), "rb") as file:
        return file.read()


@functools.cache
def static_name(name: str) -> str:
    """Its address, with what is in it: a browser may keep it."""
    return f"/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


def refusal_page(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """A small page by itself, for a caller who did not come in."""
    return HTMLResponse(render("refusal.html", {"text": text, "status": status}), status, headers)
