# ruff: noqa: E501
"""Every bad archive gets a clear typed error, and the home stays byte-identical."""

import os
import zipfile

import pytest

from support.archives import bad_archives as bad
from support.commands.error_texts import error_code
from support.home.homes import differences, tree_facts

#: name -> (maker, error code, a phrase of the message)
CASES = {
    "missing": (lambda path: None, "archive-not-found", "There is no archive"),
    "directory": (os.mkdir, "archive-unreadable", "directory"),
    "empty": (lambda path: open(path, "wb").close(), "archive-unknown", "empty"),
    "text": (lambda path: _write(path, b"just some notes\n" * 50), "archive-unknown", "zip"),
    "no-members": (lambda path: zipfile.ZipFile(path, "w").close(), "not-a-backup", "holds nothing"),
    "holiday-photos": (lambda path: bad.zip_of(path, [("a.jpg", b"x"), ("deep/notes.yaml", b"y")]), "not-a-backup", "not of an agent's home"),
    "truncated-half": (lambda path: bad.truncated(bad.good_zip(path, ("big", os.urandom(9000))), 0.5), "archive-damaged", ""),
    "truncated-end": (lambda path: bad.truncated(bad.good_zip(path), 0.97), "archive-damaged", ""),
    "truncated-tar": (lambda path: bad.truncated(bad.tar_of(path, ("big", os.urandom(9000))), 0.6), "archive-damaged", ""),
    "flipped": (lambda path: _flip(bad.good_zip(path, ("big", os.urandom(9000))), 4000), "archive-damaged", "big"),
    "password": (bad.encrypted_zip, "archive-has-password", "password"),
    "bomb-ratio": (bad.bomb_by_ratio, "archive-too-large", "times"),
    "bomb-lie": (bad.bomb_by_lie, "archive-damaged", "state.db"),
    "parent": (lambda path: bad.good_zip(path, ("../outside.txt", b"x")), "archive-unsafe", "../outside.txt"),
    "parent-deep": (lambda path: bad.good_zip(path, ("a/../../outside.txt", b"x")), "archive-unsafe", "outside.txt"),
    "absolute": (lambda path: bad.good_zip(path, ("/etc/cron.d/x", b"x")), "archive-unsafe", "/etc/cron.d/x"),
    "drive": (lambda path: bad.good_zip(path, ("C:/windows/x", b"x")), "archive-unsafe", "C:"),
    "backslash": (lambda path: bad.rename_in_place(bad.good_zip(path, ("aa/b/c.txt", b"x")), b"aa/b/c.txt", b"..\\b\\c.txt"), "archive-unsafe", ""),
    "nul": (lambda path: bad.rename_in_place(bad.good_zip(path, ("aXb.txt", b"x")), b"aXb.txt", b"a\x00b.txt"), "archive-unsafe", ""),
    "duplicate": (lambda path: bad.rename_in_place(bad.good_zip(path, ("SOUL.mX", b"x")), b"SOUL.mX", b"SOUL.md"), "archive-unsafe", "twice"),
    "link-parent": (lambda path: bad.tar_of(path, bad.link("skills", "/etc"), ("skills/passwd", b"x")), "archive-unsafe", "skills"),
    "external-bashrc": (lambda path: bad.good_zip(path, ("_external/.bashrc", b"x"), ("_external/.ssh/authorized_keys", b"x")), "import-outside-home", "_external/.bashrc"),
}  # fmt: skip


def _write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def _flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x40]))
    return path


@pytest.mark.parametrize("name", CASES)
def test_a_bad_archive_is_refused_and_the_home_is_untouched(name, tmp_path, safekept, hermes_home):
    maker, code, phrase = CASES[name]
    path = str(tmp_path / "archive.zip")
    maker(path)
    before = tree_facts(hermes_home, databases="bytes")
    outside = sorted(os.listdir(tmp_path / "user"))
    done = safekept("import", path, "--home", hermes_home, "--force")
    assert done.returncode == 1, done.stdout + done.stderr
    rest = done.stderr.splitlines()
    assert error_code(done.stderr) == code, done.stderr
    assert phrase in done.stderr
    assert any(line.startswith("  Kept       ") for line in rest), done.stderr
    assert any(line.startswith("  Next       ") for line in rest), done.stderr
    assert differences(before, tree_facts(hermes_home, databases="bytes")) == []
    assert not (tmp_path / "user" / ".bashrc").exists()
    left = [item for item in sorted(os.listdir(tmp_path / "user")) if item not in outside]
    assert left in ([], [".local"], [".hermes.safekept", ".local"], [".hermes.safekept"]), left


def test_special_bits_never_land(tmp_path, safekept):
    archive = bad.good_zip(
        str(tmp_path / "a.zip"), ("tool", b"x"), modes={"tool": 0o106755, "SOUL.md": 0o101644}
    )
    home = tmp_path / "user" / ".hermes"
    done = safekept("import", archive, "--home", str(home), "--force")
    assert done.returncode == 0, done.stderr
    assert (home / "tool").stat().st_mode & 0o7777 == 0o755
    assert (home / "SOUL.md").stat().st_mode & 0o7000 == 0


def test_names_that_differ_only_in_case_both_land_where_the_filesystem_can_tell_them_apart(
    tmp_path, safekept
):
    archive = bad.good_zip(str(tmp_path / "a.zip"), ("Notes.md", b"upper"), ("notes.md", b"lower"))
    home = tmp_path / "user" / ".hermes"
    done = safekept("import", archive, "--home", str(home), "--force")
    assert done.returncode == 0, done.stderr
    assert ((home / "Notes.md").read_bytes(), (home / "notes.md").read_bytes()) == (b"upper", b"lower")


def test_secrets_land_private_whatever_the_archive_says(tmp_path, safekept):
    archive = bad.good_zip(
        str(tmp_path / "a.zip"), ("auth.json", b"{}"), modes={".env": 0o100666, "auth.json": 0o100644}
    )
    home = tmp_path / "user" / ".hermes"
    assert safekept("import", archive, "--home", str(home), "--force").returncode == 0
    assert [(home / name).stat().st_mode & 0o777 for name in (".env", "auth.json")] == [0o600, 0o600]
