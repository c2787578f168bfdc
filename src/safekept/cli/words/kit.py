"""Words about the kit, wherever something happens that concerns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.ages import ago_text
from safekept.core.next_step import NextStep

from ..console import Console, count_text, path_text

if TYPE_CHECKING:
    from safekept.actions.status.status import Status
    from safekept.actions.vault.keys.keys import ListedKey
    from safekept.actions.vault.keys.kit_record import KitStatus


def both(files: tuple[str, ...]) -> str:
    """The page and its twin to print: each of them holds the key."""
    return path_text(" and ".join(files))


def show_kit(console: Console, kits: KitStatus) -> None:
    """After a change of destinations or keys: the kit that follows it, or one that does not."""
    if kits.rewritten:
        console.fact("Kit", f"written again, as it is now: {both(kits.files)}")
    if kits.beyond and not kits.outdated:
        text = kits.beyond[0].upper() + kits.beyond[1:]
        console.line(f"{path_text(text)}; it still opens the others")
    elif kits.outdated and kits.here_current:
        stored = NextStep(
            "vault kit", ("--stored",), before="Store it in the place of the old one, then say so:"
        )
        console.line(stored)
    elif kits.outdated:
        text = kits.outdated[0].upper() + kits.outdated[1:]
        console.line(NextStep("vault kit", before=f"{path_text(text)}: write it again:"))


def gone_kit_text(console: Console, status: Status) -> str:
    """After a rebuild: the kit lay on this machine, and what emptied it took the kit, too."""
    vault = status.vault
    if not (vault.kits.gone and vault.kit > vault.kits.stored):
        return ""
    again = console.step(NextStep("vault kit", before="Write the kit again, and keep it elsewhere:"))
    return f"{again}; the one that was written {ago_text(vault.kit, status.time)} is gone"


def kit_document(kits: KitStatus) -> dict[str, object]:
    return {"rewritten": list(kits.files) if kits.rewritten else [], "outdated": kits.outdated or None}


# Words about the keys of a vault.


def revoke_step(old: Sequence[ListedKey]) -> NextStep:
    """How the key of a machine that this one took the place of is taken away, in one sentence."""
    first, *others = old
    many = count_text(len(old), "key of a machine", "keys of machines")
    whose = path_text(", ".join(dict.fromkeys(key.person for key in old)))
    more = f", then {', '.join(key.id[:8] for key in others)}" if others else ""
    more += ". An older kit opens nothing then: throw it away"
    return NextStep(
        "vault key remove",
        (first.id[:8],),
        before=f"{many} before this one ({whose}). If you do not have that machine any more:",
        after=more,
    )
