"""Names that nobody sane gives: in a destination, on the command line, in the environment.

Each is passed over or refused with an error of its own; none ends as an unexpected one.
"""

from __future__ import annotations

import os

import pytest

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
    words = ("push", there, "--archive", archive, "--unsealed", "--acknowledge-kit", "--json")
    pushed = run(*words, env={"SAFEKEPT_SAME_DISK": "1"})
    assert pushed.code in (0, 1, 3), pushed
    return there


def spoil(place):
    """Put every odd name at every level."""
    for directory, folders, _ in list(os.walk(place)):
        for name in ODD:
            if name not in ("..", "a\nb/"):
                path = os.path.join(directory, name)
                if not os.path.lexists(path):
                    with open(path, "wb") as file:
                        file.write(b"x")
        for name in (
            "\x1b[2Jdirectory",
            "lone\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"),
        ):
            os.makedirs(os.path.join(directory, name, "deeper"), exist_ok=True)
            with open(os.path.join(directory, name, "deeper", "\n.zip"), "wb") as file:
                file.write(b"x")
        del folders[:]


def test_odd_names_in_a_destination_are_passed_over(place, run, tmp_path):
    for directory in {os.path.dirname(one[0]) or one[0] for one in os.walk(place)}:
        spoil(directory)
    home = str(tmp_path / "user" / ".hermes")
    for words in (
        ("push", place, "--archive", str(tmp_path / "hermes-backup-2026-01-02-030405.zip"), "--unsealed"),
        ("pull", place, "--dry-run"),
        ("pull", place, "--archive", "latest", "--dry-run"),
        ("pull", place, "--archive", "\x1b[31mred", "--dry-run"),
        ("destinations", "list"),
        ("destinations", "test", place),
        ("fleet", place),
        ("snapshot", "list", "--destination", place, "--home", home),
        ("status",),
    ):
        done = run(*words, seconds=20)
        assert done.code in (0, 1, 2, 3, 4, 10, 12), (words, done)
        assert "\x1b[31m" not in done.out + done.err, words


@pytest.mark.parametrize(
    "host", ["../..", "..", "/", "a/b", "", "\x1b[31m", ".", "a" * 5000, "\udcff", "a\nb"]
)
def test_a_host_that_is_no_name_is_no_host(host, place, run):
    done = run("pull", place, "--archive", "latest", "--host", host, "--dry-run")
    assert done.code in ((0, 1, 2, 3) if host == "" else (1, 2)), done
    assert "\x1b[31m" not in done.out + done.err


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
        assert "\x1b[31m" not in done.out + done.err, words
        if words[:2] == ("schedule", "install"):
            # A line break in a file of lines would be a line of its own there: no such file is written.
            refused = any(ord(sign) < 32 for sign in odd)
            assert ("schedule-odd-name" in done.err) == refused, done
    assert not (tmp_path / "x").exists()
