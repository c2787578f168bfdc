"""The vault of a machine that is gone, on the one that was rebuilt: fetched whole, with a key of its own.

So the history goes on where it ended, in the same vault and with the same copies elsewhere.
"""

from __future__ import annotations

from safekept.core.events import Listener, silent

from ..base.context import UserContext
from ..offsite.pull import PullRequest, pull
from ..vault.keys.keys import acknowledge_kit, recovery_access
from ..vault.opening import open_vault, vault_exists
from ..vault.place import remember_vault
from ..vault.shared_vault import own_key


def may_bring(context: UserContext, place: str) -> bool:
    """Whether this machine has no vault yet; one that is here is never joined with another."""
    return place != context.places.vault and not vault_exists(context)


def bring_vault(
    context: UserContext,
    opening: UserContext,
    place: str,
    *,
    from_kit: bool = False,
    listener: Listener = silent,
) -> str:
    """Fetch the vault at `place` and make it this machine's; says where it is.

    `opening` is the same user with the key or passphrase that opened it there. `from_kit`: it was opened
    with a kit, so somebody keeps one elsewhere.
    """
    pulled = pull(context, PullRequest(place), listener)
    with open_vault(opening.changed(source_vault=context.places.vault), listener=listener) as repository:
        own_key(repository, context.places.vault_key_file)
        remember_vault(context, repository.id)
        if from_kit and not recovery_access(context, repository):
            acknowledge_kit(context, repository, listener, seen=True)
    return pulled.path
