"""Sealing at the command line: what is printed, what is refused, and what a person is asked."""

import json
import os
import stat

import pytest

from safekept.archive.container.handle import open_handle
from safekept.archive.sealing.age import keys as age_keys
from safekept.archive.sealing.age.file import AgeFile, sealed_bytes
from safekept.archive.sealing.age.keys import AgeIdentity, Passphrase
from support.archives.seals import PASSPHRASE, PLAIN, SAFEKEPT, at_terminal
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import differences, make_hermes_home, tree_facts

ME, OTHER = AgeIdentity.generate(), AgeIdentity.generate()
PUBLIC = str(ME.recipient)


@pytest.fixture
def user(tmp_path):
    made = tmp_path / "user"
    make_hermes_home(str(made / ".hermes"))
    (made / "key").write_text(ME.text + "\n")
    (made / "other").write_text(OTHER.text + "\n")
    (made / "words").write_text(PASSPHRASE + "\n")
    return made


@pytest.fixture(autouse=True)
def quick_passphrases(monkeypatch):
    """The second that a passphrase costs on purpose is proven elsewhere, with the real age."""
    monkeypatch.setattr(age_keys, "WORK", 10)


@pytest.fixture
def say(user, monkeypatch):
    return spoken(monkeypatch, str(user))


def content(path):
    with open(path, "rb") as file:
        return file.read()


def sealed(say, *words, to=PUBLIC):
    done = say("backup", "--seal", to, "-o", "a", "--json", *words)
    assert done.code == 0, done.err
    return json.loads(done.out)["path"]


# ── sealing ────────────────────────────────────────────────────────────────────────────────────────


def test_an_option_is_not_taken_for_whom_it_is_sealed(say):
    said = say("backup", "--seal", "--dry-run")
    assert said.code == 2
    assert "--seal needs to know for whom, and `--dry-run` is an option." in said.err


def test_a_sealed_backup_says_who_opens_it_and_how(say, user):
    done = say("backup", "--seal", PUBLIC, "-o", "a", "--format", "tar.zst")
    assert done.code == 0
    archive = f"{user}/a.tar.zst.age"
    assert done.out.startswith(f"Backup complete: {archive}\n")
    assert f"  Sealed     age, to {PUBLIC}\n" in done.out
    assert "             it opens with the private half of that key (KEYFILE below)\n" in done.out
    assert f"Restore with: `safekept import {archive} --identity KEYFILE`\n" in done.out
    assert stat.S_IMODE(os.stat(archive).st_mode) == 0o600
    done = say("backup", "--seal", "passphrase", "--passphrase-file", "words", "-o", "b")
    assert "  Sealed     age, with a passphrase\n" in done.out
    assert "             it opens with that passphrase, which is kept nowhere\n" in done.out
    assert f"Restore with: `safekept import {user}/b.zip.age`\n" in done.out


def test_names_of_sealed_archives_end_in_what_they_are(say, user):
    for named, form, expected in (
        ("one", "zip", "one.zip.age"),
        ("two.tar.zst", None, "two.tar.zst.age"),
        ("three.tar.zst.age", None, "three.tar.zst.age"),
        ("four.zip.age", None, "four.zip.age"),
    ):
        more = ("--format", form) if form else ()
        done = say("backup", "--seal", PUBLIC, "-o", named, *more, "--json")
        assert json.loads(done.out)["path"] == f"{user}/{expected}"
    done = say("backup", "-o", "five.zip.age")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "A file name that ends like a sealed one goes with --seal.",
    )
    done = say("backup", "--seal", PUBLIC, "--quick")
    assert done.code == 2
    assert "--seal goes with an archive, and not with --no-seal; with --quick, name one.\n" in done.err
    assert say("backup", "--seal", PUBLIC, "--no-seal").code == 2


