"""The homes of the same machine that a rebuild did not bring, each with the command that brings it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ..console import Console, count_text, path_text

if TYPE_CHECKING:
    from safekept.actions.offsite.homes_in_vault import HomeInVault
    from safekept.actions.restoring.rebuild import PreparedRebuild

#: So many are named on the screen; the JSON has all.
_SHOWN = 6


def not_brought(brought: Sequence[PreparedRebuild]) -> list[HomeInVault]:
    """The other homes that lie where those came from, of the machine that they were on."""
    kept = [one.origin.kept for one in brought if one.origin.kept is not None]
    here = {(one.host, one.home, one.layout) for one in kept}
    found = {
        (one.host, one.home, one.layout): one
        for prepared in brought
        for one in prepared.origin.beside
        if (one.host, one.home, one.layout) not in here
    }
    return list(found.values())


def show_not_brought(console: Console, brought: Sequence[PreparedRebuild], key: Sequence[str]) -> None:
    """`key`: the words that name what opened the vault."""
    left = not_brought(brought)
    for one in left[:_SHOWN]:
        count = count_text(len(one.snapshots), "snapshot")
        named = (
            f"{path_text(one.home)} on {path_text(one.host or 'an unknown machine')}, {count}; to bring it:"
        )
        console.fact("Left there", NextStep("rebuild", _words(brought, one, key), before=named))
    if len(left) > _SHOWN:
        console.fact("", f"… and {count_text(len(left) - _SHOWN, 'more home')}")


def _words(brought: Sequence[PreparedRebuild], one: HomeInVault, key: Sequence[str]) -> tuple[str, ...]:
    request = brought[0].request
    words = [request.named or one.vault, "--of", one.home]
    words += ["--host", one.host] if one.host else []
    words += ["--layout", one.layout] if one.layout else []
    place = _place(brought, one)
    return (*words, *(("--home", place) if place else ()), *key)


def _place(brought: Sequence[PreparedRebuild], one: HomeInVault) -> str:
    """Where it can go without being in the way: "" for its agent's own place, where nothing is."""
    own = brought[0].own
    try:
        usual = own.locate("", one.layout, existing=False).home
    except SafekeptError:
        usual = ""
    taken = {prepared.ground.home for prepared in brought}
    if one.layout and usual and usual not in taken and not os.path.lexists(usual):
        return ""
    beside = usual or os.path.join(own.places.user_home, os.path.basename(one.home))
    return f"{beside}-{os.path.basename(one.directory)}"
