"""Care for what a vault cannot do without: its key; and what it can do without: a cache."""

from __future__ import annotations

import glob
import json
import os

import pytest

from safekept.cli.options import asking_for_vault_secret
from support.commands.error_texts import error_code
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.closed import lose


@pytest.fixture
def here(tmp_path):
    here = throwaway(tmp_path)
    make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    return here


def test_an_init_over_a_vault_whose_key_is_missing_writes_no_key(safekept, here):
    assert safekept("vault", "init").returncode == 0
    os.rename(here.places.vault_key_file, here.places.vault_key_file + ".away")
    done = safekept("vault", "init")
    assert done.returncode == 1
    assert error_code(done.stderr) == "vault-exists"
    assert os.listdir(os.path.dirname(here.places.vault_key_file)) == ["vault.key.away"]


def test_an_init_over_a_vault_that_lost_its_config_writes_no_key(safekept, here):
    assert safekept("snapshot").returncode == 0
    lose(os.path.join(here.places.vault, "config"))
    os.unlink(here.places.vault_key_file)
    done = safekept("vault", "init")
    assert done.returncode == 1
    assert error_code(done.stderr) == "vault-half-made"
    assert os.listdir(os.path.dirname(here.places.vault_key_file)) == []


def test_a_snapshot_does_without_a_cache_that_cannot_be_made(safekept, here, tmp_path):
    file = tmp_path / "file"
    file.write_text("not a directory")
    for place, reason in (("/proc/nothing", "No such file or directory"), (str(file), "Not a directory")):
        for _ in range(2):
            done = safekept("snapshot", env={"XDG_CACHE_HOME": place})
            assert done.returncode == 0, done.stderr
            assert f"Note: the cache `{place}/safekept/" in done.stderr
            assert f"cannot be used: {reason}; all files are read\n" in done.stderr
        for words in (("snapshot", "list"), ("snapshot", "show", "1"), ("vault", "check")):
            assert safekept(*words, env={"XDG_CACHE_HOME": place}).returncode == 0, words
    assert file.read_text() == "not a directory"
    assert not os.listdir(os.path.join(here.places.data_directory, "scratch"))


def test_a_key_file_that_everybody_can_read_is_closed_and_that_is_said(safekept, here):
    assert safekept("snapshot").returncode == 0
    for words in (("snapshot",), ("vault", "stats"), ("snapshot", "list"), ("status",), ()):
        os.chmod(here.places.vault_key_file, 0o644)
        done = safekept(*words)
        assert done.returncode == 0
        assert done.stderr == (
            f"Note: the key file `{here.places.vault_key_file}` could be read by everybody (mode 0644); "
            "now only by you (0600)\n"
        )
        assert os.stat(here.places.vault_key_file).st_mode & 0o777 == 0o600
    assert safekept("vault", "stats").stderr == ""


def test_a_key_file_of_a_group_is_left_as_its_owner_wants_it(safekept, here):
    assert safekept("snapshot").returncode == 0
    os.chmod(here.places.vault_key_file, 0o640)
    assert safekept("snapshot").stderr == ""
    assert os.stat(here.places.vault_key_file).st_mode & 0o777 == 0o640


def test_a_key_inside_the_home_it_protects_is_refused(safekept, here):
    home = os.path.join(here.places.user_home, ".hermes")
    key = os.path.join(home, "vault.key")
    for words in (("snapshot",), ("snapshot", "--dry-run"), ("vault", "init")):
        done = safekept(*words, env={"SAFEKEPT_VAULT_KEY_FILE": key})
        assert done.returncode == 2, words
        assert done.stderr == (
            f"The key file `{key}` lies inside the home `{home}` that it protects\n\n"
            "  Kept       Nothing was made or changed; whatever is stored can still be restored\n"
            "  Next       Move it out of every home, and say where it is: the setting `vault.key_file` or "
            "`SAFEKEPT_VAULT_KEY_FILE`\n"
            "  Error      vault-key-inside-home\n"
        )
    assert not os.path.exists(key)
    assert not os.path.exists(here.places.vault)


def test_what_a_key_in_the_home_opens_can_still_be_read(safekept, here):
    assert safekept("snapshot").returncode == 0
    key = os.path.join(here.places.user_home, ".hermes", "vault.key")
    os.rename(here.places.vault_key_file, key)
    done = safekept("snapshot", "list", env={"SAFEKEPT_VAULT_KEY_FILE": key})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("present", [False, True], ids=["missing", "wrong"])