def test_a_dry_run_names_the_seal_asks_for_nothing_and_writes_nothing(say, user):
    before = sorted(os.listdir(user))
    done = say("backup", "--seal", "passphrase", "--dry-run", "-o", "a")
    assert done.code == 0, done.err
    assert "  Sealed     age, with a passphrase\n" in done.out
    assert sorted(name for name in os.listdir(user) if name not in (".local", ".cache")) == before
    done = say("backup", "--seal", PUBLIC, "--dry-run", "--json")
    assert json.loads(done.out)["sealed"] == {"kind": "age", "to": [PUBLIC]}
    assert json.loads(done.out)["archive"].endswith(".zip.age")
    assert say("backup", "--seal", PUBLIC[:-1], "--dry-run").code == 2


def test_settings_and_variables_seal_too(say, user, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_BACKUP_SEAL", f"{PUBLIC}, {OTHER.recipient}")
    done = say("backup", "-o", "a", "--json")
    assert json.loads(done.out)["sealed"]["to"] == [PUBLIC, str(OTHER.recipient)]
    assert say("import", "a.zip.age", "--identity", "other", "--dry-run").code == 0
    monkeypatch.setenv("SAFEKEPT_BACKUP_SEAL", "gpg:ABCD1234")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert error_code(say("backup", "-o", "b").err) == "gpg-missing"
    monkeypatch.setenv("SAFEKEPT_BACKUP_SEAL", "passphrase")
    monkeypatch.setenv("SAFEKEPT_SEAL_PASSPHRASE_COMMAND", f"/bin/cat {user}/words")
    assert say("backup", "-o", "c").code == 0
    assert say("import", "c.zip.age", "--dry-run").code == 0
    assert json.loads(say("backup", "--no-seal", "-o", "d", "--json").out)["sealed"] is None


def test_keep_counts_sealed_archives_that_the_same_key_opens(say, user):
    for number in range(3):
        done = say("backup", "--seal", PUBLIC, "-o", f"kept/n{number}", "--keep", "2", "--json")
        assert done.code == 0, done.err
    listed = sorted(name for name in os.listdir(user / "kept") if name.endswith(".age"))
    assert listed == ["n1.zip.age", "n2.zip.age"]
    assert json.loads(done.out)["rotated"] == [f"{user}/kept/n0.zip.age"]
    # A new key, an open archive, and a sealed file that safekept did not make here push nothing out.
    (user / "kept" / "stranger.zip.age").write_bytes(sealed_bytes(b"x", [ME.recipient]))
    say("backup", "--seal", str(OTHER.recipient), "-o", "kept/m0", "--keep", "1")
    say("backup", "-o", "kept/open", "--keep", "1")
    listed = sorted(name for name in os.listdir(user / "kept") if ".zip" in name)
    assert listed == ["m0.zip.age", "n1.zip.age", "n2.zip.age", "open.zip", "stranger.zip.age"]
    done = say("backup", "--seal", PUBLIC, "-o", "kept/n3", "--keep", "2", "--dry-run", "--json")
    assert json.loads(done.out)["would_remove"] == [f"{user}/kept/n1.zip.age"]


def test_a_sealed_file_is_only_written_over_where_safekept_made_it(say, user):
    archive = sealed(say)
    first = content(archive)
    assert sealed(say) == archive
    assert content(archive) != first
    with open(archive, "wb") as file:
        file.write(sealed_bytes(b"somebody else's", [ME.recipient]))
    done = say("backup", "--seal", PUBLIC, "-o", "a")
    assert done.code == 1
    assert done.err.startswith(f"`{archive}` exists and is not an archive that")


def test_sealed_archives_inside_a_home_are_left_out_like_others(say, user):
    sealed(say)
    os.rename(user / "a.zip.age", user / ".hermes" / "older.zip.age")
    (user / ".hermes" / "notes.zip.age").write_bytes(sealed_bytes(b"mine", [ME.recipient]))
    found = json.loads(say("backup", "-o", "b", "--json").out)
    reasons = {remark["path"]: remark["reason"] for remark in found["remarks"]}
    assert reasons["older.zip.age"] == "an older archive that safekept made"
    assert "notes.zip.age" not in reasons


@pytest.mark.parametrize(
    ("words", "code", "name", "text"),
    [
        (("--passphrase-file", "short"), 2, "passphrase-too-short", "A passphrase of 5 characters"),
        (("--passphrase-file", "empty"), 2, "bad-passphrase", "What is in `{user}/empty` is empty"),
        (
            ("--passphrase-file", "lines"),
            2,
            "bad-passphrase",
            "What is in `{user}/lines` is not one line",
        ),
        (("--passphrase-file", "nowhere"), 2, "usage", "The file nowhere cannot be read"),
        (("--passphrase-fd", "97"), 2, "usage", "Descriptor 97 cannot be read"),
        (
            ("--passphrase-command", "false"),
            12,
            "passphrase-command-failed",
            "The passphrase command `false` gave no passphrase: it ended",
        ),
        (
            ("--passphrase-command", "cat words", "--passphrase-file", "words"),
            2,
            "usage",
            "Give the passphrase in one way only.",
        ),
        ((), 2, "no-passphrase", "No passphrase was given, and there is no terminal to ask at"),
    ],
)
def test_a_passphrase_that_is_none_is_refused_before_anything_is_written(words, code, name, text, say, user):
    (user / "short").write_text("short\n")
    (user / "empty").write_text("\n")
    (user / "lines").write_text("one line\nand another\n")
    done = say("backup", "--seal", "passphrase", *words, "-o", "a")
    assert (done.code, error_code(done.err)) == (code, name)
    assert done.err.startswith(text.format(user=user)), done.err
    assert not os.path.exists(user / "a.zip.age")


# ── opening ────────────────────────────────────────────────────────────────────────────────────────


def test_a_sealed_archive_comes_back_whole_in_part_and_elsewhere(say, user):
    archive = sealed(say)
    home = str(user / ".hermes")
    memory = content(f"{home}/memories/MEMORY.md")
    os.unlink(f"{home}/memories/MEMORY.md")
    os.unlink(f"{home}/memories/USER.md")
    done = say("import", archive, "--identity", "key", "--only", "memories/MEMORY.md", "--yes")
    assert done.code == 0, done.err
    assert f"  Archive    {archive} (zip, sealed with age, made " in done.out
    assert content(f"{home}/memories/MEMORY.md") == memory
    assert not os.path.exists(f"{home}/memories/USER.md")
    done = say("import", archive, "--identity", "key", "--into", "there", "--json")
    assert json.loads(done.out)["sealed"] == "age"
    assert os.path.exists(user / "there" / "memories" / "MEMORY.md")


def test_what_is_refused_for_want_of_consent_can_be_run_as_printed(say, user):
    archive = sealed(say)
    (user / ".hermes" / "config.yaml").write_text("changed: true\n")
    done = say("import", archive, "--identity", "key")
    assert done.code == 1
    assert f"`safekept import {archive} --identity {user}/key --force`" in done.err


def test_a_drill_opens_sealed_archives_with_a_key_and_with_a_passphrase(say, user):
    archive = sealed(say)
    assert say("drill", archive, "--identity", "key").code == 0
    archive = sealed(say, "--passphrase-file", "words", to="passphrase")
    assert say("drill", archive, "--passphrase-file", "words").code == 0


def error_of(done):
    lines = done.err.splitlines()
    return done.code, error_code(done.err), lines[0], [line[13:] for line in lines[2:-1]]


def test_without_the_right_key_it_says_what_is_missing(say, user):
    archive = sealed(say)
    assert error_of(say("import", archive)) == (
        12,
        "identity-needed",
        f"`{archive}` is sealed to an age key, and no private key for it was found here",
        [
            "Nothing was changed",
            f"Name the file with the private half: `safekept import {archive} --identity KEY`",
            "Where the private half is kept elsewhere, open the archive there",
        ],
    )
    assert error_of(say("import", archive, "--identity", "other")) == (
        12,
        "identity-does-not-fit",
        f"`{archive}` is sealed to an age key, and none of the keys in `{user}/other` is one of them",
        [
            "Nothing was changed",
            f"Name another file: `safekept import {archive} --identity KEY`",
            "The public half of the right key is the one that `--seal` was given when it was made",
        ],
    )
    code, label, what, _ = error_of(say("import", archive, "--identity", "nowhere"))
    assert (code, label) == (12, "bad-identity")
    assert what == f"`{user}/nowhere` cannot open anything: no such file or directory"
    assert say("import", archive, "--identity", "other", "--identity", "key", "--dry-run").code == 0


def test_a_wrong_passphrase_is_said(say, user):
    archive = sealed(say, "--passphrase-file", "words", to="passphrase")
    (user / "wrong").write_text("another passphrase\n")
    assert error_of(say("import", archive, "--passphrase-file", "wrong")) == (
        12,
        "wrong-passphrase",
        f"The passphrase does not open `{archive}`",
        [
            "Nothing was changed",
            "Run the command again with the right one; mind the keyboard layout and capitals",
        ],
    )
    code, label, what, _ = error_of(say("import", archive))
    assert (code, label) == (12, "identity-needed")
    assert what == (
        f"`{archive}` is sealed with a passphrase, and none was given and there is no terminal to ask at"
    )


@pytest.mark.parametrize("damage", ["cut", "flipped", "cut to a chunk"])
@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_an_import_from_a_damaged_sealed_archive_changes_nothing(damage, form, say, user):
    archive = sealed(say, "--format", form)
    whole = content(archive)
    middle, chunk = len(whole) // 2, 64 * 1024 + 16
    payload = AgeFile(handle := open_handle(archive)).header.size + 16
    handle.close()
    changed = {
        "cut": whole[:-1],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "cut to a chunk": whole[: payload + chunk],
    }[damage]
    with open(archive, "wb") as file:
        file.write(changed)
    before = tree_facts(str(user), databases="bytes", skip=(".", ".local"))
    done = say("import", archive, "--identity", "key", "--yes")
    assert done.code == 1
    assert done.err.startswith(f"`{archive}` is damaged: its seal is broken")
    found = differences(before, tree_facts(str(user), databases="bytes", skip=(".", ".local")))
    assert [line for line in found if ".hermes" in line and ".safekept" not in line] == []


def test_an_identity_of_the_settings_is_tried_unasked(say, user, monkeypatch):
    archive = sealed(say)
    monkeypatch.setenv("SAFEKEPT_SEAL_IDENTITY", f"{user}/other:~/key")
    assert say("import", archive, "--dry-run").code == 0


def test_a_kind_of_key_that_is_not_known_names_the_tool_that_knows_it(say, user):
    from safekept.archive.sealing.age.format import Stanza, make_header

    file_key = b"sixteen byte key"
    made = make_header([Stanza("piv-p256", ("abc",), b"x" * 48)], file_key) + bytes(16) + bytes(32)
    (user / "b.zip.age").write_bytes(made)
    code, label, what, steps = error_of(say("import", "b.zip.age", "--identity", "key"))
    assert (code, label) == (12, "identity-does-not-fit")
    assert what == "`b.zip.age` is sealed to a kind of key that safekept does not know (piv-p256)"
    assert steps[1] == (
        "Open it with the tool that made it, for example `age --decrypt`, and import what comes out"
    )


# ── keys ───────────────────────────────────────────────────────────────────────────────────────────


def test_keygen_makes_a_pair_and_says_which_half_goes_where(say, user):
    done = say("backup", "keygen", "-o", "new.key")
    assert done.code == 0
    lines = (user / "new.key").read_text().splitlines()
    public = lines[1].removeprefix("# public key: ")
    assert lines[2].startswith("AGE-SECRET-KEY-1")
    assert done.out.splitlines() == [
        "A pair of keys was made",
        f"  Public     {public}",
        f"             for the machine that makes archives: `safekept backup --seal {public}`",
        f"  Private    {user}/new.key",
        "             keep it elsewhere, and twice: without it what was sealed to it cannot be opened",
        "             where it lies, archives can be read; a server that only backs up needs none of it",
    ]
    assert stat.S_IMODE(os.stat(user / "new.key").st_mode) == 0o600
    assert lines[2] not in done.out + done.err
    before = (user / "new.key").read_bytes()
    done = say("backup", "keygen", "-o", "new.key")
    assert done.code == 2
    assert error_of(done)[1:] == (
        "identity-exists",
        f"`{user}/new.key` exists, and may be the only key to archives that were sealed before",
        ["It was left as it is. No key was made", "Name another file: `safekept backup keygen -o FILE`"],
    )
    assert (user / "new.key").read_bytes() == before
    assert error_of(say("backup", "keygen", "-o", "no/such/place"))[1] == "identity-unwritable"
    archive = sealed(say, to=public)
    assert say("import", archive, "--identity", "new.key", "--dry-run").code == 0


def test_keygen_without_a_file_prints_the_private_half_and_keeps_it_nowhere(say, user):
    done = say("backup", "keygen")
    assert done.out.splitlines()[2].startswith("AGE-SECRET-KEY-1")
    assert "AGE-SECRET-KEY-1" not in done.err
    secret = done.out.splitlines()[2].encode()
    for directory, _, names in os.walk(user):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                assert secret not in content(path)


def test_a_protected_pair_opens_with_its_passphrase(say, user):
    done = say("backup", "keygen", "-o", "safe.age", "--protect", "--passphrase-file", "words", "--json")
    public = json.loads(done.out)["public_key"]
    assert json.loads(done.out)["protected"] is True
    assert (user / "safe.age").read_bytes().startswith(b"age-encryption.org/v1\n-> scrypt ")
    archive = sealed(say, to=public)
    words = ("import", archive, "--identity", "safe.age", "--dry-run")
    assert say(*words, "--passphrase-file", "words").code == 0
    assert error_of(say(*words))[1] == "bad-identity"
    assert say("backup", "keygen", "--protect").code == 2


# ── at a terminal ──────────────────────────────────────────────────────────────────────────────────


def test_a_person_is_asked_twice_for_a_new_passphrase_and_once_to_open(user):
    environment = {**PLAIN, "HOME": str(user), "NO_COLOR": "1", "TERM": "dumb"}
    words = [*SAFEKEPT, "backup", "--seal", "passphrase", "-o", "a"]
    differing = [("Passphrase for the archive: ", PASSPHRASE), ("The same again: ", PASSPHRASE + "x")]
    code, said = at_terminal(words, differing * 3, environment, str(user))
    assert code == 2 and said.count("These two are not the same") == 3
    assert error_code(said) == "passphrase-mismatch"
    assert "What was typed the second time is not what was typed the first time\n" in said
    assert "  Kept       Nothing changed\n" in said
    assert "  Next       Run the command again, and type the same passphrase twice\n" in said
    assert PASSPHRASE not in said
    assert not os.path.exists(user / "a.zip.age")
    short = [("Passphrase for the archive: ", "short"), ("The same again: ", "short")]
    asked = [
        ("Too short: at least 8 characters. Passphrase for the archive: ", PASSPHRASE),
        ("The same again: ", PASSPHRASE),
    ]
    code, said = at_terminal(words, [*short, *asked], environment, str(user))
    assert code == 0, said
    words = [*SAFEKEPT, "import", "a.zip.age", "--dry-run"]
    asked = [
        ("Passphrase of `a.zip.age`: ", "a wrong one"),
        ("That does not open it; 2 more tries. Passphrase of `a.zip.age`: ", PASSPHRASE),
    ]
    code, said = at_terminal(words, asked, environment, str(user))
    assert code == 0, said
    assert PASSPHRASE not in said


def test_a_protected_identity_is_asked_for_by_name(user):
    environment = {**PLAIN, "HOME": str(user), "NO_COLOR": "1", "TERM": "dumb"}
    (user / "safe.age").write_bytes(sealed_bytes(ME.text.encode(), [Passphrase(PASSPHRASE, work=8)]))
    (user / "a.age").write_bytes(sealed_bytes(b"no archive", [ME.recipient]))
    words = [*SAFEKEPT, "import", "a.age", "--identity", "safe.age"]
    asked = [(f"Passphrase of the identity `{user}/safe.age`: ", PASSPHRASE)]
    code, said = at_terminal(words, asked, environment, str(user))
    assert code == 1
    assert error_code(said) == "archive-unknown"
