"""Defects that a stranger met in the commands that show and prove protection; each stays mended."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

import safekept.core.journal
from safekept.cli.console import Console
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.vault.closed import lose


@pytest.fixture
def user(tmp_path):
    place = tmp_path / "user"
    make_hermes_home(str(place / ".hermes"), profiles=(), awkward=False)
    return str(place)


@pytest.fixture
def say(monkeypatch, user):
    return spoken(monkeypatch, user)


def child(user: str, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """`safekept` in a process of its own, whose output goes where the test says."""
    environment = {"HOME": user, "PATH": os.environ["PATH"], "NO_COLOR": "1"}
    command = [sys.executable, "-I", "-m", "safekept", *words]
    settings = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.run(command, **{**settings, **options})  # type: ignore[call-overload]


# ── where nobody hears the answer ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", [("status",), ("status", "--json")])
def test_output_that_cannot_be_written_is_an_error_and_no_traceback(user, words):
    with open("/dev/full", "w") as full:
        result = child(user, *words, stdout=full)
    assert result.returncode == 1
    assert error_code(result.stderr) == "output-not-written", result.stderr
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr


def test_closed_output_changes_neither_the_work_nor_its_exit_code(user):
    closed = 'exec >&- 2>&-; exec "$0" "$@"'
    environment = {"HOME": user, "PATH": os.environ["PATH"]}
    words = ["sh", "-c", closed, sys.executable, "-I", "-m", "safekept"]
    assert subprocess.run([*words, "snapshot"], env=environment).returncode == 0
    assert subprocess.run([*words, "status", "--check"], env=environment).returncode == 3, "no drill, one key"
    assert subprocess.run([*words, "undo"], env=environment).returncode == 1
    with open("/dev/full", "w") as full:
        assert child(user, "undo", stdout=full, stderr=full).returncode == 1
        assert child(user, "drill", "nothing-like-it", stdout=full, stderr=full).returncode == 1


def test_an_unforeseen_error_is_told_even_where_its_details_cannot_be_kept(say, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("nobody foresaw this")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safekept.actions.status.status.recent", broken)
    monkeypatch.setattr("tempfile.mkstemp", full)
    said = say("status", "--json")
    assert said.code == 1
    error = json.loads(said.out)["error"]
    assert error["code"] == "unexpected" and "nobody foresaw this" in error["what"]
    assert error["facts"]["traceback"] is None and "please report" in " ".join(error["next"]).lower()


def test_an_interrupted_command_still_prints_one_document(say, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("safekept.actions.status.status.recent", interrupted)
    said = say("status", "--json")
    assert said.code == 130
    assert json.loads(said.out)["error"]["code"] == "interrupted"
    assert say("status").err.strip() == "Interrupted; nothing was changed"


# ── what status says ───────────────────────────────────────────────────────────────────────────────


def test_a_database_that_became_zeros_is_an_alarm_with_the_snapshot_that_has_it(say, user):
    good = json.loads(say("snapshot", "--json").out)["id"]
    path = os.path.join(user, ".hermes", "state.db")
    size = os.path.getsize(path)
    with open(path, "wb") as file:
        file.write(bytes(size))
    assert say("snapshot").code == 3
    said = say("status", "--check")
    assert said.code == 4, said.out
    assert "ALARM, partly protected: state.db in ~/.hermes is damaged\n" in said.out
    assert f"`safekept snapshot restore {good[:8]} state.db`" in said.out
    assert say("status", "--short", "--check").code == 4
    assert say("snapshot", "restore", good[:8], "state.db", "--yes").code == 0
    assert say("snapshot").code == 0
    assert "database-damaged" not in say("status", "--json").out


def test_the_short_answer_knows_that_the_last_attempt_failed(say, user):
    assert say("snapshot").code == 0
    assert "snapshot" not in say("status", "--short").out
    key = os.path.join(user, ".config", "safekept", "vault.key")
    os.rename(key, key + ".away")
    lose(os.path.join(user, ".local", "share", "safekept", "kept", "vault.key"))
    assert say("snapshot").code == 12
    said = say("status", "--short", "--check")
    assert said.code == 4 and said.out == say("status", "--short").out
    assert "is there, but its key file" in said.out, "and that comes first"


def test_the_short_answer_reads_no_more_of_the_journal_than_it_needs(say, user, monkeypatch):
    assert say("snapshot").code == 0
    journal = os.path.join(user, ".local", "share", "safekept", "journal.jsonl")
    with open(journal, "rb") as file:
        line = file.read().splitlines()[-1]
    with open(journal, "ab") as file:
        file.write((line + b"\n") * 500)
    parsed = []
    real = safekept.core.journal.parse_line
    monkeypatch.setattr("safekept.core.journal.parse_line", lambda one: parsed.append(one) or real(one))
    monkeypatch.setattr(
        "safekept.actions.status.recent.parse_line", lambda one: parsed.append(one) or real(one)
    )
    assert say("status", "--short").out.startswith("safekept: Partly protected: ")
    assert 0 < len(parsed) < 10


def test_a_snapshot_from_the_future_hides_no_stale_one_from_the_short_answer(say, user):
    assert say("snapshot").code == 0
    journal = os.path.join(user, ".local", "share", "safekept", "journal.jsonl")
    with open(journal, "rb") as file:
        record = json.loads(file.read().splitlines()[-1])
    old, ahead = {**record, "time": record["time"] - 3 * 86400}, {**record, "time": record["time"] + 86400}
    with open(journal, "w", encoding="utf-8") as file:
        file.write(f"{json.dumps(old)}\n{json.dumps(ahead)}\n")
    assert "is 3 days old" in json.dumps(_reasons(user))
    with open(journal, "w", encoding="utf-8") as file:
        file.write(f"{json.dumps(ahead)}\n")
    assert "dated in the future" in json.dumps(_reasons(user))


def _reasons(user):
    """What the short answer rests on: the journal alone."""
    from safekept.actions.status.status import look
    from safekept.cli.options import context_from

    settings = safekept.settings.load_settings({"HOME": user})
    return [one.text for one in look(context_from(settings), open_vault=False).verdict.reasons]


def test_every_home_is_named_where_the_vault_does_not_open(say, user, tmp_path):
    other = make_hermes_home(str(tmp_path / "other"), profiles=(), awkward=False)
    assert say("snapshot").code == say("snapshot", "--home", other).code == 0
    os.unlink(os.path.join(user, ".config", "safekept", "vault.key"))
    lose(os.path.join(user, ".local", "share", "safekept", "kept", "vault.key"))
    document = json.loads(say("status", "--json").out)
    homes = {one["home"]: one["last_snapshot"]["from_journal"] for one in document["homes"]}
    assert homes == {os.path.join(user, ".hermes"): True, other: True}


ODD = "it's a\nhome \udcff\x1b[31m"


def test_commands_for_a_home_with_an_odd_name_run_as_printed(say, user, tmp_path):
    home = make_hermes_home(str(tmp_path / ODD), profiles=(), awkward=False)
    assert say("snapshot").code == say("snapshot", "--home", home).code == 0
    with open(os.path.join(home, "state.db"), "r+b") as file:
        file.write(b"something else entirely " * 300)
    os.chmod(os.path.join(home, ".env"), 0o644)
    said = say("doctor")
    assert said.code == 4 and "\x1b" not in said.out
    assert "Gone" not in say("status").out  # its name lost a byte in the vault; it is there all the same
    status = say("status", "--home", home)
    commands = re.findall(r"`((?:safekept|chmod) [^`]*)`", said.out + status.out)
    named = [one for one in commands if "--home" in one or one.startswith("chmod")]
    assert any(one.startswith("safekept snapshot restore") for one in named), said.out
    assert any(one.startswith("chmod") for one in named), said.out
    assert any(one.startswith("safekept drill --home") for one in re.findall(r"`([^`]*)`", status.out))
    for one in named:
        words = subprocess.run(["bash", "-c", f"printf '%s\\0' {one}"], capture_output=True).stdout
        last = os.fsdecode(words).split("\0")[-2]
        assert last.startswith(home) and os.path.lexists(last), one


def test_nobody_says_protected_while_the_alarms_cannot_be_read(say, user):
    assert say("snapshot").code == 0
    journal = os.path.join(user, ".local", "share", "safekept", "journal.jsonl")
    os.unlink(journal)
    os.mkdir(journal)
    said = say("status", "--check")
    assert said.code == 3
    assert "Partly protected: the journal cannot be read (it is not a regular file)" in said.out
    said = say("status", "--acknowledge")
    assert said.code == 1 and "No alarm is open" not in said.out and "journal-unreadable" in said.err
    said = say("doctor")
    assert said.out.count("the journal cannot be read") == 1, said.out


def test_one_torn_line_is_one_line(say, user):
    assert say("snapshot").code == 0
    with open(os.path.join(user, ".local", "share", "safekept", "journal.jsonl"), "ab") as file:
        file.write(b'{"version": 1, "time": 17')
    assert "- 1 line of the journal cannot be read and is passed over" in say("doctor").out


def test_more_of_the_log_is_more_of_what_was_asked_for(say, user):
    for _ in range(3):
        assert say("snapshot").code == 0
    home = os.path.join(user, ".hermes")
    said = say("log", "-n", "2", "--verb", "snapshot", "--home", home, "--since", "2 days")
    command = re.search(r"There is more: `safekept (.*)`", said.out)
    assert command, said.out
    assert shlex.split(command[1]) == [
        "log",
        "--all",
        "--verb",
        "snapshot",
        "--since",
        "2 days",
        "--home",
        home,
    ]
    assert say(*shlex.split(command[1])).out.count(" snapshot ") == 3
    assert say("log", "--verb", "push").out == "Nothing was done yet that fits\n"


def test_what_to_do_after_a_failed_drill_is_readable_and_runs(say, user):
    assert say("snapshot").code == 0
    vault = os.path.join(user, ".local", "share", "safekept", "vault", "data")
    for place, _, names in os.walk(vault):
        for name in names:
            with open(os.path.join(place, name), "r+b") as file:
                file.seek(os.path.getsize(file.name) // 2)
                file.write(b"not what was here before")
    assert say("drill").code == 1
    for words in ("status", "doctor"):
        out = say(words).out
        assert all(line.count("`") % 2 == 0 for line in out.splitlines() if "`" in line), out
        assert "See what else is damaged: `safekept vault check --read-data`" in re.sub(r"\s+", " ", out)
        assert not re.search(r"`[A-Z ]", re.sub(r"`[^`\n]*`", "", out)), out


# ── undo ───────────────────────────────────────────────────────────────────────────────────────────


def test_undo_of_an_id_that_was_undone_and_redone_follows_the_chain(say, user):
    soul = os.path.join(user, ".hermes", "SOUL.md")

    def reads() -> str:
        with open(soul, encoding="utf-8") as file:
            return file.read()

    with open(soul, "w", encoding="utf-8") as file:
        file.write("before\n")
    assert say("snapshot").code == 0
    with open(soul, "w", encoding="utf-8") as file:
        file.write("after\n")
    restored = json.loads(say("snapshot", "restore", "latest", "--yes", "--json").out)["operation"]
    assert say("undo").code == say("undo").code == 0  # taken back, and there again
    assert reads() == "before\n"
    assert say("undo", restored).code == 0  # it stands, so it can be taken back
    assert reads() == "after\n"
    refused = say("undo", restored)
    assert refused.code == 1 and "it was taken back already" in refused.err
    command = re.search(r"To have it again: `safekept (undo [^`]+)`", refused.err)
    assert command, refused.err
    assert say(*command[1].split()).code == 0  # as printed
    assert reads() == "before\n"


def test_an_alarm_is_over_exactly_while_what_it_is_about_is_back(say, user):
    config = os.path.join(user, ".hermes", "config.yaml")
    assert say("snapshot").code == 0
    os.unlink(config)
    assert say("snapshot").code == 0
    alarm = json.loads(say("status", "--json").out)["alarms"][0]
    command = (*shlex.split(alarm["restore"][0])[1:], "--yes")
    for restored in (
        lambda: say(*command),
        lambda: say("undo"),
        lambda: say("undo"),
        lambda: say("undo"),
    ):
        assert restored().code == 0
        assert say("status", "--check").code == (3 if os.path.exists(config) else 4)


def test_no_single_letter_undoes_what_a_guard_brought_back(say, user):
    assert say("snapshot").code == 0
    database = os.path.join(user, ".hermes", "state.db")
    spoil = f"import os; os.truncate({database!r}, 0)"
    say("guard", "--auto-restore", "--", sys.executable, "-c", spoil)
    assert os.path.getsize(database) > 0
    guarded = json.loads(say("log", "--verb", "guard", "--json").out)["operations"][0]["operation"]
    letters = next(guarded[-n:] for n in range(1, 6) if not guarded.startswith(guarded[-n:]))
    assert say("undo", letters).code == 1
    assert os.path.getsize(database) > 0
    assert say("undo", guarded[-6:]).code == 0
    assert os.path.getsize(database) == 0


def test_what_cannot_be_undone_names_its_home_in_what_can_be_done_instead(say, user, tmp_path):
    other = make_hermes_home(str(tmp_path / "other home"), profiles=(), awkward=False)
    assert say("snapshot").code == say("snapshot", "--home", other).code == 0
    with open(os.path.join(other, "SOUL.md"), "a", encoding="utf-8") as file:
        file.write("later\n")
    words = ("snapshot", "restore", "latest", "--yes", "--home", other)
    restored = json.loads(say(*words, "--json").out)["operation"]
    shutil.rmtree(other + ".safekept")
    refused = say("undo", restored)
    command = re.search(r"A snapshot was taken before it: `safekept ([^`]+)`", refused.err)
    assert refused.code == 1 and command, refused.err
    assert say(*shlex.split(command[1]), "--yes").code == 0
    with open(os.path.join(other, "SOUL.md"), encoding="utf-8") as file:
        assert file.read().endswith("later\n")


def test_a_file_that_is_gone_has_no_days_of_grace(say, user):
    secret = os.path.join(user, ".hermes", ".env")
    assert say("snapshot").code == 0
    os.chmod(secret, 0o644)
    mended = re.search(r"Put the modes back: `safekept (undo [^`]+)`", say("doctor", "--fix").out)
    assert mended
    os.unlink(secret)
    said = say(*mended[1].split())
    assert said.code == 3
    assert f"{secret}: No such file or directory" in said.out and "grace" not in said.out


def test_undo_does_not_say_that_nothing_was_done_where_the_journal_cannot_be_read(say, user):
    os.makedirs(os.path.join(user, ".local", "share", "safekept", "journal.jsonl"))
    for words in (("undo",), ("undo", "abcdef"), ("log", "abcdef")):
        said = say(*words)
        assert said.code == 1 and error_code(said.err) == "journal-unreadable", said.err


def test_every_command_has_an_answer_where_the_data_directory_is_no_directory(say, user):
    os.makedirs(os.path.join(user, ".local", "share"))
    with open(os.path.join(user, ".local", "share", "safekept"), "w", encoding="utf-8") as file:
        file.write("not a directory\n")
    for words in (
        ("status",),
        ("status", "--check"),
        ("status", "--short"),
        ("log",),
        ("undo",),
        ("doctor",),
        ("doctor", "--fix"),
        ("snapshot",),
        ("drill",),
        ("drill", "--checkpoints"),
        ("guard", "--", "true"),
        ("schedule", "show"),
        ("schedule", "run"),
        ("status", "--acknowledge"),
    ):
        said = say(*words)
        assert error_code(said.err) != "unexpected", (words, said.err)
    assert error_code(say("schedule", "run").err) == "no-place-for-schedule"


def test_ctrl_c_while_progress_begins_brings_the_cursor_back(monkeypatch):
    stopped = []

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rich.progress.Progress.start", interrupted)
    monkeypatch.setattr("rich.progress.Progress.stop", lambda _: stopped.append(True))
    monkeypatch.setattr(Console, "draws", lambda _: True)
    with pytest.raises(KeyboardInterrupt):
        Console(as_json=False).listener()
    Console.finish()
    assert stopped == [True]