def test_a_prompt_says_first_what_is_missing_and_what_else_helps(here, monkeypatch, capsys, present):
    monkeypatch.setattr("click.prompt", lambda text, **_: "a passphrase")
    key_file = os.path.join(here.places.user_home, "key")
    if present:
        with open(key_file, "w") as file:
            file.write("another key\n")
    assert asking_for_vault_secret("VAULT", key_file)().text == "a passphrase"
    why = (
        f"The key in `{key_file}` does not open the vault at `VAULT`"
        if present
        else f"The vault at `VAULT` is there, but its key file `{key_file}` is not"
    )
    # A key that is there is never to be written over: it may be the only one of another vault.
    put = f"  Or put the key from your kit into `{key_file}`, as one line, and run the command again\n"
    put = "" if present else put
    assert capsys.readouterr().err == (
        f"{why}\n"
        "  Type the key from your kit, or the recovery passphrase; Ctrl-C ends this; nothing was changed\n"
        f"{put}"
        "  Or let a command print it: set `SAFEKEPT_VAULT_PASSPHRASE_COMMAND`\n"
    )


def test_a_rebuild_that_asks_never_advises_to_write_over_the_key_of_this_machine(here, monkeypatch, capsys):
    monkeypatch.setattr("click.prompt", lambda text, **_: "a passphrase")
    key_file = os.path.join(here.places.user_home, "key")
    with open(key_file, "w") as file:
        file.write("the only key of the vault here\n")
    asking_for_vault_secret("VAULT", key_file, bare=True)()
    said = " ".join(capsys.readouterr().err.split())
    assert key_file not in said
    assert "type your recovery passphrase, or the key from your kit" in said and "`--key-file KIT`" in said


@pytest.mark.parametrize("label", ["two\nlines", "\x1b[2J", "tab\there", "x" * 201, "para\u2029graph"])
def test_a_label_that_no_list_could_show_is_refused(safekept, here, label):
    for words in ((), ("--dry-run",), ("--kind", "scheduled")):
        done = safekept("snapshot", "--label", label, *words)
        assert done.returncode == 2
        assert error_code(done.stderr) == "bad-label" and done.stderr.startswith("A label ")
        assert "  Kept       No snapshot was taken, and nothing was changed\n" in done.stderr
    assert not os.path.exists(here.places.vault)


def test_a_label_of_200_letters_and_signs_of_every_script_is_kept(safekept, here):
    label = "Δ👩‍👩‍👧 , % " + "x" * 190
    assert safekept("snapshot", "--label", label[:200]).returncode == 0
    done = safekept("snapshot", "list", "--json")
    assert json.loads(done.stdout)["snapshots"][0]["label"] == label[:200]


def test_an_archive_with_a_wild_name_is_imported_after_an_undo_point(safekept, here, tmp_path):
    archive = str(tmp_path / ("new\nline" + "x" * 230 + ".zip"))
    assert safekept("backup", "-o", archive).returncode == 0
    assert safekept("snapshot").returncode == 0
    home = os.path.join(here.places.user_home, ".hermes")
    with open(os.path.join(home, "SOUL.md"), "a") as file:
        file.write("changed")
    done = safekept("import", archive, "--yes")
    assert done.returncode == 0, done.stderr
    assert "no pre-import snapshot" not in done.stderr
    newest = json.loads(safekept("snapshot", "list", "--json").stdout)["snapshots"][0]
    assert newest["kind"] == "pre-import"
    assert newest["label"].startswith("before importing new line")
    assert len(newest["label"]) == 200


@pytest.mark.parametrize("which", [0, -1], ids=["directory", "data"])
def test_one_flipped_bit_is_one_finding_that_names_what_it_touches(safekept, here, which):
    assert safekept("snapshot").returncode == 0
    pack = sorted(glob.glob(os.path.join(here.places.vault, "data", "*", "*")), key=os.path.getsize)[which]
    os.chmod(pack, 0o600)
    with open(pack, "r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    done = safekept("vault", "check", "--read-data", "--json")
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["code"] == "blob-damaged"
    assert finding["touches"]
    done = safekept("vault", "check", "--read-data")
    assert "is damaged: 1 finding\n" in done.stdout
    assert "pieces cannot be read\n" in done.stdout
    assert "No file of a snapshot is touched" not in done.stdout
