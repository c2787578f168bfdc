"""Users whose protection is in a known state: empty, fresh, stale, alarmed, damaged.

Nothing is patched: a state is files on disk, made by the actions themselves, so that every command
can be asked about it. `aged` moves what is stored into the past, since no test can wait for a day.

    state = made("stale", directory)     # state.context, state.user, state.home
    told(text, state)                    # the same text without what differs from run to run
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from dataclasses import dataclass

from safekept.actions.archives.backup import BackupRequest, backup
from safekept.actions.base.context import UserContext
from safekept.actions.base.record import record
from safekept.actions.drill.receipts import FAILED, PASSED, UNKNOWN, Receipt, Row, save_receipt
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.vault.opening import open_vault
from safekept.core.events import silent
from safekept.core.journal import Record, new_id
from safekept.vault.storage import FileKind
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway

STATES = ("empty", "fresh", "stale", "alarmed", "damaged")
HOUR = 3600.0
DAY = 24 * HOUR


@dataclass(frozen=True)
class State:
    """One user: what actions need, his home directory, and his agent's home."""

    name: str
    context: UserContext
    user: str
    home: str
    snapshots: tuple[str, ...] = ()  # public ids, oldest first


def made(name: str, directory: object) -> State:
    """The user in that state, below a directory of his own."""
    return {"empty": empty, "fresh": fresh, "stale": stale, "alarmed": alarmed, "damaged": damaged}[name](
        directory
    )


def empty(directory: object) -> State:
    """A home, and nothing that keeps it."""
    here = throwaway(directory)
    home = os.path.join(here.places.user_home, ".hermes")
    make_hermes_home(home, profiles=(), awkward=False)
    code = os.path.join(home, "hermes-agent")
    os.makedirs(code)
    for number in range(3):
        with open(os.path.join(code, f"module{number}.py"), "w", encoding="ascii") as file:
            file.write("x = 1\n" * 100)
    return State("empty", here, here.places.user_home, home)


def fresh(directory: object) -> State:
    """A snapshot an hour ago and one just now, an archive, a proven restore; on this machine all is well."""
    state = empty(directory)
    first = _snapshot(state)
    backup(state.context, BackupRequest(state.context.locate(state.home)))
    drilled(state, first)
    settled(state)
    aged(state, HOUR)
    write(state, "memories/MEMORY.md", "one more thing to remember\n§\n", append=True)
    return dataclasses.replace(state, name="fresh", snapshots=(first, _snapshot(state)))


def stale(directory: object) -> State:
    """The same, three days later; nobody came by."""
    state = fresh(directory)
    aged(state, 3 * DAY)
    return dataclasses.replace(state, name="stale")


def alarmed(directory: object) -> State:
    """Fresh, then an update emptied the cron jobs and most memories, and a snapshot saw it."""
    state = fresh(directory)
    write(state, "cron/jobs.json", '{"jobs": []}')
    write(state, "memories/MEMORY.md", "the only thing left\n")
    seen = _snapshot(state)
    return dataclasses.replace(state, name="alarmed", snapshots=(*state.snapshots, seen))


def damaged(directory: object) -> State:
    """Fresh, then pages of the chat database were torn, and a snapshot took it as it is."""
    state = fresh(directory)
    tear(os.path.join(state.home, "state.db"))
    seen = _snapshot(state)
    return dataclasses.replace(state, name="damaged", snapshots=(*state.snapshots, seen))


def settled(state: State) -> None:
    """What a person decided: the kit is kept elsewhere; no schedule is wanted, and no agent connected."""
    here = state.context
    with open(os.path.join(here.places.data_directory, "vaults.json"), encoding="utf-8") as file:
        vaults = json.load(file)["vaults"]
    kits = {vault: {"acknowledged": time.time()} for vault in vaults.values()}
    left = {name: time.time() for name in ("no-schedule", "not-connected:hermes")}
    for name, document in (
        ("kits.json", {"version": 1, "vaults": kits}),
        ("declined.json", {"version": 1, "declined": left}),
    ):
        with open(os.path.join(here.places.data_directory, name), "w", encoding="utf-8") as file:
            json.dump(document, file)


def _snapshot(state: State, kind: str = "manual") -> str:
    here = state.context
    return create_snapshot(here, SnapshotRequest(here.locate(state.home), kind, check="always")).id


