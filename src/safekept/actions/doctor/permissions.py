"""Who else can read keys, the vault, the settings and the secrets of a home."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from safekept.core.finding import NOTE, PARTLY, Finding, Repair
from safekept.core.next_step import NextStep
from safekept.core.spelling import shell_word
from safekept.home.layout import Layout

from ..vault.seat_belt import look
from .case import Case

_OTHERS, _EVERYBODY = 0o077, 0o007


def look_at_permissions(case: Case) -> Iterator[Finding]:
    here = case.context
    yield from _private(case, here.places.vault_key_file, "the key of the vault", PARTLY)
    if case.key_mode & _EVERYBODY and not mode_of(here.places.vault_key_file) & _EVERYBODY:
        yield Finding(
            "key-was-open",
            PARTLY,
            "everybody on this machine could read the key of the vault until now: "
            f"{here.places.vault_key_file}",
            (f"its mode was {case.key_mode:04o}", "opening the vault closed it: only you can read it now"),
            (NextStep("vault key renew", before="If others use this machine, put a new key in its place:"),),
            alarm=True,
        )
    for path, what in (
        (here.places.vault, "the vault"),
        (here.places.data_directory, "safekept's own data"),
        (os.path.join(here.places.data_directory, "checkpoints"), "the checkpoint store"),
        (os.path.join(here.places.data_directory, "receipts"), "the receipts of drills"),
    ):
        yield from _private(case, path, what, NOTE)
    yield from _open_stores(case)
    if case.request.config_directory:
        # It may name commands that print a passphrase, and addresses with a token in them.
        config = os.path.join(case.request.config_directory, "config.toml")
        yield from _private(case, config, "the settings", NOTE)
    for home in case.status.homes:
        layout = here.choices.layouts.get(home.layout)
        if layout is not None and home.exists:
            yield from _secrets(case, home.home, layout)


def _open_stores(case: Case) -> Iterator[Finding]:
    """Stores that a seat belt is to close and does not, found out by trying."""
    if case.context.choices.seat_belt is False:
        return
    found = [one for one in look(case.context) if not one.closed and (one.state == "open" or one.why)]
    if not found:
        return
    by_hand = any(one.state == "open" for one in found)
    close = NextStep("vault close", before="Close it:")
    without = NextStep("settings", ("seat_belt", "false"), before="Or do without it:")
    yield Finding(
        "seat-belt-open",
        NOTE,
        f"the seat belt is open: an `rm -rf` would take {' and '.join(one.what for one in found)}",
        tuple(f"{one.path}: {one.why or 'opened by `vault open`'}" for one in found),
        (close, without) if by_hand else (without,),
    )


def mode_of(path: str) -> int:
    """The permission bits of a file; 0 where there is none."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except (OSError, ValueError):
        return 0


def _private(case: Case, path: str, what: str, level: str, home: str = "") -> Iterator[Finding]:
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return
    if stat.S_ISLNK(facts.st_mode):
        return  # what it leads to is looked at where it is
    mode = stat.S_IMODE(facts.st_mode)
    if not mode & _OTHERS:
        return
    wanted = 0o700 if stat.S_ISDIR(facts.st_mode) else 0o600
    after = mode & wanted if mode & 0o700 else wanted
    ours = facts.st_uid == os.geteuid() or os.geteuid() == 0
    command = f"chmod {after:o} {shell_word(path)}"
    text = f"sets the mode of {path} to {after:04o}"
    yield Finding(
        "permissions",
        level,
        f"{what} can be read or entered by others: {path}",
        (f"its mode is {mode:04o}", f"it belongs to user {facts.st_uid}"),
        (f"`{command}`",) if ours else ("Only its owner can mend that", f"`sudo {command}`"),
        Repair("mode", path, text, mode, after) if ours else None,
        home,
        alarm=level == PARTLY,
    )


def _secrets(case: Case, home: str, layout: Layout) -> Iterator[Finding]:
    """Every file that the layout knows as a secret; no directory is entered that can hold none."""
    for path in files_where(home, layout.secret, layout.secret_below):
        yield from _private(case, os.path.join(home, path), "a secret of your agent", NOTE, home)


def files_where(home: str, wanted: Callable[[str], bool], may_hold: Callable[[str], bool]) -> Iterator[str]:
    """Paths in a home that are wanted, in order; links are not followed."""
    for directory, names, files in os.walk(home):
        below = os.path.relpath(directory, home)
        prefix = "" if below == "." else below + "/"
        names[:] = sorted(name for name in names if may_hold(prefix + name))
        yield from (prefix + name for name in sorted(files) if wanted(prefix + name))
