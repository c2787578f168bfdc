"""One change in a JSON text, with every other byte left as it was.

A settings file belongs to its user. Parsing it and writing it anew would lose number spellings, escapes,
spacing and doubled keys; here each change is a cut or an insertion in the text itself, in the style of
the lines around it. What was added at the end and is removed again leaves the text as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .json_text import BOM, Node, parse


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
