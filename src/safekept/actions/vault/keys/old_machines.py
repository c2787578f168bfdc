"""Keys of machines that this one was rebuilt from. They still open the vault, whoever has those machines now.

Nothing is taken away by itself: the old machine may still be in use, and a kit on paper may hold its key. So
none is named before a kit with the key of this machine is kept elsewhere: until then the old paper may be all
that a person has.
"""

from __future__ import annotations

from collections.abc import Sequence

from safekept.vault.format import parse_time

from .keys import GENERATED, ListedKey
from .kit_record import KitRecord


def keys_of_old_machines(
    keys: Sequence[ListedKey], rebuilt: float, stored: KitRecord | None
) -> tuple[ListedKey, ...]:
    """Which of them may go, oldest first.

    `rebuilt`: when this machine was, 0 for never. `stored`: the kit that a person keeps elsewhere.
    """
    own = next((key for key in keys if key.current), None)
    if not rebuilt or own is None or own.kind != GENERATED or _created(own) < rebuilt:
        return ()
    if stored is None or stored.key != own.id:
        return ()
    return tuple(
        key for key in keys if key.kind == GENERATED and not key.current and 0 < _created(key) < rebuilt
    )


def _created(key: ListedKey) -> float:
    """0 where its file does not say."""
    try:
        return parse_time(key.created)[0] / 1e9
    except ValueError:
        return 0.0
