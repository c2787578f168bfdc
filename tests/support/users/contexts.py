"""The context of a throwaway user, for tests that call actions in their own process."""

from __future__ import annotations

import os

from safekept.actions.base.context import Choices, Places, UserContext
from safekept.home.layout.layout import load_layouts


def throwaway(directory: object, **changes: object) -> UserContext:
    """A user with nothing yet below `directory`; the vault, its key and the cache in their usual places."""
    user = os.path.join(str(directory), "user")
    os.makedirs(user, exist_ok=True)
    data = os.path.join(user, ".local", "share", "safekept")
    places = Places(
        user_home=user,
        data_directory=data,
        cache_directory=os.path.join(user, ".cache", "safekept"),
        vault=os.path.join(data, "vault"),
        vault_key_file=os.path.join(user, ".config", "safekept", "vault.key"),
    )
    return UserContext(places, Choices(load_layouts())).changed(**changes)
