"""Verbs that people type first: `restore`, `settings`, `destinations add`; and words that are no command."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
import zipfile

import pytest

from safekept.cli.commands.restoring.restore import split
from safekept.core.ages import time_of
from safekept.core.next_step import NextStep, read_step
from support.commands.error_texts import error_code
from support.vault.snapshots import take

DAY = 86_400


def config(here) -> str:
    return os.path.join(here.places.user_home, ".config", "safekept", "config.toml")


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


# -- restore -------------------------------------------------------------------------------------------


def test_restore_alone_brings_the_newest_whole_snapshot_back(here, home, say):
    take(here, home)
    soul = os.path.join(home, "SOUL.md")
    was = read(soul)
    write(soul, "gone")
    said = say("restore", "--yes")
    assert said.code == 0, said.err
    assert read(soul) == was


def test_restore_of_a_path_takes_that_path_alone(here, home, say):
    take(here, home)
    soul, settings = os.path.join(home, "SOUL.md"), os.path.join(home, "config.yaml")
    was = read(soul)
    write(soul, "gone")
    write(settings, "changed: by me\n")
    said = say("restore", "SOUL.md", "--yes")
    assert said.code == 0, said.err
    assert read(soul) == was and read(settings) == "changed: by me\n"


def test_restore_takes_a_time_and_never_a_later_snapshot(here, home, say):
    now = time.time()
    soul = os.path.join(home, "SOUL.md")
    for days, text in ((3, "three days ago"), (1, "yesterday"), (0, "now")):
        write(soul, text)
        take(here, home, now_ns=int((now - days * DAY) * 1e9))
    write(soul, "broken")
    assert say("restore", "2d", "SOUL.md", "--yes").code == 0
    assert read(soul) == "three days ago"
    assert say("snapshot", "restore", "1h", "SOUL.md", "--yes").code == 0
    assert read(soul) == "yesterday"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("soul.md", "SOUL.md"), ("MEMORY.md", "memories/MEMORY.md"), ("writer", "profiles/writer")],
)
def test_a_name_that_is_nearly_there_is_offered_as_a_command_that_runs(here, home, say, typed, meant):
    write(os.path.join(home, "profiles/writer/config.yaml"), "x: 1\n")
    short = take(here, home).id[:8]
    os.rename(os.path.join(home, meant), os.path.join(home, "elsewhere"))
    said = say("restore", typed, "--home", home, "--yes")
    assert said.code == 1 and not os.path.lexists(os.path.join(home, meant)), "nothing unasked"
    assert f"here is nothing called `{typed}`" in said.err
    offer = f"Did you mean: `safekept snapshot restore {short} {meant} --home {home}`"
    assert offer in said.err, said.err
    assert "--json" not in said.err
    assert say(*shlex.split(offer.split("`")[1])[1:]).code == 0
    assert os.path.lexists(os.path.join(home, meant))


def test_a_directory_that_the_home_has_lost_is_a_path_and_no_label(here, home, say):
    take(here, home)
    os.rename(os.path.join(home, "memories"), os.path.join(home, "elsewhere"))
    said = say("restore", "memories", "--yes")
    assert said.code == 0, said.err
    assert os.listdir(os.path.join(home, "memories"))


def test_a_word_that_is_neither_label_nor_path_says_both(here, home, say):
    take(here, home)
    said = say("restore", "nobody", "--yes")
    assert said.code == 1 and error_code(said.err) == "nothing-matches"
    both = "No snapshot is called `nobody`, and there is nothing called `nobody` in what is to be restored"
    assert both in said.err
    assert "No snapshot starts with `abcdef`" in say("restore", "abcdef", "--yes").err


@pytest.mark.parametrize(
    ("words", "snapshot", "paths"),
    [
        (("yesterday", "18:00"), "yesterday 18:00", ()),
        (("yesterday", "18:00", "SOUL.md"), "yesterday 18:00", ("SOUL.md",)),
        (("3", "days", "ago", "SOUL.md"), "3 days ago", ("SOUL.md",)),
        (("1", "h"), "1", ("h",)),
        (("2h", "SOUL.md"), "2h", ("SOUL.md",)),
        (("SOUL.md", "yesterday"), "latest", ("SOUL.md", "yesterday")),
    ],
)
def test_a_time_of_two_words_needs_no_quotes(home, words, snapshot, paths):
    assert split(words, home) == (snapshot, paths)


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_a_file_that_is_called_like_a_clock_stays_a_path(home):
    write(os.path.join(home, "18:00"), "mine")
    assert split(("yesterday", "18:00"), home) == ("yesterday", ("18:00",))


def test_a_time_before_the_first_snapshot_is_said_and_nothing_is_changed(here, home, say):
    take(here, home)
    soul = os.path.join(home, "SOUL.md")
    write(soul, "mine")
    said = say("restore", "2001-01-01", "--yes")
    assert said.code != 0 and read(soul) == "mine"
    assert f"No snapshot of `{home}` is as old as `2001-01-01`" in said.err
    assert "`safekept snapshot list`" in said.err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("yesterday 18:00", "2026-11-14 18:00"),
        ("today", "2026-11-15 00:00"),
        ("14:30", "2026-11-15 14:30"),
        ("3am", "2026-11-15 03:00"),
        ("yesterday 12:05 pm", "2026-11-14 12:05"),
        ("12am", "2026-11-15 00:00"),
        ("13pm", None),
        ("friday 9:05", "2026-11-13 09:05"),
        ("sunday", "2026-11-08 00:00"),
        ("3 days ago", "2026-11-12 20:00"),
        ("2h", "2026-11-15 18:00"),
        ("2026-11-01", "2026-11-01 00:00"),
        ("2026-11-01 14:30", "2026-11-01 14:30"),
        ("2026-11-01T14:30", "2026-11-01 14:30"),
        ("before the update", None),
        ("25:00", None),
        ("yesterday at noon", None),
        ("", None),
    ],
)
def test_a_time_in_words_is_the_moment_that_a_person_means(words, wanted):
    now = time.mktime(time.strptime("2026-11-15 20:00", "%Y-%m-%d %H:%M"))  # a Sunday
    found = time_of(words, now)
    assert (found is None) == (wanted is None)
    if found is not None:
        assert time.strftime("%Y-%m-%d %H:%M", time.localtime(found)) == wanted


# -- settings ------------------------------------------------------------------------------------------


def test_a_setting_is_written_and_every_other_byte_of_the_file_stays(here, say):
    before = '# mine\nlayout = "hermes"  # why\n\n[schedule]\n# at night\nat = "03:30"\nkeep = 3\n'
    write(config(here), before)
    assert say("settings", "schedule.at", "04:15").code == 0
    assert read(config(here)) == before.replace("03:30", "04:15")
    assert json.loads(say("settings", "schedule.at", "--json").out)["value"] == "04:15"
    assert say("settings", "schedule.at", "--unset").code == 0
    assert read(config(here)) == before.replace('at = "03:30"\n', "")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("schedule.at", "noon"), "sets `schedule.at` to 'noon'"),
        (("backup.keep", "many"), "sets `backup.keep` to 'many', which is not a whole number"),
        (("bakup.keep", "3"), "There is no setting called `bakup.keep`"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_and_the_file_stays(here, say, words, text):
    write(config(here), 'layout = "hermes"\n')
    said = say("settings", *words)
    assert said.code == 2 and text in said.err
    assert read(config(here)) == 'layout = "hermes"\n'


def test_a_file_that_cannot_be_read_is_never_written_over(here, say):
    write(config(here), "this is [not toml\n")
    said = say("settings", "backup.keep", "3")
    assert said.code == 2 and "cannot be read" in said.err
    assert read(config(here)) == "this is [not toml\n"


def test_a_dry_run_checks_the_value_and_writes_nothing(here, say):
    said = say("settings", "backup.keep", "3", "--dry-run")
    assert said.code == 0 and said.out.startswith("Dry run. Would set backup.keep to 3")
    assert not os.path.exists(config(here))


def test_a_secret_address_is_not_shown(here, say):
    assert say("settings", "notify.ping", "https://hc.example/5ecret").code == 0
    shown = say("settings", "--all").out + say("settings", "notify.ping").out + say("settings", "--json").out
    assert "5ecret" not in shown and "notify.ping" in shown


# -- destinations --------------------------------------------------------------------------------------


def test_a_destination_is_tried_written_down_and_can_be_pushed_to(here, home, say, tmp_path):
    place = str(tmp_path / "disk")
    os.mkdir(place)
    take(here, home)
    said = say("destinations", "add", place, "--name", "nas", "--same-disk")
    assert said.code == 0, said.err
    assert "nas: usable" in said.out and "`safekept push nas`" in said.out
    listed = json.loads(say("destinations", "list", "--json").out)["destinations"]
    assert [(one["name"], one["url"]) for one in listed] == [("nas", f"file:{place}")]
    for words in (("destinations", "show"), ("fleet",)):  # the only one need not be named
        assert say(*words) == say(*words, "nas")
        assert place in say(*words).out + say(*words).err
    again = say("destinations", "add", place, "--name", "nas", "--same-disk")
    assert again.code == 2 and "There is a destination called `nas` already" in again.err
    assert say("destinations", "remove", "nas").code == 0
    assert json.loads(say("destinations", "list", "--json").out)["destinations"] == []
    assert say("destinations", "show").code == 2 and "No destinations yet." in say("fleet").err


def test_a_place_that_cannot_be_used_is_not_written_down(here, say):
    said = say("destinations", "add", os.path.join(here.places.user_home, "usb"))  # the disk of the system
    assert said.code == 1 and "Nothing was written into the settings" in said.out
    assert not os.path.exists(config(here))


def test_a_password_in_an_address_is_refused(here, say):
    said = say("destinations", "add", "sftp://me:pass5word@nas/srv")
    assert said.code == 2 and "holds a password" in said.err and "pass5word" not in said.err
    assert not os.path.exists(config(here))


# -- import --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "lands"),
    [
        (("old/.env", "old/notes.txt"), (".env", "notes.txt")),
        (("deep/er/config.yaml", "a.jpg"), ("deep/er/config.yaml", "a.jpg")),
    ],
)
def test_what_hermes_takes_for_a_backup_is_imported_and_the_doubt_is_said(here, say, tmp_path, names, lands):
    archive = str(tmp_path / "hand-made.zip")
    with zipfile.ZipFile(archive, "w") as file:
        for name in names:
            file.writestr(name, b"KEY=1\n")
    home = os.path.join(here.places.user_home, ".hermes")
    said = say("import", archive, "--dry-run")
    assert said.code == 0, said.err
    assert "Doubt" in said.out and "says that this is a home of Hermes" in said.out
    refused = say("import", archive)
    assert refused.code == 1 and not os.path.exists(home), "nobody agreed"
    assert say("import", archive, "--force", "--allow-damaged").code == 0
    for name in lands:
        assert os.path.isfile(os.path.join(home, name))


# -- words that are no command -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *[
            ("restor", "restore"),
            ("snapshots", "snapshot"),
            ("config", "settings"),
            ("list", "snapshot list"),
        ],
        *[("cron", "schedule"), ("passphrase", "vault key"), ("recover", "restore")],
        *[("hlep", "--help"), ("version", "--version"), ("confg", "settings")],
        *[("destinations rm", "destinations remove"), ("schedule status", "schedule show")],
    ],
)
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(say, word, meant):
    said = say(*word.split())
    assert said.code == 2
    assert f"There is no command `{word.split()[-1]}`. Did you mean: `safekept {meant}`?" in said.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("destinations", "destinations list"),
        ("schedule", "schedule show"),
        ("sessions", "sessions list"),
        ("vault key", "vault key list"),
    ],
)
def test_a_group_alone_shows_what_there_is(here, home, say, words, meant):
    take(here, home)
    alone, named = say(*words.split()), say(*meant.split())
    assert alone.code == 0 and alone.out, alone.err
    assert alone == named and "Usage" not in alone.out + alone.err


def test_a_command_that_people_do_not_type_is_not_proposed(say):
    for word in ("hepler", "hokk"):
        said = say(word)
        assert said.code == 2 and "helper" not in said.err.replace(word, "") and "hook" not in said.err, said


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("checkpoints", "checkpoint status"),
        ("checkpoints prune --yes", "checkpoint prune --yes"),
        ("disconnect hermes --home '/a b'", "connect --remove hermes --home '/a b'"),
        ("seal keygen -o agent.key", "backup keygen -o agent.key"),
        ("adopt --dry-run", "snapshot adopt --dry-run"),
        ("checkpoint stauts", "checkpoint status"),
        ("keeper restore --dry-run", "rebuild --dry-run"),
    ],
)
def test_a_former_name_is_answered_with_the_whole_command_of_today(say, words, meant):
    said = say(*shlex.split(words))
    assert said.code == 2
    assert f"Did you mean: `safekept {meant}`?" in said.err
    assert say(*shlex.split(meant), "--help").code == 0, "it parses"


def test_a_line_of_an_older_journal_is_shown_with_the_names_of_today():
    step = read_step("bring back: `safekept checkpoints prune --undo`")
    assert isinstance(step, NextStep)
    assert (step.verb, step.arguments) == ("checkpoint prune", ("--undo",))
    assert read_step("`safekept disconnect hermes`") == NextStep("connect", ("--remove", "hermes"))


def test_a_directory_named_like_a_command_is_a_project_when_it_is_written_as_a_path(
    say, tmp_path, monkeypatch
):
    (tmp_path / "work" / "list").mkdir(parents=True)
    (tmp_path / "work" / "list" / ".git").mkdir()
    (tmp_path / "work" / "stats").mkdir()
    (tmp_path / "work" / "stats" / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert json.loads(say("checkpoint", "list", "--json").out)["checkpoints"] == []
    for word in ("./list", "stats"):  # looks like `status`, and is there
        (tmp_path / "work" / word / "a.txt").write_text("one")
        taken = json.loads(say("checkpoint", word, "--json").out)
        assert taken["project"] == str(tmp_path / "work" / os.path.basename(word)) and taken["checkpoint"]


def test_help_shows_what_people_want_in_groups_and_hides_the_plumbing(say):
    said = say("--help").out
    headings = re.findall(r"^(\w[\w ]*):$", said, re.MULTILINE)
    assert headings == ["Options", "Protect", "Go back", "Prove", "Elsewhere", "Agents"]
    assert "\n  hook" not in said and "\n  helper" not in said and "\n  manual" not in said
