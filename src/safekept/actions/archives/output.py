"""What an archive is called, and that it never takes the place of something else."""

from __future__ import annotations

import os
import time
from functools import cached_property

from safekept.archive.sealing import Seal
from safekept.core.archive_names import FORMATS, unsealed_name
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.owner import OutputOfAnother, foreign_owner

from ..base.context import HomeRef, UserContext
from ..base.operations.facts import written_facts
from ..base.operations.stores import BackupFacts

# Which files are archives that safekept made here: by their manifest, and sealed ones by the journal. A
# sealed archive says nothing to a host that has only the public key, so what is known of it is what the
# journal kept when it was written, and the file is recognised by a fingerprint of its sealed bytes. What
# is not surely ours is not ours: it is neither rotated away nor written over.


class OwnArchives:
    """Recognises them; the journal is read once, and only where a sealed file is met."""

    def __init__(self, context: UserContext) -> None:
        self._context = context

    def __call__(self, path: str) -> bool:
        return self.head(path) is not None

    def head(self, path: str) -> dict[str, object] | None:
        """What the manifest says, or the journal of a sealed one; None for anything not surely ours."""
        from safekept.archive.reading import identify  # a scan seldom meets a file that asks for it

        return identify(path, lambda fingerprint: self._sealed.get(fingerprint))

    def remember(self, fingerprint: str, facts: dict[str, object]) -> None:
        """One that was written a moment ago, and is not in the journal yet."""
        self._sealed[fingerprint] = facts

    @cached_property
    def _sealed(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = {}
        for entry in self._context.journal.backwards("backup"):
            if entry.state not in ("done", "incomplete"):
                continue
            fingerprint = (BackupFacts.read(entry).sealed or {}).get("fingerprint")
            if isinstance(fingerprint, str):
                found.setdefault(fingerprint, {**written_facts(entry), "complete": entry.state == "done"})
        return found


class OutputTaken(SafekeptError):
    code = "output-taken"


def output_path(
    context: UserContext,
    place: HomeRef,
    named: str,
    form: str,
    seal: Seal | None,
    known: OwnArchives,
    now: float = 0.0,
) -> str:
    """Where the archive goes. Never over a file that is not an archive of ours. `now` 0: by the clock."""
    suffix = f".{form}" + (seal.suffix if seal is not None else "")
    stamp = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(now or None))
    name = f"{place.layout.archive_prefix}-{stamp}{suffix}"
    output = os.path.expanduser(named) if named else context.places.user_home
    _refuse_place_of_another(output)
    if not names_a_file(output):
        return os.path.join(os.path.abspath(output), name)
    output = os.path.abspath(output)
    if not output.endswith(suffix):
        output = unsealed_name(output).removesuffix(f".{form}") + suffix
    if os.path.lexists(output) and not (os.path.isfile(output) and known(output)):
        raise OutputTaken(
            f"`{output}` exists and is not an archive that safekept made",
            kept="It was left as it is; nothing was written",
            next_steps=(NextStep("backup", ("-o", "PATH"), before="Name another file with"),),
        )
    return output


def _refuse_place_of_another(output: str) -> None:
    """As root: a directory of another user is read and written by that user only."""
    if (owner := foreign_owner(output)) is not None:
        raise OutputOfAnother(
            f"`{output}` belongs to `{owner.name}`, and this command runs as root",
            kept="Nothing was written",
            next_steps=(
                NextStep("backup", ("-o", "/var/backups/"), before="Name a directory of root's:"),
                f"Or run it as that user: put `{owner.in_front}` in front of it",
            ),
            path=output,
            owner=owner.name,
        )


def names_a_file(output: str) -> bool:
    """Whether this is the name of an archive, and not of a directory for it."""
    return bool(output) and not output.endswith("/") and not os.path.isdir(output)


def beside(path: str, addition: str) -> str:
    """`a.tar.zst.age` -> `a-incomplete.tar.zst.age`."""
    inner = unsealed_name(path)
    for suffix in (f".{form}" for form in FORMATS):
        if inner.endswith(suffix):
            return inner.removesuffix(suffix) + addition + suffix + path.removeprefix(inner)
    return path + addition
