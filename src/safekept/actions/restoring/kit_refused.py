"""A kit was named, and its key opens nothing: what happened to it, and what else opens the vault."""

from __future__ import annotations

from collections.abc import Sequence

from safekept.core.next_step import NextStep
from safekept.vault.errors import WrongKey

from ..base.context import UserContext
from ..vault.keys.key_file import KeyMissing
from ..vault.keys.keys import GENERATED, ListedKey, keys_at
from .rebuild_request import RebuildRequest


def kit_refused(
    context: UserContext, request: RebuildRequest, vaults: Sequence[str], refused: WrongKey | KeyMissing
) -> WrongKey | KeyMissing:
    """The same error in words for somebody who holds a kit; `passphrase` in its facts: one would open it."""
    ours = [one for one in vaults if one.rstrip("/").endswith(f"/{request.vault_id[:16]}")]
    keys = [key for vault in ours or vaults for key in keys_at(context, vault)]
    phrases = [key for key in keys if key.kind and key.kind != GENERATED]
    asked = context.caller.secret_tries > 1
    if request.kit_key:
        where = (ours or vaults)[0]
        taken = ": it was taken out of it" if ours else ""
        refused.what = f"The key on the kit does not open the vault at `{where}`{taken}"
        refused.args = (refused.what,)
    steps: list[str | NextStep] = []
    if keys:
        steps.append(f"What opens it: {'; '.join(map(_named, keys))}")
    if phrases:
        how = "" if asked else ", or run the command at a terminal and it will ask for it"
        steps.append(f"Use the recovery passphrase: name a file with `--passphrase-file PATH`{how}")
    if request.kit_key or not phrases:
        steps.append(NextStep("rebuild", ("KIT",), before="If you have a kit that was written later:"))
        steps.append(
            NextStep(
                "rebuild",
                (request.place, "--key-file", "FILE"),
                before="Or name the key file of a machine that still opens it:",
            )
        )
    refused.next_steps = tuple(steps)
    refused.facts["passphrase"] = bool(phrases)
    return refused


def _named(key: ListedKey) -> str:
    return f"the {key.kind or 'key'} {key.id[:8]} of {key.person}, added {key.created[:10]}"
