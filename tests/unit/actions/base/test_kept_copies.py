"""Behind the seat belt lie copies of key, settings, journal and receipts, and none of them is lost."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess

import pytest

from safekept.actions.base.kept_copies import copies_belt, keep_copies
from safekept.actions.base.record import record
from safekept.core.events import silent
from safekept.core.journal import Record, new_id
from support.users.contexts import throwaway


@pytest.fixture
def context(tmp_path):
    made = throwaway(tmp_path, seat_belt=True)
    made = made.changed(
        settings_file=os.path.join(made.places.user_home, ".config", "safekept", "config.toml")
    )
    put(made.places.vault_key_file, "THE-KEY\n")
    put(made.places.settings_file, "seat_belt = true\n")
    yield made
    copies_belt(made).take_off()


def put(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def kept(context, *names: str) -> str:
    return os.path.join(context.places.data_directory, "kept", *names)


def note(context, verb: str) -> None:
    record(context, Record(new_id(), verb, "done"), silent)


def test_every_operation_brings_the_copies_up_to_date(context):
    note(context, "first")
    put(os.path.join(context.places.data_directory, "receipts", "one.json"), "{}")
    put(context.places.settings_file, "seat_belt = true\nhome = '/x'\n")
    note(context, "second")
    assert read(kept(context, "vault.key")) == "THE-KEY\n"
    assert read(kept(context, "config.toml")) == "seat_belt = true\nhome = '/x'\n"
    assert read(kept(context, "receipts", "one.json")) == "{}"
    assert read(kept(context, "journal.jsonl")) == read(context.journal.path)
    assert "first" in read(kept(context, "journal.jsonl"))
    assert os.stat(kept(context, "vault.key")).st_mode & 0o777 == 0o400
    assert copies_belt(context).holds()


def test_they_survive_what_takes_the_originals(context):
    note(context, "first")
    subprocess.run(["rm", "-rf", context.places.user_home], capture_output=True, timeout=60)
    assert not os.path.exists(context.places.vault_key_file)
    assert not os.path.exists(context.journal.path)
    assert read(kept(context, "vault.key")) == "THE-KEY\n"
    assert "first" in read(kept(context, "journal.jsonl"))


def test_a_journal_that_begins_anew_does_not_replace_the_old_one(context):
    note(context, "before-the-loss")
    old = read(context.journal.path)
    os.unlink(context.journal.path)
    note(context, "after")
    note(context, "later")
    assert read(kept(context, "journal.jsonl")) == read(context.journal.path)
    (earlier,) = glob.glob(kept(context, "journal.jsonl.before-*"))
    assert read(earlier) == old


def test_what_is_gone_takes_no_copy_with_it(context):
    note(context, "first")
    os.unlink(context.places.vault_key_file)
    os.unlink(context.places.settings_file)
    note(context, "second")
    assert read(kept(context, "vault.key")) == "THE-KEY\n"
    assert read(kept(context, "config.toml")) == "seat_belt = true\n"


def test_every_key_that_ever_was_is_kept_and_of_the_settings_the_last_few(context):
    for number in range(9):
        put(context.places.vault_key_file, f"KEY-{number}\n" + "x" * number)
        put(context.places.settings_file, f"# {number}\n" + "#" * number)
        keep_copies(context)
    assert len(glob.glob(kept(context, "vault.key.before-*"))) == 8
    assert len(glob.glob(kept(context, "config.toml.before-*"))) == 5


def test_nothing_is_written_while_nothing_changed(context):
    keep_copies(context)
    before = {path: os.stat(path).st_mtime_ns for path in glob.glob(kept(context, "*"))}
    keep_copies(context)
    assert {path: os.stat(path).st_mtime_ns for path in glob.glob(kept(context, "*"))} == before


def test_without_the_setting_there_are_none_and_those_from_before_can_be_removed(context, tmp_path):
    plain = throwaway(tmp_path / "plain")
    note(plain, "first")
    assert not os.path.exists(kept(plain))
    note(context, "first")
    note(context.changed(seat_belt=False), "off")
    shutil.rmtree(kept(context))
