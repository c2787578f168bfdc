"""What a host said, read so that no field of it can surprise: missing, null and of another type are one.

Text is made fit for paths, records and JSON here, once: a lone surrogate, which JSON can spell and no file
name can hold, becomes what hosts themselves write in its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

#: Longer is no name: what identifies something is cut here.
_NAME = 200
#: Of a command, in the list of checkpoints.
_COMMAND = 60
#: No host sends so much, and the lean entry reads no more; a file of that size in a message would cost the
#: helper its memory several times.
LARGEST = 64 * 2**20


class Unreadable(ValueError):
    """It is not an object in JSON; the words say what it is."""


class Event:
    """One object that a host sent."""

    __slots__ = ("environment", "fields", "name", "user_home")

    def __init__(self, fields: dict[str, object], name: str = "") -> None:
        self.fields = fields
        self.environment: Mapping[str, str] = {}  # of the host, as far as it means something to us
        self.user_home = ""  # of the person whose agent it is
        self.name = name or self.word("hook_event_name") or self.word("hook") or self.word("hookName")

    def word(self, key: str) -> str:
        """A name or an id: one line, of bounded length."""
        return one_line(self.text(key), _NAME)

    def text(self, key: str) -> str:
        value = self.fields.get(key)
        return value if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.fields.get(key)
        return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()

    def command(self, key: str = "command") -> str:
        """A command or a patch: a text, or, of some tools, a list of words."""
        return self.text(key) or "\n".join(self.texts(key))

    def part(self, key: str) -> Event:
        """The object in a field; an empty one where there is none. Cursor sends some as text."""
        value = self.fields.get(key)
        if isinstance(value, str) and value[:1] == "{" and len(value) < LARGEST:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = None
        return Event(value if isinstance(value, dict) else {}, " ")

    def path(self, *keys: str) -> str:
        """The first of these fields that names a file."""
        return next((fit_path(found) for key in keys if (found := self.text(key))), "")


def read_event(raw: bytes) -> Event:
    """What came on standard input; raises `Unreadable`."""
    if not raw.strip():
        raise Unreadable("nothing came on standard input")
    if len(raw) >= LARGEST:
        raise Unreadable(f"{LARGEST // 2**20} MiB or more came on standard input")
    try:
        found = json.loads(_decoded(raw))
    except RecursionError:
        raise Unreadable("what came on standard input is nested too deeply") from None
    except ValueError:
        raise Unreadable("what came on standard input is not JSON") from None
    if not isinstance(found, dict):
        raise Unreadable("what came on standard input is JSON, but no object")
    return Event(found)


def _decoded(raw: bytes) -> str:
    """A file name that is no text may be in it, as the bytes it is made of."""
    return raw.decode(json.detect_encoding(raw), "surrogateescape")


def fit_path(path: str) -> str:
    """A path as the system can be asked for it."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= one <= "\udfff" else one for one in path)
    return path


def one_line(text: str, length: int) -> str:
    """The beginning of a text, on one line, of characters that any record can hold."""
    piece = text[: length * 4].encode("utf-8", "replace").decode()
    piece = " ".join("".join(one if one.isprintable() else " " for one in piece).split())
    return piece if len(piece) <= length else piece[: length - 1] + "…"


def reason(tool: str, command: str = "") -> str:
    """Why a checkpoint was taken, as a person reads it in the list."""
    line = one_line(command, _COMMAND)
    return f"before {tool or 'a tool'}" + (f": {line}" if line else "")
