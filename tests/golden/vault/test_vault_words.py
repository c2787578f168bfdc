"""What the commands of the vault say, word for word: every error, with what is kept and what is next."""

from __future__ import annotations

import json
import os
import re

import pytest

from safekept.actions.vault.opening import open_vault
from support.commands.error_texts import error_code
from support.home.homes import make_hermes_home


@pytest.fixture
def vault(here):
    with open_vault(here, create=True) as repository:
        return repository.id


def said(done, here) -> str:
    """What went to standard error, with this test's own places by their names."""
    text = done.stderr.replace(here.places.vault_key_file, "KEYFILE").replace(here.places.vault, "VAULT")
    return text.replace(here.places.user_home, "USER")


def test_no_vault_says_how_to_make_one(safekept, here):
    done = safekept("vault", "check")
    assert done.returncode == 10
    assert said(done, here) == (
        "There is no vault at `VAULT`\n\n"
        "  Kept       Nothing was made or changed there\n"
        "  Next       Make one: `safekept vault init`\n"
        "             If it lies on a drive or share, see that it is mounted\n"
        "  Error      no-such-vault\n"
    )
    assert not os.path.exists(here.places.vault)


def test_a_vault_that_is_gone_says_so(safekept, here, vault):
    os.rename(here.places.vault, here.places.vault + "-away")
    make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    done = safekept("snapshot")
    assert done.returncode == 10
    assert said(done, here) == (
        "The vault at `VAULT` was here before, and is gone\n\n"
        "  Kept       No new vault was made in its place\n"
        "  Next       If it lies on a drive or share, see that it is mounted, and run the command again\n"
        "             If it was moved, say where it is: the setting `vault.path` or `SAFEKEPT_VAULT_PATH`\n"
        "             If it is gone for good, make a new one: `safekept vault init`\n"
        "  Error      no-such-vault\n"
    )


def test_a_missing_key_names_its_file_the_kit_and_the_recovery_passphrase(safekept, here, vault):
    os.unlink(here.places.vault_key_file)
    done = safekept("vault", "stats")
    assert done.returncode == 12
    assert said(done, here) == (
        "The vault at `VAULT` is there, but its key file `KEYFILE` is not\n\n"
        "  Kept       Nothing was changed; the snapshots in the vault are whole\n"
        "  Next       Put the key from your kit into `KEYFILE`, as one line, and run the command again\n"
        "             Or use the recovery passphrase: run the command at a terminal and it will ask for it\n"
        "             Or let a command print it: set `SAFEKEPT_VAULT_PASSPHRASE_COMMAND`\n"
        "  Error      vault-key-missing\n"
    )


def test_a_wrong_key_file_names_itself(safekept, here, vault):
    os.unlink(here.places.vault_key_file)
    with open(here.places.vault_key_file, "w") as file:
        file.write("some other key\n")
    done = safekept("vault", "stats")
    assert done.returncode == 12
    assert said(done, here) == (
        "The key of the vault at `VAULT` does not open with this passphrase or key in `KEYFILE`\n\n"
        "  Kept       Nothing was written to the vault\n"
        "  Next       Put the key from your kit into a new file, as one line, and name it: "
        "`SAFEKEPT_VAULT_KEY_FILE`. Keep the file that is there: another vault may need it\n"
        "             Or use the recovery passphrase: run the command at a terminal and it will ask for it\n"
        "             Check that the vault is the one you mean: the setting `vault.path`\n"
        "  Error      wrong-key\n"
    )


def test_a_half_made_vault_says_that_nothing_is_lost(safekept, here, vault):
    os.unlink(os.path.join(here.places.vault, "config"))
    done = safekept("vault", "stats")
    assert done.returncode == 1
    assert said(done, here) == (
        "The vault at `VAULT` was not finished: it has key files but no `config`\n\n"
        "  Kept       It holds no snapshots yet, so nothing is lost\n"
        "  Next       Finish it: `safekept vault init`\n"
        "  Error      vault-half-made\n"
    )
    assert safekept("vault", "init").returncode == 0
    assert safekept("vault", "check").returncode == 0


