"""Names of any bytes as they can be shown to a person, and as they can be pasted into a shell.

File names come from archives and agents; an escape sequence in one must not reach a terminal.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

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