def drilled(state: State, snapshot: str, *, ok: bool = True) -> None:
    """What `safekept drill` leaves, a receipt and a line of the journal, without the price of a drill."""
    here = state.context
    rows = (
        Row("files", PASSED, 40, "every byte as it was stored"),
        Row("databases", PASSED if ok else FAILED, 1, "integrity_check"),
        Row("hermes", UNKNOWN, 0, "Hermes is not installed here"),
    )
    receipt = Receipt(
        new_id(), "snapshot", snapshot, state.home, time.time(), 1.5, ok, rows, files=40, bytes=100_000
    )
    save_receipt(here, receipt)
    facts = {"home": state.home, "subject": "snapshot", "name": snapshot, "seconds": 1.5, "files": 40}
    outcome = "done" if ok else "failed"
    record(here, Record(receipt.operation, "drill", outcome, facts={**facts, "bytes": 100_000}), silent)


def write(state: State, name: str, text: str, *, append: bool = False) -> None:
    path = os.path.join(state.home, name)
    with open(path, "a" if append else "w", encoding="utf-8") as file:
        file.write(text)


def tear(database: str) -> None:
    """Overwrite the middle of a database with what is no page."""
    size = os.path.getsize(database)
    with open(database, "r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xde\xad" * 4096)


# ── time passes ────────────────────────────────────────────────────────────────────────────────────


def aged(state: State, seconds: float) -> None:
    """Whatever happened so far happened so much earlier: snapshots, journal, receipts, archives."""
    here = state.context
    _age_snapshots(here, seconds)
    _age_lines(os.path.join(here.places.data_directory, "journal.jsonl"), seconds)
    receipts = os.path.join(here.places.data_directory, "receipts")
    for name in os.listdir(receipts) if os.path.isdir(receipts) else ():
        _age_receipt(os.path.join(receipts, name), seconds)
    for item in os.scandir(state.user):
        if item.is_file():
            times = item.stat().st_mtime - seconds
            os.utime(item.path, (times, times))


def _age_snapshots(here: UserContext, seconds: float) -> None:
    if not os.path.exists(os.path.join(here.places.vault, "config")):
        return
    with open_vault(here) as repository:
        for name, _ in list(repository.storage.list(FileKind.SNAPSHOT)):
            snapshot = repository.load_snapshot(name)
            older = dataclasses.replace(
                snapshot,
                time_ns=snapshot.time_ns - int(seconds * 1e9),
                original=snapshot.original or snapshot.id,
            )
            repository.save_snapshot(older)
            repository.delete_snapshot(name)


def _age_lines(path: str, seconds: float) -> None:
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            wholes = line.get("facts", {}).get("wholes") or {}  # what a push found newest
            if wholes:
                line["facts"]["wholes"] = {home: when - seconds for home, when in wholes.items()}
            file.write(json.dumps({**line, "time": line["time"] - seconds}) + "\n")


def _age_receipt(path: str, seconds: float) -> None:
    with open(path, encoding="utf-8") as file:
        receipt = json.load(file)
    receipt["started"] -= seconds
    if receipt.get("taken"):
        receipt["taken"] -= seconds
    with open(path, "w", encoding="utf-8") as file:
        json.dump(receipt, file)


# ── words without what differs ─────────────────────────────────────────────────────────────────────

_SAME: tuple[tuple[str, str], ...] = (
    (r"\b\d{8}-\d{6}-([0-9a-f]{6})\b", "OPERATION"),
    (r"\b[0-9a-f]{64}\b", "ID"),
    (r"\b[0-9a-f]{8}\b", "ID"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?", "TIME"),
    (r"\d{4}-\d\d-\d\d-\d{6}", "STAMP"),
    (r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d", "TIME"),
    (r"\b\d+(\.\d+)? (s|min)\b(?= ago| old)", "MOMENT"),
    (r"\b\d+(\.\d)? (B|KB|MB|GB)\b", "SIZE"),
    (r"\b\d+(\.\d)?(B|KB|MB|GB)\b", "SIZE"),
    (r"[▁▂▃▄▅▆▇█]{14}", "DAYS"),
    (r"(?<=the database is damaged: ).*?(?=\n +(?:Not kept|by rules)|\Z)", "…"),
    # What a check says of damage is in the words of each version of SQLite.
    (r"\A(?:Main freelist|Freelist|Tree \d+|On tree page|database disk image).*", "…"),
)


def told(text: str, state: State) -> str:
    """A text without paths, ids, times and sizes of this very run."""
    for place, word in (
        (state.context.places.data_directory, "DATA"),
        (state.home, "HOME"),
        (state.user, "USER"),
    ):
        text = text.replace(place, word)
    for pattern, word in _SAME:
        text = re.sub(pattern, word, text, flags=re.DOTALL)
    return text
