"""What makes an agent itself: its persona, its memories, its settings, present and readable.

A file can come back byte for byte and still be worthless, because it was emptied, filled with zeros or
cut short before it was stored. So each is read the way the agent would: texts as texts, settings
as the documents that they are.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable

from safekept.core.agents import compose
from safekept.core.sqlite import is_database
from safekept.home.layout import Matcher

from ...base.scope import losses, matcher_of
from ..receipts import UNKNOWN
from .restored import Findings, Problems, RestoredHome, plural

PERSONA, MEMORIES, SETTINGS = "persona", "memories", "settings"

_CLASSES = ((PERSONA, "identity"), (MEMORIES, "memory"), (SETTINGS, "settings"))
#: Beyond this a document is no setting.
_LARGEST = 8 << 20
#: Comments, whole strings, and what must come in pairs.
_TOKENS = re.compile(r"""//[^\n]*|/\*[\s\S]*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{}\[\]"']""")
_LINE = re.compile(r"\bline (\d+)")
_DOCUMENTS = (".yaml", ".yml", ".json", ".toml", ".env")
_TEXTS = (".md", ".txt", *_DOCUMENTS)


def prove_essentials(restored: RestoredHome, findings: Findings) -> None:
    """The rows `persona`, `memories` and `settings`."""
    missing, never_had = _missing(restored)
    for check, worth in _CLASSES:
        problems: Problems = [one for one in missing if restored.layout.worth(one[0]) == worth]
        undecided: Problems = []
        count = len(problems)
        for path in restored.files():
            if restored.layout.worth(path) != worth or not _is_text(path, check):
                continue
            count += 1
            if path in restored.lost:
                problems.append((path, restored.lost[path]))
                continue
            why, sure = _read(restored, path)
            if why:
                (problems if sure else undecided).append((path, why))
        if not count:
            findings.nothing(check, restored)
        elif undecided and not problems:
            findings.add(check, UNKNOWN, count, f"`{undecided[0][0]}`: {undecided[0][1]}")
        else:
            without = [path for path in never_had if restored.layout.worth(path) == worth]
            note = f"; never stored: {', '.join(without[:3])}" if without else ""
            findings.judge(check, count, problems, _WORDS[check](count) + note)


_WORDS: dict[str, Callable[[int], str]] = {
    PERSONA: lambda count: f"{plural(count, 'file')}, present and readable",
    MEMORIES: lambda count: f"{plural(count, 'file')}, present and readable",
    SETTINGS: lambda count: f"{plural(count, 'file')}, each one parses",
}


def _is_text(path: str, check: str) -> bool:
    if check == SETTINGS:
        return path.endswith(_DOCUMENTS)
    return path.endswith(_TEXTS) or "." not in path.rsplit("/", 1)[-1]


def _missing(restored: RestoredHome) -> tuple[Problems, list[str]]:
    """What the layout calls essential and was not stored; and what a profile may never have had.

    What the store was not asked to hold is no loss of it. A home that was used has all of it. A profile may
    do without: then the restore gave back all that there was, and the rest is the doctor's to say.
    """
    never_had: list[str] = []
    layout = restored.layout
    reasons = dict(losses(restored.manifest))
    excluded = matcher_of(restored.scope.get("exclude"))
    found: Problems = []
    for prefix in restored.homes():
        parts = tuple(filter(None, prefix.split("/")))
        for pattern in layout.essential_patterns:
            place = prefix + pattern.text.strip("/")
            matcher = Matcher([(pattern.below(*parts), True)])
            if any(matcher.covers(path) for path in restored.entries) or excluded.covers(place):
                continue
            if restored.in_the_dark(place):
                continue
            if restored.scope.get("partial") is True or _outside_a_quick_one(restored, place):
                continue
            if prefix and place not in reasons:
                never_had.append(place)
                continue
            found.append((place, reasons.get(place, "is not there, and every home that was used has one")))
    return found, never_had


def _outside_a_quick_one(restored: RestoredHome, place: str) -> bool:
    return restored.scope.get("quick") is True and not restored.layout.quick(place)


def _read(restored: RestoredHome, path: str) -> tuple[str, bool]:
    """What is wrong with one file, if anything, and whether that is sure."""
    try:
        with restored.open(path) as file:
            if os.fstat(file.fileno()).st_size > _LARGEST:
                return "", True
            data = file.read()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}", True
    if is_database(data[:16]):
        return "", True
    if not data:
        essential = restored.layout.matcher((restored.layout.essential_patterns, True)).covers(path)
        return ("is empty" if essential else ""), True
    if not data.strip(b"\0"):
        return f"is {len(data):,} bytes of zeros", True
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "is no text", True
    if "\0" in text:
        return "has zero bytes in its text", True
    return _parse(restored, path, text)


def _parse(restored: RestoredHome, path: str, text: str) -> tuple[str, bool]:
    """Settings as the documents that they say they are."""
    try:
        if path.endswith((".yaml", ".yml")):
            compose(text)
        elif path.endswith(".toml"):
            tomllib.loads(text)
        elif path.endswith(".json"):
            return _parse_json(restored, path, text)
    except (ValueError, RecursionError) as error:
        lines = _LINE.findall(str(error))
        return f"does not parse (line {lines[-1]})" if lines else "does not parse", True
    return "", True


def _parse_json(restored: RestoredHome, path: str, text: str) -> tuple[str, bool]:
    """Some agents write JSON with comments; one whose brackets do not match is broken in any dialect."""
    if not text.strip():
        return "is empty", True
    try:
        json.loads(text)
    except ValueError as error:
        layout = restored.layout
        strict = any(
            count.kind == "json" and layout.matcher((count.patterns, True)).covers(path)
            for count in layout.counts
        )
        return f"does not parse: {error}", strict or not _brackets_match(text)
    return "", True


def _brackets_match(text: str) -> bool:
    """Whether every bracket and quote is closed; comments do not count."""
    stack: list[str] = []
    for sign in _TOKENS.findall(text):
        if sign in "{[":
            stack.append(sign)
        elif sign in "}]":
            if not stack or stack.pop() != {"}": "{", "]": "["}[sign]:
                return False
        elif sign in "\"'":
            return False  # a quote that nothing closes
    return not stack
