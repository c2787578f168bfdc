"""Transcripts of commands as files: what a person sees, kept under review.

`same_as(name, text)` compares with `tests/golden/transcripts/<name>`. After a change that is meant, run the
tests once with RENEW_TRANSCRIPTS=1 and read the difference before it is committed.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable

from support.places import TESTS

PLACE = os.path.join(TESTS, "golden", "transcripts")


def same_as(name: str, text: str) -> None:
    """Fail, with the difference, where a text is not what its transcript says."""
    path = os.path.join(PLACE, name)
    if os.environ.get("RENEW_TRANSCRIPTS"):
        os.makedirs(PLACE, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(path, encoding="utf-8") as file:
        wanted = file.read()
    difference = difflib.unified_diff(wanted.splitlines(), text.splitlines(), name, "now", lineterm="")
    assert text == wanted, "\n".join(difference)


def fits(text: str, columns: int = 80) -> None:
    """No line is wider than the screen, and none has colour; a command alone on its line stays whole."""
    assert "\x1b" not in text
    assert widest(text, columns) == []


def widest(text: str, columns: int) -> list[str]:
    """The lines that a terminal of this width would break inside a word or a command, and those that break
    a command themselves. One that holds nothing but a label and one word, path or command is as long as that
    is."""
    return [
        line
        for line in text.splitlines()
        if line.count("`") % 2
        or (len(line) > columns and not re.fullmatch(r"(.{12} )?\s*(\S+|\S*`[^`]*`\S*)", line))
    ]


def same_document(name: str, text: str, words: Callable[[str], str]) -> None:
    """The same for `--json`: every key and every text; numbers that differ from run to run as a word."""
    document = _plain(json.loads(text), words)
    same_as(name, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _plain(value: object, words: Callable[[str], str], key: str = "") -> object:
    if isinstance(value, dict):
        return {words(name): _plain(inner, words, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, words, key) for inner in value]
    if isinstance(value, str):
        return "HOST" if key == "host" else words(value)
    varies = any(part in key for part in ("bytes", "seconds", "time", "added"))
    return "NUMBER" if varies and isinstance(value, int | float) and not isinstance(value, bool) else value
