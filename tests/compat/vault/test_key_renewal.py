"""A new key in the place of the one in use: restic reads the vault with it, and with the old one no more."""

from __future__ import annotations

import errno
import json
import os

import pytest

from safekept.actions.vault.opening import open_vault
from support.commands.error_texts import error_code
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.snapshots import take


@pytest.fixture
def taken(here):
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    return take(here, home).id


def key_text(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def keys(safekept):
    found = json.loads(safekept("vault", "key", "list", "--json").stdout)["keys"]
    return [(one["id"], one["kind"], one["current"]) for one in found]


def test_the_vault_opens_with_the_new_key_and_with_the_old_one_no_more(here, taken, safekept, restic):
    before = key_text(here.places.vault_key_file)
    [(old, _, _)] = keys(safekept)
    assert safekept("vault", "kit").returncode == 0
    done = safekept("vault", "key", "renew", "--yes")
    assert done.returncode == 0, done.stderr
    kept = f"{here.places.vault_key_file}.old-{old[:8]}"
    [(new, kind, current)] = keys(safekept)
    assert (kind, current) == ("generated key", True) and new != old
    assert f"  Key        {new[:8]}, in {here.places.vault_key_file}\n" in done.stdout
    assert f"  Removed    {old[:8]}: it opens the vault no more\n" in done.stdout
    assert "  Kit        written again, as it is now: " in done.stdout
    after = key_text(here.places.vault_key_file)
    assert key_text(kept) == before != after
    assert sorted(os.listdir(os.path.dirname(kept))) == ["vault.key", os.path.basename(kept)]
    assert {os.stat(path).st_mode & 0o777 for path in (kept, here.places.vault_key_file)} == {0o600}
    [listed] = json.loads(restic(here.places.vault, after)("snapshots", "--json"))
    assert listed["id"] == taken
    assert "no errors were found" in restic(here.places.vault, after)("check", "--read-data")
    refused = restic(here.places.vault, before).run("snapshots")
    assert refused.returncode != 0 and "wrong password or no key found" in refused.stderr


def test_one_that_was_cut_off_before_its_end_is_finished_by_the_same_command(here, taken, safekept):
    from safekept.actions.vault.keys import renewal

    [(old, _, _)] = keys(safekept)
    with pytest.MonkeyPatch.context() as patched, open_vault(here) as repository:
        patched.setattr(renewal, "remove_key", cut_off)
        with pytest.raises(KeyboardInterrupt):
            renewal.renew_key(here, repository)
    assert len(keys(safekept)) == 2
    done = safekept("vault", "key", "renew", "--yes")
    assert done.returncode == 0 and f"Removed    {old[:8]}:" in done.stdout, done.stderr
    [(new, _, current)] = keys(safekept)
    assert new != old and current


@pytest.mark.parametrize("call", ["link", "replace"])
def test_a_disk_that_takes_no_new_key_leaves_the_old_one_in_use(here, taken, safekept, call):
    before, text = keys(safekept), key_text(here.places.vault_key_file)

    def full(source, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(f"safekept.actions.vault.keys.{LEFT[call]}.os.{call}", full)
        done = safekept("vault", "key", "renew", "--yes")
    assert done.returncode == 1 and error_code(done.stderr) == "vault-key-unwritable"
    assert "Kept       The key file is as it was, and opens the vault" in done.stderr
    assert "No space left on device" in " ".join(done.stderr.split())
    assert key_text(here.places.vault_key_file) == text and before[0][0] in [
        one for one, _, _ in keys(safekept)
    ]
    assert safekept("vault", "key", "renew", "--yes").returncode == 0
    [(new, _, current)] = keys(safekept)
    assert current and new != before[0][0]


#: Where each of them is called.
LEFT = {"link": "key_file", "replace": "renewal"}


def cut_off(*_):
    raise KeyboardInterrupt


def test_a_vault_with_a_passphrase_has_no_key_to_renew(tmp_path, safekept):
    here = throwaway(tmp_path)
    words = tmp_path / "words"
    words.write_text("a passphrase of mine\n")
    assert safekept("vault", "init", "--passphrase-file", str(words)).returncode == 0
    command = f"cat {words}"
    done = safekept("vault", "key", "renew", "--yes", env={"SAFEKEPT_VAULT_PASSPHRASE_COMMAND": command})
    assert done.returncode == 1 and error_code(done.stderr) == "no-key-to-renew"
    assert f"The vault at `{here.places.vault}` opens with a passphrase" in " ".join(done.stderr.split())
    assert "Kept       No key was added or removed" in done.stderr


def test_without_consent_nothing_is_renewed(here, taken, safekept):
    before = keys(safekept)
    done = safekept("vault", "key", "renew")
    assert done.returncode != 0 and "Agree to it: `safekept vault key renew --yes`" in done.stderr
    assert keys(safekept) == before


def test_the_copy_takes_the_new_key_and_the_printed_push_takes_the_old_one_away(
    here, taken, safekept, tmp_path
):
    usb = tmp_path / "usb"
    usb.mkdir()
    added = safekept("destinations", "add", str(usb), "--same-disk")
    assert added.returncode == 0, added.stderr
    words = tmp_path / "words"
    words.write_text("a passphrase of mine\n")
    assert safekept("vault", "key", "add", "--recovery", "--passphrase-file", str(words)).returncode == 0
    assert safekept("push").returncode == 0
    [old] = [one for one, kind, _ in keys(safekept) if kind == "generated key"]
    done = safekept("vault", "key", "renew", "--yes")
    assert "`safekept push --prune`" in done.stdout, done.stdout + done.stderr
    assert safekept("push", "--prune", "--yes").returncode == 0
    [copy] = [os.path.join(place, "keys") for place, names, _ in os.walk(usb) if "keys" in names]
    assert old not in os.listdir(copy) and sorted(os.listdir(copy)) == sorted(
        one for one, _, _ in keys(safekept)
    )
