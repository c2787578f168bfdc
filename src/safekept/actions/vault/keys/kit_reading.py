"""A kit that is read back, as text or HTML: the key on it, where the copies are, when it was written."""

from __future__ import annotations

import datetime
import html
import re
import shlex
from collections.abc import Mapping
from dataclasses import field

from safekept.core.files.small import read_start
from safekept.core.records import dataclass

TITLE = "safekept kit"
#: Characters of a kit that are read; one is a few pages.
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadKit:
    """What a kit says to a person who rebuilds a machine."""

    key: str  # "" where a passphrase opens the vault
    places: tuple[str, ...]  # of the copies, then of the vault itself
    variables: Mapping[str, str] = field(default_factory=dict)  # what the commands on it set
    vault_id: str = ""
    written: str = ""  # when, as it stands there
    machine: str = ""

    @property
    def written_before(self) -> float:
        """It was written before this time for sure; 0 where it does not say when."""
        day, _, offset = self.written.rpartition(" ")
        try:
            if re.fullmatch(r"[+-]\d{4}", offset):
                return datetime.datetime.strptime(f"{day} {offset}", "%Y-%m-%d %H:%M %z").timestamp() + 60
            # An older kit says it by a clock of that place: no place is further behind Greenwich than this.
            plain = datetime.datetime.strptime(self.written, "%Y-%m-%d %H:%M")
            return plain.replace(tzinfo=datetime.UTC).timestamp() + 60 + 12 * 3600
        except ValueError:
            return 0.0


def read_kit(path: str) -> ReadKit | None:
    """Read a kit, as text or as HTML; None where the file is none."""
    if not is_kit(path):
        return None
    return parse_kit(read_start(path, _LONGEST).decode("utf-8", "surrogateescape"))


def parse_kit(text: str) -> ReadKit:
    """What a kit says, by its text."""
    text = text.replace("\r\n", "\n")
    if "<html" in text[:200]:
        text = html.unescape(re.sub(r"<[^>]*>", " ", text.replace("</td><td>", " ")))
    key = re.search(r"^\s*Key\s+([A-Z2-7]{4}(?:-[A-Z2-7]{4})+)\s*$", text, re.MULTILINE)
    places, variables = [], {}
    for line in re.findall(r"^\s*((?:[A-Z_]+=\S+ )*safekept rebuild .*)$", text, re.MULTILINE):
        words = shlex.split(line)
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
        places.append(words[2])
    vault = re.search(r"^\s*Vault id\s+([0-9a-f]{64})\s*$", text, re.MULTILINE)
    machine = re.search(r"^\s*Machine\s+(\S+)\s*$", text, re.MULTILINE)
    when = re.search(r"^\s*Written\s+([\d-]+ [\d:]+(?: [+-]\d{4})?)\s*$", text, re.MULTILINE)
    return ReadKit(
        key[1] if key else "",
        tuple(places),
        variables,
        vault[1] if vault else "",
        when[1] if when else "",
        machine[1] if machine else "",
    )


def is_kit(path: str) -> bool:
    """Whether a file is a kit, as text or as HTML."""
    try:
        return TITLE in read_start(path, 4096).decode("utf-8", "replace")
    except OSError:
        return False
