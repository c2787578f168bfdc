"""What an object is called on a REST server, which knows the files of restic's repositories and no others.

A repository is a path with `config` and five directories in it, whose files are named by their hash. So the
files of a vault lie there as restic expects them. What restic has no file for gets a repository of its own,
which holds one kind of thing. A server cannot list its repositories, so one of ours holds their names, and
`rest-server` takes paths of two directories at most:

    D/config, D/keys/ID, …           as they are
    D/data/ab/ID                     D/data/ID
    D/safekept/marks/ID              D-marks/snapshots/ID, beside the vault
    NAME                             NAME/config: a marker, a probe

Nothing else has a place there: no archives.
"""

from __future__ import annotations

import re

PACKS = "data"
KINDS = ("keys", "locks", "snapshots", "index", PACKS)
#: What lies in `safekept/` of a vault; each word is a repository of its own beside it.
OURS = ("marks", "escrow")
#: In which directory of those; one that is flat on the server's disk.
_WHERE = "snapshots"
#: The repository with the names of the others.
LIST = "safekept-vaults"
_ID = re.compile(r"[0-9a-f]{64}")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


def path_of(root: str, name: str) -> str:
    """The path on the server, below the address's own; "" where it can have none."""
    *above, last = name.split("/")
    if last == "config":
        return _joined(root, *above, last)
    if not above:
        return _joined(root, name, "config") if _PLAIN.fullmatch(name) and name not in KINDS else ""
    if not _ID.fullmatch(last):
        return ""
    if above[-1] in KINDS and above[-1] != PACKS:
        return _joined(root, *above, last)
    if above[-2:] == [PACKS, last[:2]]:
        return _joined(root, *above[:-1], last)
    if above[-2:-1] == ["safekept"] and above[-1] in OURS:
        return _joined(beside(_joined(root, *above[:-2]), above[-1]), _WHERE, last)
    return ""


def beside(vault: str, word: str) -> str:
    """The repository of one kind of ours for the vault with this path."""
    return f"{vault}-{word}" if vault else f"safekept-{word}"


def listings(root: str, prefix: str) -> list[tuple[str, str]]:
    """What to list for the objects below a directory: paths there, and what their names begin with here."""
    parts = prefix.split("/")[:-1]
    kind = parts[-1] if parts else ""
    if kind in KINDS:
        return [(_joined(root, *parts), prefix)]
    if parts[-2:-1] == [PACKS]:
        return [(_joined(root, *parts[:-1]), f"{'/'.join(parts[:-1])}/")]
    if parts[-2:-1] == ["safekept"]:
        return [(_ours(root, parts[:-2], kind), prefix)] if kind in OURS else []
    if kind == "safekept":
        return [(_ours(root, parts[:-1], one), f"{prefix}{one}/") for one in OURS]
    native = [(_joined(root, *parts, one), f"{prefix}{one}/") for one in KINDS]
    return [*native, *listings(root, f"{prefix}safekept/")]


def _ours(root: str, above: list[str], word: str) -> str:
    return _joined(beside(_joined(root, *above), word), _WHERE)


def name_of(start: str, listed: object) -> str:
    """The name of one file of a listing; "" for what no vault has."""
    if not isinstance(listed, str) or not _ID.fullmatch(listed):
        return ""
    return f"{start}{listed[:2]}/{listed}" if start.endswith(f"{PACKS}/") else f"{start}{listed}"


def list_entry(directory: str) -> tuple[str, bytes]:
    """The file that tells of one repository; its name is its hash, as `rest-server` wants it."""
    import hashlib

    content = f"{directory}\n".encode()
    return f"{LIST}/{_WHERE}/{hashlib.sha256(content).hexdigest()}", content


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)
