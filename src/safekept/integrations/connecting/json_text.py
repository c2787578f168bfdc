"""JSON as text with places: every value knows where it stands, so that one can be changed by itself.

Only strict JSON is understood: whatever else is in a settings file is a reason to leave it alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from safekept.core.records import dataclass

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = (("true", True), ("false", False), ("null", None))
#: Deeper nesting is no settings file, and would exhaust the stack.
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


# One change in a JSON text, with every other byte left as it was. A settings file belongs to its user.
# Parsing it and writing it again would lose number spellings, escapes, spacing and doubled keys; here
# each change is a cut or an insertion in the text itself, in the style of the lines around it. What was
# added at the end and is removed again leaves the text as it was.


def add_member(text: str, target: Node, key: str, value: object) -> str:
    """The text with one more member at the end of an object."""
    parts = [(member.start, member.end) for member in target.members]
    return _add(text, target, parts, value, json.dumps(key, ensure_ascii=False))


def add_item(text: str, target: Node, value: object) -> str:
    """The text with one more item at the end of an array."""
    return _add(text, target, [(item.start, item.end) for item in target.items], value, "")


def replace(text: str, target: Node, value: object) -> str:
    """The text with another value in the place of this one."""
    broken = "\n" in text[target.start : target.end] or "\n" not in text
    shape = _Style.of(text)
    new = shape.lines(value, _indent_at(text, target.start)) if broken and shape.indent is not None else None
    return text[: target.start] + (new or shape.line(value)) + text[target.end :]


def remove_member(text: str, target: Node, number: int) -> str:
    """The text without one member of an object."""
    return _remove(text, target, [(member.start, member.end) for member in target.members], number)


def remove_item(text: str, target: Node, number: int) -> str:
    """The text without one item of an array."""
    return _remove(text, target, [(item.start, item.end) for item in target.items], number)


def _remove(text: str, target: Node, parts: list[tuple[int, int]], number: int) -> str:
    if len(parts) == 1:
        return text[: target.start + 1] + text[target.end - 1 :]
    if number + 1 < len(parts):
        return text[: parts[number][0]] + text[parts[number + 1][0] :]
    return text[: parts[number - 1][1]] + text[parts[number][1] :]


def _add(text: str, target: Node, parts: list[tuple[int, int]], value: object, key: str) -> str:
    style = _Style.of(text)
    name = f"{key}{style.colon}" if key else ""
    if not parts:
        inside = slice(target.start + 1, target.end - 1)
        if style.indent is None:
            return text[: inside.start] + name + style.line(value) + text[inside.stop :]
        base = _indent_at(text, target.start)
        new = f"{style.newline}{base}{style.indent}{name}{style.lines(value, base + style.indent)}"
        return text[: inside.start] + new + style.newline + base + text[inside.stop :]
    end = parts[-1][1]
    before = text[target.start + 1 : parts[0][0]]
    if "\n" not in before:
        return text[:end] + style.comma + name + style.line(value) + text[end:]
    base = before.rpartition("\n")[2]
    return text[:end] + f",{style.newline}{base}{name}{style.lines(value, base)}" + text[end:]


def _indent_at(text: str, at: int) -> str:
    """The blanks at the beginning of the line that this place is in."""
    line = text[text.rfind("\n", 0, at) + 1 : at].removeprefix(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True, slots=True)
class _Style:
    """How the file is written."""

    indent: str | None  # of one level; None: all in one line
    newline: str
    colon: str
    comma: str

    @classmethod
    def of(cls, text: str) -> _Style:
        root = parse(text)
        first = root.members[0].start if root.members else root.items[0].start if root.items else None
        before = text[root.start + 1 : first] if first is not None else "\n  "
        tight = re.search(r'":[ \t]', text) is None and first is not None
        return cls(
            before.rpartition("\n")[2] if "\n" in before else None,
            "\r\n" if "\r\n" in text else "\n",
            ":" if tight else ": ",
            "," if tight else ", ",
        )

    def line(self, value: object) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))

    def lines(self, value: object, base: str) -> str:
        if self.indent is None:
            return self.line(value)
        return self._broken(value, self.newline + base)

    def _broken(self, value: object, start: str) -> str:
        """Over several lines, each beginning with `start`; what holds only plain values stays in one."""
        line = self.line(value)
        if not isinstance(value, dict | list) or (_shallow(value) and len(line) <= _SHORT):
            return line
        inner = start + (self.indent or "")
        if isinstance(value, dict):
            parts = [
                f"{json.dumps(key, ensure_ascii=False)}{self.colon}{self._broken(one, inner)}"
                for key, one in value.items()
            ]
        else:
            parts = [self._broken(one, inner) for one in value]
        opened, closed = "{}" if isinstance(value, dict) else "[]"
        return f"{opened}{inner}{f',{inner}'.join(parts)}{start}{closed}"


#: A mapping in one line is no longer than this.
_SHORT = 160


def _shallow(value: object, depth: int = 1) -> bool:
    """Whether there is no mapping inside, and no list of lists."""
    if isinstance(value, dict):
        return depth > 0 and all(_shallow(one, depth - 1) for one in value.values())
    if isinstance(value, list):
        return all(not isinstance(one, dict | list) for one in value)
    return True


def written(value: Mapping[str, object]) -> str:
    """A new file."""
    style = _Style("  ", "\n", ": ", ", ")
    return style.lines(value, "") + "\n"
