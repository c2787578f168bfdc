"""JSON as text with places: every value knows where it stands, so that one can be changed by itself.

Only strict JSON is understood: whatever else is in a settings file is somebody's reason to leave it alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = (("true", True), ("false", False), ("null", None))
#: Deeper nesting is nobody's settings, and would exhaust the stack.
_DEEPEST = 200
#: Some editors begin a file with it.
BOM = "\ufeff"


class NotJson(ValueError):
    """The text is not strict JSON; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Node:
    """One value and where it stands."""

    kind: str  # "object", "array" or "value"
    start: int
    end: int
    value: object = None  # of a "value"
    members: tuple[Member, ...] = ()
    items: tuple[Node, ...] = ()

    def find(self, key: str) -> Node | None:
        """The member that a program would read: the last of its name."""
        return next((member.node for member in reversed(self.members) if member.key == key), None)

    def plain(self) -> Any:
        """The value as `json` would load it."""
        if self.kind == "object":
            return {member.key: member.node.plain() for member in self.members}
        return [item.plain() for item in self.items] if self.kind == "array" else self.value


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object."""

    key: str
    start: int  # of the key
    node: Node

    @property
    def end(self) -> int:
        return self.node.end


def parse(text: str) -> Node:
    """The one value of a text. NotJson where there is anything else in it."""
    start = len(BOM) if text.startswith(BOM) else 0
    node = _value(text, _skip(text, start), 0)
    end = _skip(text, node.end)
    if end != len(text):
        raise NotJson(f"{_where(text, end)}: there is more after the end")
    return node


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _where(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise NotJson(f"{_where(text, at)}: nested too deeply")
    letter = text[at : at + 1]
    if letter == "{":
        return _object(text, at, depth)
    if letter == "[":
        return _array(text, at, depth)
    if letter == '"':
        value, end = _string(text, at)
        return Node("value", at, end, value)
    for word, meaning in _WORDS:
        if text.startswith(word, at):
            return Node("value", at, at + len(word), meaning)
    number = _NUMBER.match(text, at)
    if number:
        try:
            return Node("value", at, number.end(), json.loads(number[0]))
        except ValueError as error:  # thousands of digits
            raise NotJson(f"{_where(text, at)}: {error}") from None
    if text.startswith(("//", "/*", "#"), at):
        raise NotJson(f"{_where(text, at)}: there is a comment")
    raise NotJson(f"{_where(text, at)}: a value is missing" if letter else "it ends too early")


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        return json.decoder.scanstring(text, at + 1, True)  # type: ignore[attr-defined,no-any-return]
    except ValueError:
        raise NotJson(f"{_where(text, at)}: a string is not closed or has a bad escape") from None


def _object(text: str, start: int, depth: int) -> Node:
    members: list[Member] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}" or members:
        if text[at : at + 1] != '"':
            raise NotJson(_unexpected(text, at, "a name in quotes"))
        place = at
        key, at = _string(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise NotJson(_unexpected(text, at, "`:`"))
        node = _value(text, _skip(text, at + 1), depth + 1)
        members.append(Member(key, place, node))
        at = _skip(text, node.end)
        if text[at : at + 1] == "}":
            break
        if text[at : at + 1] != ",":
            raise NotJson(_unexpected(text, at, "`,` or `}`"))
        at = _skip(text, at + 1)
    return Node("object", start, at + 1, members=tuple(members))


def _array(text: str, start: int, depth: int) -> Node:
    items: list[Node] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]" or items:
        items.append(_value(text, at, depth + 1))
        at = _skip(text, items[-1].end)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            raise NotJson(_unexpected(text, at, "`,` or `]`"))
        at = _skip(text, at + 1)
    return Node("array", start, at + 1, items=tuple(items))


def _unexpected(text: str, at: int, wanted: str) -> str:
    if at >= len(text):
        return "it ends too early"
    if text.startswith(("//", "/*", "#"), at):
        return f"{_where(text, at)}: there is a comment"
    return f"{_where(text, at)}: {wanted} is missing"
