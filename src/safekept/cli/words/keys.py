"""Words about the keys of a vault."""

from __future__ import annotations

from collections.abc import Sequence

from safekept.actions.vault.keys.keys import ListedKey
from safekept.core.next_step import NextStep

from ..console import count_text, path_text


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