def test_a_second_init_touches_nothing(safekept, here, vault):
    done = safekept("vault", "init")
    assert done.returncode == 1
    assert said(done, here) == (
        "There is a vault at `VAULT` already\n\n"
        "  Kept       It was not touched\n"
        "  Next       Use it as it is: `safekept snapshot list`\n"
        "             Or choose another place for a new one\n"
        "  Error      vault-exists\n"
    )


def test_a_vault_inside_the_home_is_refused(safekept, here, tmp_path):
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    inside = os.path.join(home, "vault")
    done = safekept("snapshot", env={"SAFEKEPT_VAULT_PATH": inside})
    assert done.returncode == 2
    assert said(done, here) == (
        "The vault at `USER/.hermes/vault` would lie inside the home `USER/.hermes` that it protects\n\n"
        "  Kept       Nothing was made or changed there\n"
        "  Next       Choose a place outside every home: the setting `vault.path` or `SAFEKEPT_VAULT_PATH`\n"
        "  Error      vault-inside-home\n"
    )
    assert not os.path.exists(inside)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("false", "it ended with status 1"),
        ("/no/such/program", "No such file or directory"),
        ("unbalanced 'quote", "No closing quotation"),
    ],
)
def test_a_passphrase_command_that_fails_says_how(safekept, here, vault, command, reason):
    os.unlink(here.places.vault_key_file)
    done = safekept("vault", "stats", env={"SAFEKEPT_VAULT_PASSPHRASE_COMMAND": command})
    assert done.returncode == 12
    assert said(done, here) == (
        f"The passphrase command `{command}` gave no passphrase: {reason}\n\n"
        "  Kept       Nothing was written to the vault\n"
        "  Next       Run that command by itself, and correct the setting `vault.passphrase_command`\n"
        "  Error      passphrase-command-failed\n"
    )


def test_a_passphrase_command_that_prints_two_lines_is_refused(safekept, here, vault):
    os.unlink(here.places.vault_key_file)
    done = safekept("vault", "stats", env={"SAFEKEPT_VAULT_PASSPHRASE_COMMAND": "printf 'one\\ntwo'"})
    assert done.returncode == 12
    assert said(done, here) == (
        "What the command printed has more than one line; a key or passphrase is one line\n\n"
        "  Kept       Nothing was written to the vault\n"
        "  Next       Give one line of text, and nothing else\n"
        "  Error      bad-vault-key\n"
    )


def test_no_passphrase_off_a_terminal_names_the_ways(safekept, here, vault):
    done = safekept("vault", "key", "add", "--recovery")
    assert done.returncode == 2
    assert said(done, here) == (
        "No passphrase was given, and there is no terminal to ask at\n\n"
        "  Kept       Nothing was written to the vault\n"
        "  Next       Run it at a terminal, or give the passphrase with `--passphrase-file PATH`, "
        "`--passphrase-fd N` or `--passphrase-command COMMAND`\n"
        "  Error      no-passphrase\n"
    )


def test_a_short_passphrase_is_refused(safekept, here, vault):
    done = safekept("vault", "key", "add", "--passphrase-command", "echo secret")
    assert done.returncode == 2
    assert said(done, here) == (
        "A passphrase of 6 characters is too short: at least 8\n\n"
        "  Kept       Nothing was written to the vault\n"
        "  Next       Choose a longer one; four or five words are good\n"
        "  Error      passphrase-too-short\n"
    )
    assert len(json.loads(safekept("vault", "key", "list", "--json").stdout)["keys"]) == 1


