"""Names of any bytes as they can be shown to a person, as they can be pasted into a shell, and as they are
misspelt.

File names come from archives and agents; an escape sequence in one must not reach a terminal.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable

#: What a person may write for yes and no, in a variable or on a command line.
FLAGS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def shown(name: str) -> str:
    """Control characters and stray bytes as escapes."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else _escaped(c) for c in name)


def shell_word(name: str) -> str:
    """The same name as one word of a command line."""
    if name.isprintable():
        return shlex.quote(name)
    quoted = "".join(
        c if c.isprintable() and c not in "'\\" else "\\" + c if c in "'\\" else _escaped(c) for c in name
    )
    return f"$'{quoted}'"


def shell_line(words: Iterable[str]) -> str:
    """A whole command line, as it can be pasted into a shell."""
    return " ".join(map(shell_word, words))


def shell_words(line: str) -> list[str]:
    """The words of such a line. ValueError where it is none."""
    return shlex.split(_PIECE.sub(lambda piece: shlex.quote(_plain(piece[1])), line))


def near_names(names: Iterable[str], typed: str, most: int = 3) -> list[str]:
    """What a person may have meant who typed a name that is not there, best first: paths and the directories
    above them. The same name in other letters, deeper, or without its ending comes alone; else what is
    spelt nearly so, part by part, or has nearly the same last part."""
    found: dict[bool, list[tuple[float, int, str]]] = {}
    closeness = _closeness(typed.casefold().strip("/"))
    seen: set[str] = set()
    for name in names:
        while name and name not in seen:
            seen.add(name)
            if (near := closeness(name.casefold())) is not None:
                found.setdefault(near[0], []).append((-near[1], name.count("/"), name))
            name = name.rpartition("/")[0]
    return [name for _, _, name in sorted(found[min(found)])[:most]] if found else []


#: How much alike two names must be, from 0 to 1; and where only their last parts are.
_ALIKE, _VERY_ALIKE = 0.75, 0.85


def _closeness(typed: str) -> Callable[[str], tuple[bool, float] | None]:
    """Whether a name is spelt otherwise, and how near it is, from 0 to 1; None where it is not near."""
    from difflib import SequenceMatcher

    parts = typed.split("/")
    known: list[dict[str, float]] = [{} for _ in parts]
    matchers = [SequenceMatcher(None, "", part, autojunk=False) for part in parts]

    def likeness(number: int, part: str) -> float:
        """Of one part; 0 for less than is enough. Each is compared once: a home has few of them."""
        if part not in known[number]:
            matcher = matchers[number]
            matcher.set_seq1(part)
            enough = matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE
            ratio = matcher.ratio() if enough else 0.0
            known[number][part] = ratio if ratio >= _ALIKE else 0.0
        return known[number][part]

    def near(name: str) -> tuple[bool, float] | None:
        if name == typed:
            return False, 1.0
        if name.endswith("/" + typed):
            return False, 0.9
        if f"/{os.path.splitext(name)[0]}".endswith("/" + typed):
            return False, 0.8
        below = name.split("/")
        if not (last := likeness(len(parts) - 1, below[-1])):
            return None
        each = [likeness(number, part) for number, part in enumerate(below[-len(parts) :])]
        if len(each) == len(parts) and all(each):
            return True, sum(each) / len(each)
        return (True, last * 0.9) if last >= _VERY_ALIKE else None

    return near


_PIECE = re.compile(r"(?<!\S)\$'((?:[^'\\]|\\.)*)'")
_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))")


def _plain(quoted: str) -> str:
    raw = quoted.encode("utf-8", "surrogateescape")
    plain = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]) if found[1] else found[2], raw)
    return plain.decode("utf-8", "surrogateescape")


def _escaped(character: str) -> str:
    # "surrogatepass" for those that stand for no byte: JSON can carry them, a file name cannot.
    stray = "\ud800" <= character <= "\udfff" and not "\udc80" <= character <= "\udcff"
    raw = character.encode("utf-8", "surrogatepass" if stray else "surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in raw)
