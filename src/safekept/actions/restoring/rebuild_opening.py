"""The key to what a machine is rebuilt from: which one counts, and which vault of several it means.

A key or passphrase that was given for this is the only one that counts, and so is the one on a kit: where it
opens nothing, the key of this machine is no stand-in for it. A kit that only seems to work because the
machine still has its own key would fail on the day when the machine is gone. Where none was given, the key of
this machine is tried first; of several vaults it opens perhaps its own, and then a person is asked for the
other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.next_step import NextStep
from safekept.core.spelling import shell_word
from safekept.vault.errors import NoSuchVault, WrongKey
from safekept.vault.repo import Repository, Secret

from ..base.context import UserContext
from ..vault.keys.key_file import KeyMissing
from ..vault.keys.keys import GENERATED, ListedKey, keys_at
from ..vault.opening import open_vault, try_again
from .rebuild_request import UNCHANGED, AnotherVault, RebuildRequest, nothing_at


def opened_vaults(
    context: UserContext,
    request: RebuildRequest,
    vaults: list[str],
    held: contextlib.ExitStack,
    listener: Listener,
) -> dict[str, Repository]:
    """The vaults that the key opens; WrongKey or KeyMissing, in the words of a rebuild, if none."""
    tried = _Tried(request, vaults, listener)
    for one in _ways(context, request):
        with contextlib.ExitStack() as opened:
            found = tried.with_key(one, opened)
            if request.key_given and one.caller.vault_secret is None and context.caller.vault_secret:
                continue  # it only told whose vault that is
            if found and not (request.asks and tried.is_only_its_own(one, found)):
                held.enter_context(opened.pop_all())
                return found
    raise tried.refusal(context)


def _ways(context: UserContext, request: RebuildRequest) -> list[UserContext]:
    """The keys, in the order in which they count; what one of them opens is meant, and no other vault is.

    The key of this machine opens its own vault, too, which may lie in the same place.
    """
    if context.caller.vault_secret is None:
        return [context]
    here, given = context.changed(vault_secret=None), context.changed(vault_key_file="")
    if not request.key_given:
        return [here, given]
    # A kit says which vault it is for: the key of this machine may know another one, which is left alone.
    return [given, here] if request.vault_id and context.places.vault_key_file else [given]


class _Tried:
    """The keys that were tried on the vaults of one place, and what came of it."""

    def __init__(self, request: RebuildRequest, vaults: list[str], listener: Listener) -> None:
        self._request, self._vaults, self._listener = request, vaults, listener
        self._refused: WrongKey | KeyMissing | None = None
        self._others: set[str] = set()  # vaults that opened, and that the kit is not for
        self._shut: set[str] = set()  # vaults that the last key does not open

    def with_key(self, context: UserContext, held: contextlib.ExitStack) -> dict[str, Repository]:
        """What opens. A passphrase that a person may mistype is asked for again, for every vault at once."""
        for left in range(context.caller.secret_tries - 1, -1, -1):
            found = self._once(context.changed(vault_secret=_asked_once(context), secret_tries=1), held)
            if found or not left or not self._shut or context.caller.vault_secret is None:
                return found
            self._listener(try_again(left))
        raise AssertionError("asked at least once")

    def _once(self, context: UserContext, held: contextlib.ExitStack) -> dict[str, Repository]:
        found: dict[str, Repository] = {}
        self._shut = set()
        for vault in self._vaults:
            try:
                repository = open_vault(context.changed(source_vault=vault), listener=self._listener)
            except (WrongKey, KeyMissing) as error:
                self._shut.add(vault)
                if self._refused is None or not context.places.vault_key_file:  # what was typed or named
                    self._refused = error
            except NoSuchVault:
                continue  # a push that has not come to its `config` yet
            else:
                held.enter_context(repository)
                if self._request.vault_id in ("", repository.id):
                    found[vault] = repository
                else:
                    self._others.add(vault)
        return found

    def is_only_its_own(self, context: UserContext, found: Mapping[str, Repository]) -> bool:
        """Whether the key of this machine opens some and not all: then another machine's may be meant."""
        if context.caller.vault_secret is not None or not self._shut:
            return False
        own = " and ".join(f"`{one}`" for one in found)
        named = shell_word(context.places.vault_key_file)
        text = f"Left alone: {own}, which the key of this machine opens. To rebuild from it, add"
        self._listener(Event("key", text=f"{text} `--key-file {named}`"))
        return True

    def refusal(self, context: UserContext) -> SafekeptError:
        request, refused = self._request, self._refused
        if len(self._others) == len(self._vaults):
            return AnotherVault(
                f"`{request.place}` holds another vault than the one of the kit; it was left alone",
                kept=UNCHANGED,
                next_steps=("Name the place where a copy of the vault lies that the kit is for",),
                place=request.place,
            )
        if refused is None:
            return nothing_at(request.place, f"`{request.place}` holds no whole vault")
        if len(self._vaults) > 1:
            several = f"`{request.place}` holds {len(self._vaults)} vaults"
            refused.what = f"{several}, and no key that was given opens one of them"
            refused.args = (refused.what,)
        refused.kept = UNCHANGED
        if request.vault_id or request.kit_key:
            return kit_refused(context, request, self._vaults, refused)
        refused.next_steps = (
            NextStep(
                "rebuild",
                (request.place, "--key-file", "FILE"),
                before="Name your kit, or a new file with the key from it as one line:",
            ),
            "Or use the recovery passphrase: run the command at a terminal and it will ask for it, or name a "
            "file with `--passphrase-file PATH`",
        )
        return refused


def _asked_once(context: UserContext) -> Callable[[], Secret] | None:
    """A person is asked once, however many vaults are tried."""
    return lru_cache(maxsize=1)(context.caller.vault_secret) if context.caller.vault_secret else None


# A kit was named, and its key opens nothing: what happened to it, and what else opens the vault.


def kit_refused(
    context: UserContext, request: RebuildRequest, vaults: Sequence[str], refused: WrongKey | KeyMissing
) -> WrongKey | KeyMissing:
    """The same error in words for a person who holds a kit; `passphrase` in its facts: one would open it."""
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
