"""What a setup would do, step by step and in its order; nothing is done by looking."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..base.context import UserContext
from ..vault.opening import vault_exists
from .steps import SetupChoices, SetupStep

PLANNED = "planned"


def planned(context: UserContext, choices: SetupChoices) -> list[SetupStep]:
    """The steps that these choices are, as `set_up` does them; one for each time that it comes."""
    return [SetupStep(name, PLANNED, text) for name, text in _named(context, choices)]


def _named(context: UserContext, choices: SetupChoices) -> Iterator[tuple[str, str]]:
    if not vault_exists(context):
        yield "vault", context.places.vault
    if choices.passphrase is not None:
        yield "passphrase", "a second key of the vault: it opens your copies when this machine is gone"
    yield from (("connect", agent.name) for agent in choices.connect)
    if choices.guard_updates is not None:
        yield "updates", "`hermes update` takes a snapshot first and looks for losses after"
    if choices.install_schedule is not None:
        yield "schedule", choices.when
    yield from (("snapshot", home.place.home) for home in choices.homes)
    urls = {one.name: one.url for one in context.choices.destinations}
    for name in choices.push:
        yield "push", name if urls.get(name, name) == name else f"{name}, {urls[name]}"
    yield from (("proof", f"a restore of {home.place.home}") for home in choices.prove)
    if choices.kit is not None:
        yield "kit", _kit(context, choices.kit)


def _kit(context: UserContext, output: str) -> str:
    """Where the page goes. Its name has the id of the vault in it, which may not be known yet."""
    output = output or context.places.user_home
    if os.path.isdir(output):
        return os.path.join(output, "safekept-kit-ID.txt")
    return output.removesuffix(".txt").removesuffix(".html") + ".txt"
