"""What a setup would do, step by step and in its order; nothing is done by looking."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..base.context import UserContext
from ..vault.opening import vault_exists
from .steps import SetupChoices, SetupStep, left_out

PLANNED = "planned"


def planned(context: UserContext, choices: SetupChoices) -> list[SetupStep]:
    """The steps that these choices are, as `set_up` does them; one for each time that it comes."""
    return list(_steps(context, choices))


def _steps(context: UserContext, choices: SetupChoices) -> Iterator[SetupStep]:
    if not vault_exists(context):
        yield _planned("vault", context.places.vault)
    if choices.passphrase is not None:
        text = "a second key of the vault: it opens your copies when this machine is gone"
        yield _planned("passphrase", text)
    for agent in choices.connect:
        yield _planned("connect", agent.name, of=agent.name)
    if choices.guard_updates is not None:
        yield _planned("updates", "`hermes update` takes a snapshot first and looks for losses after")
    if choices.not_guarded is not None:
        yield left_out("updates", choices.not_guarded)
    if choices.install_schedule is not None:
        yield _planned("schedule", choices.when)
    for home in choices.homes:
        yield _planned("snapshot", home.place.home, of=home.place.home)
    urls = {one.name: one.url for one in context.choices.destinations}
    for name in choices.push:
        where = name if urls.get(name, name) == name else f"{name}, {urls[name]}"
        yield _planned("push", where, of=name)
    for home in choices.prove:
        yield _planned("proof", f"a restore of {home.place.home}", of=home.place.home)
    if choices.kit is not None:
        yield _planned("kit", _kit(context, choices.kit))


def _planned(name: str, text: str, *, of: str = "") -> SetupStep:
    return SetupStep(name, PLANNED, text, subject=of)


def _kit(context: UserContext, output: str) -> str:
    """Where the page goes. Its name has the id of the vault in it, which may not be known yet."""
    output = output or context.places.user_home
    if os.path.isdir(output):
        return os.path.join(output, "safekept-kit-ID.txt")
    return output.removesuffix(".txt").removesuffix(".html") + ".txt"
