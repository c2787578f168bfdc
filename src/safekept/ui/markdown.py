"""Markdown as text with a little structure: headings, lists, quotes, code. Never a page of its own.

Nothing of the file becomes markup: every piece is escaped and put into an element that is chosen here. There
is no raw HTML, no picture is loaded, and an address is shown and leads nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from safekept.core.spelling import shown

#: Lines beyond this are shown as they are.
_LONGEST = 2_000
_HEADING = re.compile(r"(#{1,6}) +(.+?) *#*$")
_ITEM = re.compile(r"( *)(?:[-*+]|\d{1,9}[.)]) +(.*)$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|!?\[([^\[\]]*)\]\(([^()\s]*)\)")


def is_markdown(path: str) -> bool:
    return path.lower().endswith((".md", ".markdown"))


def markdown(text: str) -> Markup:
    """The whole of it."""
    lines, front = text.split("\n"), list[Markup]()
    if lines[0].rstrip() == "---" and "---" in (ends := [line.rstrip() for line in lines[1:200]]):
        end = ends.index("---") + 1  # what is said of the file, before it begins
        front = [Markup('<pre class="text">{}</pre>').format("\n".join(map(_text, lines[1:end])))]
        lines = lines[end + 1 :]
    return Markup("\n").join([*front, *_blocks(lines)])


def _blocks(lines: list[str]) -> Iterator[Markup]:
    level, at = 1, 0
    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.match(line):
            end = at + 1
            while end < len(lines) and not lines[end].lstrip().startswith(fence[1]):
                end += 1
            yield Markup('<pre class="text">{}</pre>').format("\n".join(map(_text, lines[at + 1 : end])))
            at = end + 1
            continue
        if len(line) <= _LONGEST and (heading := _HEADING.match(line)):
            level = min(len(heading[1]) + 1, level + 1, 6)  # none is left out, for a reader who hears them
            yield Markup("<h{0}>{1}</h{0}>").format(level, _inline(heading[2]))
            at += 1
            continue
        end = at + 1
        kind = _kind(line)
        while end < len(lines) and kind == _kind(lines[end]):
            end += 1
        yield from _block(kind, lines[at:end])
        at = end


def _kind(line: str) -> str:
    if not line.strip():
        return "empty"
    if line.startswith(">"):
        return "quote"
    if _FENCE.match(line) or (len(line) <= _LONGEST and _HEADING.match(line)):
        return "other"
    return "item" if _ITEM.match(line[:_LONGEST]) else "text"


def _block(kind: str, lines: list[str]) -> Iterator[Markup]:
    if kind == "item":
        items = [_item(line) for line in lines]
        yield Markup("<ul>{}</ul>").format(Markup("").join(items))
    elif kind == "quote":
        yield Markup("<blockquote>{}</blockquote>").format(_joined([line[1:].strip() for line in lines]))
    elif kind != "empty":
        yield Markup("<p>{}</p>").format(_joined(lines))


def _item(line: str) -> Markup:
    found = _ITEM.match(line[:_LONGEST])
    assert found is not None
    rest = found[2] + line[_LONGEST:]
    return Markup('<li class="in-{}">{}</li>').format(min(len(found[1]) // 2, 3), _inline(rest))


def _joined(lines: list[str]) -> Markup:
    return Markup("<br>").join(_inline(line) for line in lines)


def _inline(line: str) -> Markup:
    if len(line) > _LONGEST:
        return escape(_text(line))
    parts, at = list[Markup](), 0
    for found in _INLINE.finditer(line):
        parts.append(escape(_text(line[at : found.start()])))
        code, strong, words, address = found.groups()
        if code is not None:
            parts.append(Markup("<code>{}</code>").format(_text(code)))
        elif strong is not None:
            parts.append(Markup("<strong>{}</strong>").format(_text(strong)))
        else:
            parts.append(Markup("{} <small>({})</small>").format(_text(words), _text(address)))
        at = found.end()
    return Markup("").join([*parts, escape(_text(line[at:]))])


def _text(line: str) -> str:
    return "\t".join(map(shown, line.split("\t")))
