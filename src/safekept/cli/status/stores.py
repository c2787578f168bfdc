"""What `safekept status` shows of the vault, its key, and the keeper."""

from __future__ import annotations

from safekept.actions.status.findings.survival import BELT
from safekept.actions.status.status import Status
from safekept.actions.status.vault_status import NONE, OPEN
from safekept.core.ages import ago_text
from safekept.core.next_step import NextStep, Step

from ..console import count_text, size_text
from ..screen import Screen
from ..words.kit import revoke_step


def show_vault(screen: Screen, status: Status) -> None:
    vault, now = status.vault, status.time
    where = screen.path(vault.place)
    if vault.state == NONE:
        screen.fact("Vault", f"{where}: made by the first snapshot", top=True)
        return
    if vault.state != OPEN:
        screen.fact("Vault", f"{where}: CANNOT BE OPENED", top=True)
        return
    parts = [size_text(vault.bytes)] if vault.bytes is not None else []
    parts.append(count_text(vault.snapshots, "snapshot"))
    if vault.forgotten:
        parts.append(f"{vault.forgotten:,} forgotten")
    room = f"; {size_text(vault.free)} free" if vault.free is not None else ""
    # The usual answer takes no line of its own: a screen has 24.
    closed = status.survival is not None and status.survival.step == BELT
    screen.fact("Vault", f"{where}, closed to rm -rf ~ (tried now)" if closed else where, top=True)
    screen.fact("Holds", ", ".join(parts) + room)
    check = vault.check
    if check is None:
        checked: Step = NextStep("vault check", before="never checked:")
    else:
        read = ", every byte read" if check.read_data >= 1 else ""
        checked = f"{'sound' if check.sound else 'DAMAGED'}, checked {ago_text(check.time, now)}{read}"
    screen.fact("Health", checked)
    screen.fact("Key", _key(screen, status))
    if vault.old_keys:
        screen.fact("", revoke_step(vault.old_keys))
    open_archives = sum(1 for home in status.homes if home.archive and home.archive.readable_here)
    if open_archives:
        screen.fact(
            "Readable", f"{count_text(open_archives, 'archive')} can be opened by anyone with this disk"
        )
    said = closed or any(one.code == "key-only-here" for one in status.verdict.reasons)
    if status.survival is not None and not said:
        screen.fact("rm -rf ~", status.survival.text(now))
    for lock in vault.locks:
        screen.fact("Lock", lock)


def _key(screen: Screen, status: Status) -> str:
    vault = status.vault
    where = screen.path(vault.key_file) if vault.key_file else "a passphrase"
    spare = [
        f"{key.kind} {key.id[:8]}"
        for key in vault.keys
        if key.kind and not key.current and key not in vault.old_keys
    ]
    if vault.kits.stored:
        opens = " and still opens the vault" if vault.kits.stored_opens else ""
        spare.append(f"a kit that is stored elsewhere{opens}")
    stored = NextStep("vault kit", ("--stored",), before="Stored elsewhere?")
    gone = ""
    if vault.kit > vault.kits.stored and vault.kits.gone:
        again = f"{screen.console.step(NextStep('vault kit'))}. {screen.console.step(stored)}"
        gone = f"; the kit that was written {ago_text(vault.kit, status.time)} is gone: {again}"
    elif vault.kit > vault.kits.stored:
        files = screen.path(vault.kits.files[0]) if vault.kits.files else ""
        if len(vault.kits.files) > 1:
            files += " and .html"
        where_it_is = f" ({files})" if files else ""
        spare.append(
            f"a kit written {ago_text(vault.kit, status.time)}{where_it_is}. {screen.console.step(stored)}"
        )
    return (f"{where}; also {', '.join(spare)}" if spare else f"only copy: {where}") + gone


def show_keeper(screen: Screen, status: Status) -> None:
    keeper, now = status.keeper, status.time
    if keeper is None:
        return
    if keeper.wrong or keeper.newest is None:
        text = "does not answer" if keeper.wrong else "holds nothing of yours yet"
        screen.fact("Keeper", text, top=True)
        return
    screen.fact("Keeper", f"holds the stores as of {ago_text(keeper.confirmed, now)}", top=True)
    if keeper.behind:
        why = f": {keeper.failure}" if keeper.failure else ""
        screen.fact("", f"it does not have your last snapshot{why}")
    if keeper.why_not:
        screen.fact("", f"does not count: {keeper.why_not}")
