"""Names that nobody sane gives: in a destination, on the command line, in the environment.

Each is passed over or refused with an error of its own; none ends as an unexpected one.
"""

from __future__ import annotations

import os
import shutil

import pytest

from support.commands.error_texts import error_code

ODD = ["\x1b[31mred", "a\nb", "..", "...", "a\\b", "\x7f", "é" * 100, "con", "x" * 240, "\udcff\udcfe"]


@pytest.fixture
def place(tmp_path, run):
    """A destination on a disk that holds a vault, an archive, and whatever somebody else put there."""
    home = tmp_path / "user" / ".hermes"
    home.mkdir(parents=True)
    (home / "config.yaml").write_text("model: {}\n")
    (home / "SOUL.md").write_text("You are Iris.\n")
    there = str(tmp_path / "there")
    os.makedirs(there)
    assert run("snapshot", "--home", home).code == 0
    archive = str(tmp_path / "hermes-backup-2026-01-02-030405.zip")
    assert run("backup", "--home", home, "-o", archive).code == 0
    settings = tmp_path / "user" / ".config" / "safekept"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "config.toml").write_text(
        f'[[destination]]\nname = "disk"\nurl = "{there}"\nsame_disk = true\n'
    )
    assert run("vault", "kit", "-o", str(tmp_path / "kit")).code == 0
    pushed = run("push", "disk", "--acknowledge-kit", "--archive", archive, "--unsealed")
    assert pushed.code == 0, pushed
    return there


def spoil(place):
    """At every level: every odd name as a file, and what stands there once more under odd names."""
    levels = [(directory, list(folders), list(files)) for directory, folders, files in os.walk(place)]
    for directory, folders, files in levels:
        for name in ODD:
            if name != "..":
                with open(os.path.join(directory, name), "wb") as file:
                    file.write(b"x")
        for name in folders[:3]:
            shutil.copytree(os.path.join(directory, name), os.path.join(directory, f"\x1b[31m{name}"))
        for name in files[:3]:
            for odd in (f"\x1b[31m{name}", f"\n{name}", f"{name}\udcff", f"a\\{name}"):
                shutil.copyfile(os.path.join(directory, name), os.path.join(directory, odd))
    return len(levels)


def test_odd_names_in_a_destination_are_passed_over(place, run, tmp_path):
    before = {words: run(*words) for words in (("destinations", "show", "disk"), ("fleet", "disk"))}
    assert spoil(place) > 8, "a vault and an archive are there"
    archive = str(tmp_path / "hermes-backup-2026-01-02-030405.zip")
    elsewhere = {"HOME": str(tmp_path / "elsewhere")}
    os.makedirs(elsewhere["HOME"])
    for words, code, environment in (
        (("push", "disk", "--archive", archive, "--unsealed"), 0, {}),
        (("pull", "disk", "--into", str(tmp_path / "copy")), 0, {}),
        (("pull", "disk", "--archive", "latest", "--into", str(tmp_path / "back")), 0, {}),
        (("pull", "disk", "--archive", "\x1b[31mred", "--dry-run"), 1, {}),
        (("destinations", "show", "disk"), 0, {}),
        (("destinations", "test", "disk"), 0, {}),
        (("fleet", "disk"), before["fleet", "disk"].code, {}),
        (("pull", place), 0, elsewhere),
        (("vault", "check", "--read-data"), 0, {}),
    ):
        done = run(*words, seconds=20, env=environment)
        assert done.code == code, (words, done)
        assert "unexpected" not in done.err and "\x1b" not in done.out + done.err, (words, done)
        if words in before:
            assert len(done.out.splitlines()) == len(before[words].out.splitlines()), (words, done.out)
    with open(archive, "rb") as sent, open(tmp_path / "back" / os.path.basename(archive), "rb") as back:
        assert back.read() == sent.read()


def test_a_host_that_is_no_name_is_no_host(place, run):
    words = ("pull", place, "--archive", "latest", "--dry-run", "--host")
    assert run(*words, os.listdir(os.path.join(place, "archives"))[0]).code == 0
    for host in ("../..", "..", "/", "a/b", "\x1b[31m", ".", "a" * 5000, "\udcff", "a\nb"):
        done = run(*words, host)
        assert done.code == 1 and error_code(done.err) == "no-such-archive", done
        assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize(
    "odd", ["a\nb", "a\tb", "\x1b[31mred", "a%b", 'a"b', "a'b", "a b", "a\\b", "$(touch x)", "é"]
)
def test_a_home_directory_with_any_name_can_have_a_schedule_or_is_told_why_not(odd, tmp_path, run):
    user = tmp_path / odd
    (user / ".hermes").mkdir(parents=True)
    (user / ".hermes" / "config.yaml").write_text("model: {}\n")
    (user / ".hermes" / "SOUL.md").write_text("You are Iris.\n")
    env = {"HOME": str(user), "PATH": str(tmp_path / "nothing") + ":" + os.environ["PATH"]}
    for words in (
        ("schedule", "install", "--dry-run"),
        ("schedule", "show"),
        ("snapshot",),
        ("status",),
        ("doctor",),
    ):
        done = run(*words, env=env, cwd=str(tmp_path), seconds=20)
        assert done.code in (0, 1, 2, 3, 4), (words, done)
        assert "\x1b[31m" not in done.out + done.err and "unexpected" not in done.err, words
        if words[:2] == ("schedule", "install"):
            # A line break in a file of lines would be a line of its own there: no such file is written.
            refused = any(ord(sign) < 32 for sign in odd)
            assert ("schedule-odd-name" in done.err) == refused, done
    assert not (tmp_path / "x").exists()