def test_removing_a_key_needs_its_id_another_key_and_consent(safekept, here, vault):
    current = json.loads(safekept("vault", "key", "list", "--json").stdout)["keys"][0]["id"]
    done = safekept("vault", "key", "remove", "ffff", "--yes")
    assert (done.returncode, said(done, here)) == (
        1,
        "No keys of this vault start with `ffff`\n\n"
        "  Kept       No key was removed\n"
        "  Next       See the keys: `safekept vault key list`\n"
        "  Error      no-such-vault-key\n",
    )
    done = safekept("vault", "key", "remove", current[:8], "--yes")
    assert (done.returncode, said(done, here)) == (
        1,
        f"The key {current[:8]} is the one that this vault was opened with\n\n"
        "  Kept       No key was removed\n"
        "  Next       Put a new one in its place: `safekept vault key renew`\n"
        "  Error      vault-key-in-use\n",
    )
    added = json.loads(
        safekept("vault", "key", "add", "--passphrase-command", "echo four words are enough", "--json").stdout
    )["key"]
    done = safekept("vault", "key", "remove", added[:8])
    assert done.returncode == 1
    assert error_code(done.stderr) == "consent-needed"
    assert f"Next       Agree to it: `safekept vault key remove {added[:8]} --yes`" in done.stderr
    assert safekept("vault", "key", "remove", added[:8], "--dry-run").returncode == 0
    assert safekept("vault", "key", "remove", added[:8], "--yes").returncode == 0
    assert len(json.loads(safekept("vault", "key", "list", "--json").stdout)["keys"]) == 1


def test_an_exported_key_is_private_and_replaces_nothing(safekept, here, vault, tmp_path):
    with open(here.places.vault_key_file) as file:
        key = file.read()
    done = safekept("vault", "key", "export")
    assert done.stdout == key
    assert "Anyone with this key can read everything in the vault" in done.stderr
    target = tmp_path / "key.txt"
    assert safekept("vault", "key", "export", "-o", str(target)).returncode == 0
    assert target.read_text() == key and target.stat().st_mode & 0o777 == 0o600
    done = safekept("vault", "key", "export", "-o", str(target))
    assert done.returncode == 1
    assert done.stderr == (
        f"`{target}` exists already\n\n"
        "  Kept       It was not touched\n"
        "  Next       Name another file: `safekept vault key export -o FILE`\n"
        "  Error      key-file-exists\n"
    )


def test_a_vault_with_a_passphrase_has_no_key_to_show(safekept, here):
    settings = {"SAFEKEPT_VAULT_PASSPHRASE_COMMAND": "echo four words are enough"}
    assert safekept("vault", "init", env=settings).returncode == 0
    assert not os.path.exists(here.places.vault_key_file)
    done = safekept("vault", "key", "export", env=settings)
    assert done.returncode == 1
    assert said(done, here) == (
        "The vault at `VAULT` was opened with a passphrase; there is no key file `KEYFILE`\n\n"
        "  Kept       Nothing was written\n"
        "  Next       The passphrase opens it everywhere, with restic too\n"
        "  Error      no-key-to-show\n"
    )


def test_a_kit_replaces_only_a_kit(safekept, here, vault, tmp_path):
    (tmp_path / "mine.txt").write_text("my own notes\n")
    done = safekept("vault", "kit", "-o", str(tmp_path / "mine"))
    assert done.returncode == 1
    assert done.stderr == (
        f"`{tmp_path}/mine.txt` exists and is not a kit\n\n"
        "  Kept       It was not touched; nothing was written\n"
        "  Next       Name another place: `safekept vault kit -o PATH`\n"
        "  Error      kit-place-taken\n"
    )
    assert (tmp_path / "mine.txt").read_text() == "my own notes\n" and not (tmp_path / "mine.html").exists()
    for _ in range(2):
        assert safekept("vault", "kit", "-o", str(tmp_path / "other")).returncode == 0


