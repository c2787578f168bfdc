"""`the last verified one` is one that a person can rely on; what a drill has proven counts as checked."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time

from safekept.actions.alarms.alarms import LOSS, Alarm, raise_alarm
from safekept.actions.drill.receipts import FAILED, PASSED, SNAPSHOT, Receipt, Row, save_receipt
from safekept.actions.status.status import look
from safekept.vault.care import mark_proven
from safekept.vault.snapshots import list_snapshots, public_id
from support.commands.in_process import spoken
from support.vault.snapshots import opened, take


def drilled(here, home, snapshot, ok, second=0):
    rows = (Row("agent", PASSED if ok else FAILED, 1, "Hermes opened 1 home"),)
    operation = f"20260101-00000{second}-aaaaaa"
    save_receipt(here, Receipt(operation, SNAPSHOT, snapshot, home, time.time() + second, 1.0, ok, rows))


def verified(here):
    (found,) = look(here).homes
    return found.verified.id if found.verified else ""


def test_one_whose_drill_failed_is_not_the_last_verified_one(here, home):
    first = take(here, home).id
    second = take(here, home, kind="scheduled").id
    assert verified(here) == second
    drilled(here, home, second, ok=False)
    assert verified(here) == first
    drilled(here, home, first, ok=False, second=1)
    assert verified(here) == ""
    drilled(here, home, second, ok=True, second=2)
    assert verified(here) == second, "its last drill passed"


def test_neither_is_one_that_was_taken_before_a_restore_or_after_a_loss(here, home):
    whole = take(here, home).id
    take(here, home, kind="pre-restore")
    assert verified(here) == whole
    take(here, home, kind="scheduled")
    assert verified(here) != whole
    raise_alarm(here, Alarm(kind=LOSS, home=home, text="memories 2 → 0", pinned=whole))
    assert verified(here) == whole


def test_the_databases_of_a_proven_snapshot_count_as_checked(here, home, monkeypatch):
    say = spoken(monkeypatch, here.places.user_home)
    take(here, home)
    with contextlib.closing(sqlite3.connect(os.path.join(home, "state.db"))) as database, database:
        database.execute("DELETE FROM messages WHERE rowid = (SELECT max(rowid) FROM messages)")
    proven = take(here, home, check="never", kind="scheduled").id
    assert "databases not rechecked" in say("status").out
    with opened(here) as repository, repository.lock(exclusive=True) as lock:
        (snapshot,) = (one for one in list_snapshots(repository)[0] if public_id(one) == proven)
        mark_proven(repository, [snapshot], lock, now_ns=time.time_ns())
    shown = say("status").out
    assert "its databases sound" in shown and "the last verified one" not in shown
    assert verified(here) == proven
    (document,) = json.loads(say("status", "--json").out)["homes"]
    assert document["last_snapshot"]["databases"] == "sound"