def test_a_kit_that_is_imported_says_what_it_is_for(safekept, here, vault, tmp_path):
    assert safekept("vault", "kit", "-o", str(tmp_path / "kit")).returncode == 0
    for name in ("kit.txt", "kit.html"):
        done = safekept("import", str(tmp_path / name))
        assert done.returncode == 1
        assert f"`{tmp_path / name}` is not an archive" in done.stderr
        assert "It is a kit. To have the home back from the copy that it names: " in done.stderr
        assert f"`safekept rebuild {tmp_path / name}`" in done.stderr


def test_damage_is_said_in_plain_words_with_what_to_do(safekept, here):
    make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    assert safekept("snapshot").returncode == 0
    packs = [
        os.path.join(directory, name)
        for directory, _, names in os.walk(os.path.join(here.places.vault, "data"))
        for name in names
    ]
    biggest = max(packs, key=os.path.getsize)
    os.chmod(biggest, 0o600)
    os.truncate(biggest, os.path.getsize(biggest) // 2)
    done = safekept("vault", "check")
    assert done.returncode == 1, done.stdout
    assert "is damaged: " in done.stdout
    assert re.search(r"Pack [0-9a-f]{8} has \d+ bytes where \d+ are needed", done.stdout)
    assert re.search(r"    Snapshot [0-9a-f]{8}: \S+", done.stdout)
    assert (
        "Next       If another copy of the vault exists, bring the damaged file back from there"
        in done.stdout
    )
    assert (
        "Keep what is sound: `safekept vault repair`, then store the rest again: `safekept snapshot`"
        in done.stdout
    )


def test_passphrases_never_appear_in_a_usage_error_or_the_journal(safekept, here, vault):
    safekept("vault", "key", "add", "--passphrase-command", "echo four words are enough")
    with open(os.path.join(here.places.data_directory, "journal.jsonl")) as file:
        journal = file.read()
    assert "four words" not in journal
    with open(here.places.vault_key_file) as file:
        assert file.read().strip() not in journal


@pytest.mark.parametrize("words", [("vault", "check", "--read-data=0%"), ("vault", "check", "--read-data=x")])
def test_a_share_that_is_none_is_bad_usage(safekept, here, words):
    done = safekept(*words)
    assert done.returncode == 2
    assert "is not a share such as 5% or 100%" in done.stderr


def flip_largest_pack(here) -> None:
    packs = [
        os.path.join(directory, name)
        for directory, _, names in os.walk(os.path.join(here.places.vault, "data"))
        for name in names
    ]
    pack = max(packs, key=os.path.getsize)
    os.chmod(pack, 0o600)
    with open(pack, "r+b") as file:
        file.seek(os.path.getsize(pack) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def test_a_repair_and_a_new_snapshot_make_a_damaged_vault_whole_again(safekept, here):
    make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    assert safekept("snapshot").returncode == 0
    flip_largest_pack(here)
    refused = safekept("vault", "repair")
    assert refused.returncode == 1
    assert "  Kept       Nothing was changed\n" in refused.stderr
    assert "Agree to it: `safekept vault repair --yes`" in refused.stderr
    plan = json.loads(safekept("vault", "repair", "--dry-run", "--json").stdout)
    assert len(plan["plan"]["packs_damaged"]) == 1
    mended = json.loads(safekept("vault", "repair", "--yes", "--json").stdout)["result"]
    assert mended["repaired"]["lost"] >= 1
    assert mended["repaired"]["saved"] > mended["repaired"]["lost"]
    assert safekept("vault", "check").returncode == 1, "the piece is gone until a snapshot brings it back"
    assert safekept("snapshot").returncode == 0
    done = safekept("vault", "check", "--read-data")
    assert done.returncode == 0, done.stdout
    assert (
        safekept("snapshot", "restore", "2", "--into", here.places.user_home + "/back", "--yes").returncode
        == 0
    )


def test_a_sound_vault_needs_no_repair(safekept, here, vault):
    done = safekept("vault", "repair")
    assert done.returncode == 0
    assert "is whole: nothing to mend" in done.stdout
