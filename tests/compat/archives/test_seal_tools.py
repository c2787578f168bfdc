"""Sealed archives and the real `age`, `gpg`, `ssh-keygen` and rage: each opens what the other sealed."""

import os
import random
import re
import subprocess

import pytest

from conftest import program
from safekept.archive import Identity, open_archive
from safekept.archive.errors import ArchiveDamaged
from safekept.archive.sealing.errors import (
    GpgFailed,
    GpgKeyAmbiguous,
    GpgKeyCannotEncrypt,
    GpgKeyUnknown,
    GpgMissing,
    IdentityDoesNotFit,
)
from safekept.archive.sealing.gpg.message import read_opening
from support.archives.seals import PASSPHRASE, PLAIN, at_terminal, given, keyring, opener, seal_to
from support.archives.sources import FORMS, facts, read, sample_home, write

pytestmark = pytest.mark.real
AGE_PROMPT = "Enter passphrase"


@pytest.fixture(scope="module")
def home():
    return sample_home()


@pytest.fixture(scope="module")
def wanted(home):
    return facts(home)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A directory with an age identity (`age`), SSH keys (`ssh-ed25519`, `ssh-rsa`) and recipients."""
    program("age")
    place = tmp_path_factory.mktemp("keys")
    subprocess.run(["age-keygen", "-o", place / "age"], check=True, capture_output=True)
    lines = (place / "age").read_text().splitlines()
    (place / "age.pub").write_text(next(line.split()[-1] for line in lines if "public key" in line) + "\n")
    for kind, more in (("ed25519", ()), ("rsa", ("-b", "2048"))):
        words = ["ssh-keygen", "-q", "-t", kind, *more, "-N", "", "-f", place / f"ssh-{kind}"]
        subprocess.run(words, check=True)
    return place


@pytest.fixture(scope="module")
def gpg():
    """The keyring of whoever restores: its keys can decrypt."""
    program("gpg")
    with keyring() as made:
        made.make("keeper")
        made.make("second")
        yield made


@pytest.fixture(scope="module")
def server(gpg):
    """The keyring of the host: the public keys only, and nobody vouches for them."""
    with keyring() as made:
        made.run("--import", input=gpg.public("keeper") + gpg.public("second"))
        yield made


def same(path, wanted, identity=None):
    with open_archive(str(path), identity=identity or Identity()) as archive:
        found = facts(archive)
        archive.finish()
    assert found.keys() == wanted.keys()
    for name, fact in wanted.items():
        assert found[name][0] == fact[0] and found[name][3:] == fact[3:], name


def run(words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def sealed_by_gpg(ring, clear, path, *more, to="keeper"):
    ring.run("--trust-model=always", *more, "-r", to, "-o", str(path), "-e", str(clear))


# ── what safekept sealed, others open ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("to", "form"), [("age", "zip"), ("age", "tar.zst"), ("ssh-ed25519", "tar.zst"), ("ssh-rsa", "zip")]
)
def test_age_opens_what_safekept_sealed_to_a_key(to, form, keys, home, wanted, tmp_path):
    seal = seal_to(str(keys / f"{to}.pub"))
    written = write(home, tmp_path / f"a.{form}.age", form, seal=seal)
    assert written.stored_bytes == os.path.getsize(tmp_path / f"a.{form}.age")
    clear = run(["age", "--decrypt", "-i", keys / to, tmp_path / f"a.{form}.age"])
    (tmp_path / "clear").write_bytes(clear)
    same(tmp_path / "clear", wanted)
    same(tmp_path / f"a.{form}.age", wanted, opener(keys / to))


def test_each_of_several_keys_opens_the_same_file(keys, home, wanted, tmp_path):
    listed = tmp_path / "recipients"
    listed.write_text("# both\n" + (keys / "age.pub").read_text() + (keys / "ssh-ed25519.pub").read_text())
    write(home, tmp_path / "a.age", "tar.zst", seal=seal_to(str(listed), str(keys / "ssh-rsa.pub")))
    for name in ("age", "ssh-ed25519", "ssh-rsa"):
        same(tmp_path / "a.age", wanted, opener(keys / name))
        run(["age", "--decrypt", "-o", os.devnull, "-i", keys / name, tmp_path / "a.age"])


def test_ssh_keys_in_their_usual_place_are_tried_unasked(keys, home, wanted, tmp_path):
    write(home, tmp_path / "a.age", "tar.zst", seal=seal_to(str(keys / "ssh-ed25519.pub")))
    ssh = tmp_path / ".ssh"
    ssh.mkdir()
    (ssh / "id_broken").write_text("not a key\n")
    (ssh / "id_rsa").write_bytes((keys / "ssh-rsa").read_bytes())
    same_key = ssh / "id_work"
    same_key.write_bytes((keys / "ssh-ed25519").read_bytes())
    same(tmp_path / "a.age", wanted, Identity(ssh_directory=str(ssh), environment=PLAIN))
    same_key.unlink()
    with pytest.raises(Exception) as caught:
        same(tmp_path / "a.age", wanted, Identity(ssh_directory=str(ssh), environment=PLAIN))
    assert caught.value.code == "identity-needed"


def test_age_opens_what_safekept_sealed_with_a_passphrase(keys, home, wanted, tmp_path):
    write(home, tmp_path / "a.zip.age", "zip", seal=seal_to("passphrase"))
    words = ["age", "--decrypt", "-o", "clear", "a.zip.age"]
    code, said = at_terminal(words, [(AGE_PROMPT, PASSPHRASE)], PLAIN, str(tmp_path))
    assert code == 0, said
    same(tmp_path / "clear", wanted)
    same(tmp_path / "a.zip.age", wanted, opener(passphrase=PASSPHRASE))


@pytest.mark.parametrize("form", FORMS)
def test_gpg_opens_what_safekept_sealed_to_a_public_key_that_nobody_vouches_for(
    form, gpg, server, home, wanted, tmp_path
):
    path = tmp_path / f"a.{form}.gpg"
    seal = seal_to("gpg:keeper@example.org", environment=server.environment)
    assert seal.to == (f"gpg:{gpg.fingerprint('keeper')}",)
    write(home, path, form, seal=seal)
    (tmp_path / "clear").write_bytes(gpg.run("--decrypt", str(path)))
    same(tmp_path / "clear", wanted)
    same(path, wanted, opener(environment=gpg.environment))
    # The extra way in that proved it is not in the file: it is for one key and for nothing else.
    packets = gpg.run("--list-packets", "--list-only", str(path)).decode()
    assert packets.count(":pubkey enc packet:") == 1
    assert ":symkey enc packet:" not in packets


def test_gpg_opens_what_safekept_sealed_to_two_keys_with_either(gpg, server, home, wanted, tmp_path):
    both = (f"gpg:{gpg.fingerprint('keeper')}", "gpg:second")
    write(home, tmp_path / "a.gpg", "tar.zst", seal=seal_to(*both, environment=server.environment))
    with keyring() as other:
        other.run("--import", input=gpg.run("--export-secret-keys", "second"))
        same(tmp_path / "a.gpg", wanted, opener(environment=other.environment))
        assert other.run("--decrypt", str(tmp_path / "a.gpg"))


def test_gpg_opens_what_safekept_sealed_with_a_passphrase_as_aes_256(gpg, home, wanted, tmp_path):
    path = tmp_path / "a.tar.zst.gpg"
    write(home, path, "tar.zst", seal=seal_to("gpg-symmetric", environment=gpg.environment))
    words = ("--pinentry-mode=loopback", "--passphrase-fd=0")
    (tmp_path / "clear").write_bytes(gpg.run(*words, "--decrypt", str(path), input=PASSPHRASE.encode()))
    same(tmp_path / "clear", wanted)
    same(path, wanted, opener(environment=gpg.environment, passphrase=PASSPHRASE))
    packets = gpg.run(*words, "--list-packets", str(path), input=PASSPHRASE.encode()).decode()
    assert re.search(r":symkey enc packet: version 4, cipher 9, .*s2k 3, hash 10", packets)


def test_a_passphrase_of_gpg_works_where_gpg_was_never_used_and_leaves_nothing_there(home, wanted, tmp_path):
    program("gpg")
    fresh = {**PLAIN, "HOME": str(tmp_path / "user")}
    (tmp_path / "user").mkdir()
    write(home, tmp_path / "a.gpg", "zip", seal=seal_to("gpg-symmetric", environment=fresh))
    same(tmp_path / "a.gpg", wanted, opener(environment=fresh, passphrase=PASSPHRASE))
    assert os.listdir(tmp_path / "user") == []


# ── what others sealed, safekept opens ─────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def clear(home, tmp_path_factory):
    """The same home as a zip, as our `tar.zst`, and as a tarball made by hand."""
    place = tmp_path_factory.mktemp("clear")
    for form in FORMS:
        write(home, place / form, form)
    tree = place / "tree"
    tree.mkdir()
    run(["tar", "--zstd", "-xpf", place / "tar.zst", "-C", tree])
    run(["tar", "-czf", place / "by-hand", "--exclude=./.safekept", "-C", tree, "."])
    return place


@pytest.mark.parametrize(
    ("to", "form"), [("age", "zip"), ("ssh-ed25519", "tar.zst"), ("ssh-rsa", "zip"), ("age", "by-hand")]
)
def test_safekept_opens_what_age_sealed_to_a_key(to, form, keys, clear, wanted, tmp_path):
    armor = ["--armor"] if form == "zip" else []
    run(["age", *armor, "-R", keys / f"{to}.pub", "-o", tmp_path / "a", clear / form])
    same(tmp_path / "a", wanted, opener(keys / to))


def test_safekept_opens_what_age_sealed_with_a_passphrase(clear, wanted, tmp_path):
    words = ["age", "--encrypt", "--passphrase", "-o", "a.age", str(clear / "zip")]
    answers = [(AGE_PROMPT, PASSPHRASE), ("Confirm passphrase", PASSPHRASE)]
    code, said = at_terminal(words, answers, PLAIN, str(tmp_path))
    assert code == 0, said
    same(tmp_path / "a.age", wanted, opener(passphrase=PASSPHRASE))


def test_an_identity_that_age_protected_opens(keys, clear, wanted, tmp_path):
    words = ["age", "--encrypt", "--passphrase", "--armor", "-o", "identity.age", str(keys / "age")]
    answers = [(AGE_PROMPT, PASSPHRASE), ("Confirm passphrase", PASSPHRASE)]
    code, said = at_terminal(words, answers, PLAIN, str(tmp_path))
    assert code == 0, said
    run(["age", "-R", keys / "age.pub", "-o", tmp_path / "a", clear / "tar.zst"])
    same(tmp_path / "a", wanted, opener(tmp_path / "identity.age", passphrase=PASSPHRASE))


@pytest.mark.parametrize(("how", "form"), [("packed", "zip"), ("armored", "tar.zst"), ("hidden", "by-hand")])
def test_safekept_opens_what_gpg_sealed_to_a_key(how, form, gpg, server, clear, wanted, tmp_path):
    more = {"packed": ("--compress-algo=zlib",), "armored": ("--armor",), "hidden": ("--throw-keyids",)}[how]
    sealed_by_gpg(server, clear / form, tmp_path / "a", *more)
    same(tmp_path / "a", wanted, opener(environment=gpg.environment))


def test_safekept_opens_what_gpg_sealed_with_a_passphrase(gpg, clear, wanted, tmp_path):
    words = ("--pinentry-mode=loopback", "--passphrase-fd=0", "-o", str(tmp_path / "a"), "--symmetric")
    gpg.run(*words, str(clear / "zip"), input=PASSPHRASE.encode())
    same(tmp_path / "a", wanted, opener(environment=gpg.environment, passphrase=PASSPHRASE))
    with pytest.raises(Exception) as caught:
        same(tmp_path / "a", wanted, opener(environment=gpg.environment, passphrase="wrong one"))
    typed = iter(["wrong one", PASSPHRASE])
    person = Identity(environment=gpg.environment, ask=lambda *_: next(typed), tries=3)
    same(tmp_path / "a", wanted, person)
    assert caught.value.code == "wrong-passphrase"
    assert caught.value.what == f"The passphrase does not open `{tmp_path / 'a'}`"


def test_a_gpg_key_with_a_passphrase_opens_unattended_with_the_one_that_is_given(clear, wanted, tmp_path):
    with keyring() as locked:
        words = ("--pinentry-mode=loopback", "--passphrase", PASSPHRASE, "--quick-generate-key")
        locked.run(*words, "locked <locked@example.org>", "future-default", "default", "never")
        sealed_by_gpg(locked, clear / "zip", tmp_path / "a", to="locked")
        subprocess.run(["gpgconf", "--kill", "all"], env=locked.environment, check=True)
        identity = Identity(environment=locked.environment, ask=given(), unattended=True)
        same(tmp_path / "a", wanted, identity)


def test_rage_opens_what_safekept_sealed_and_the_other_way(keys, home, clear, wanted, tmp_path):
    """The second implementation of the format (Rust), as a library."""
    import pyrage

    write(home, tmp_path / "a.age", "tar.zst", seal=seal_to(str(keys / "age.pub"), str(keys / "ssh-rsa.pub")))
    sealed = (tmp_path / "a.age").read_bytes()
    secret = next(line for line in (keys / "age").read_text().splitlines() if line.startswith("AGE-"))
    identity = pyrage.x25519.Identity.from_str(secret)
    for one in (identity, pyrage.ssh.Identity.from_buffer((keys / "ssh-rsa").read_bytes())):
        (tmp_path / "clear").write_bytes(pyrage.decrypt(sealed, [one]))
        same(tmp_path / "clear", wanted)
    data = (clear / "zip").read_bytes()
    (tmp_path / "b.age").write_bytes(pyrage.encrypt(data, [identity.to_public()]))
    same(tmp_path / "b.age", wanted, opener(keys / "age"))


# ── damage ─────────────────────────────────────────────────────────────────────────────────────────


class Recorder:
    """Reads an archive to its end and keeps everything that it gave."""

    def __init__(self, path, identity):
        self.found = {}
        with open_archive(str(path), identity=identity) as archive:
            for entry in archive:
                if entry.kind.value == "file":
                    with entry.open() as content:
                        self.found[entry.path] = b"".join(content.chunks())


def damage_storm(clear, gpg, server, tmp_path, count):
    """Cut and flip a gpg message at many places: every one is refused before a single byte is given."""
    path = tmp_path / "a.gpg"
    sealed_by_gpg(server, clear / "tar.zst", path, "-z0")
    whole = path.read_bytes()
    numbers = random.Random(6)
    for number in range(count):
        place = numbers.randrange(120, len(whole))
        if number % 2:
            path.write_bytes(whole[:place])
        else:
            flipped = whole[place] ^ 1 << numbers.randrange(8)
            path.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        with pytest.raises(
            ArchiveDamaged, match="its seal is broken: a part of it was altered, or is missing"
        ):
            Recorder(path, opener(environment=gpg.environment))
    path.write_bytes(whole)
    assert len(Recorder(path, opener(environment=gpg.environment)).found) > 5


def test_a_damaged_gpg_message_gives_nothing(clear, gpg, server, tmp_path):
    damage_storm(clear, gpg, server, tmp_path, 10)


@pytest.mark.soak("seal")
def test_a_damaged_gpg_message_gives_nothing_at_any_place(clear, gpg, server, tmp_path):
    damage_storm(clear, gpg, server, tmp_path, 600)


def test_a_gpg_message_whose_integrity_nobody_vouches_for_is_refused(gpg, clear, tmp_path):
    """An attacker's way around the checksum: the packet is called one of the old kind, which has none."""
    sealed_by_gpg(gpg, clear / "zip", tmp_path / "a", "-z0")
    whole = bytearray((tmp_path / "a").read_bytes())
    opening = read_opening(bytes(whole))
    assert whole[opening.size] == 0xD2
    whole[opening.size] = 0xC9  # tag 18 becomes tag 9
    (tmp_path / "a").write_bytes(bytes(whole))
    with pytest.raises((ArchiveDamaged, GpgFailed)):
        Recorder(tmp_path / "a", opener(environment=gpg.environment))


def test_a_gpg_key_that_is_not_here_is_named(gpg, server, home, tmp_path):
    path = tmp_path / "a.gpg"
    write(home, path, "zip", seal=seal_to("gpg:keeper", environment=server.environment))
    with pytest.raises(IdentityDoesNotFit) as caught:
        Recorder(path, opener(environment=server.environment))
    error = caught.value
    assert error.exit_code == 12
    (key,) = error.facts["keys"]
    assert error.what == f"`{path}` is sealed to the GPG key {key}, and gpg has no private key for it here"
    assert error.kept == "Nothing was changed"
    assert error.advice() == (
        "Open it on the machine that holds the private key, or import that here: `gpg --import FILE`",
        "See which private keys gpg has: `gpg --list-secret-keys`",
    )


# ── keys that cannot encrypt ───────────────────────────────────────────────────────────────────────

NEW_KEYS = (
    "Or make a new pair that can sign and encrypt: `gpg --quick-generate-key NAME default default never`",
    "Or use an age key, which always can: `safekept backup keygen`",
)
BRING = "Then bring the public key here again: `gpg --import FILE`"


@pytest.fixture(scope="module")
def odd_keys():
    with keyring() as made:
        made.make("signer", "ed25519", "sign")
        made.make("late", "future-default", "default", "--faked-system-time=20200101T000000")
        made.make("revoked")
        certificate = os.path.join(made.directory, "openpgp-revocs.d", made.fingerprint("revoked") + ".rev")
        with open(certificate) as file:
            made.run("--import", input=file.read().replace(":-----BEGIN", "-----BEGIN").encode())
        made.make("twin")
        made.run("--passphrase", "", "--quick-generate-key", "twin <twin@example.net>")
        then = ("--passphrase", "", "--faked-system-time=20200101T000000")
        made.run(*then, "--quick-generate-key", "half <half@example.org>", "ed25519", "sign", "never")
        made.run(*then, "--quick-add-key", made.fingerprint("half"), "cv25519", "encr", "1d")
        yield made


def refused(keys, name, kind):
    with pytest.raises(kind) as caught:
        seal_to(f"gpg:{name}", environment=keys.environment)
    assert caught.value.kept == "No archive was written, and no part of one was left behind"
    return caught.value


def test_a_key_that_can_only_sign_is_refused_with_the_kind_to_make(odd_keys):
    error, fingerprint = refused(odd_keys, "signer", GpgKeyCannotEncrypt), odd_keys.fingerprint("signer")
    assert error.what == f"Nothing can be sealed to the GPG key `signer` ({fingerprint}): it can only sign"
    assert error.advice() == (
        f"Where its private half is, add a part that can: `gpg --quick-add-key {fingerprint} cv25519 encr`",
        BRING,
        *NEW_KEYS,
    )


def test_the_advice_for_a_key_that_can_only_sign_works(odd_keys):
    with keyring() as copy:
        copy.run("--import", input=odd_keys.run("--export-secret-keys", "signer"))
        fingerprint = copy.fingerprint("signer")
        copy.run("--passphrase", "", "--quick-add-key", fingerprint, "cv25519", "encr")
        assert seal_to("gpg:signer", environment=copy.environment).to == (f"gpg:{fingerprint}",)


def test_an_expired_key_is_refused_with_its_day(odd_keys):
    error, fingerprint = refused(odd_keys, "late", GpgKeyCannotEncrypt), odd_keys.fingerprint("late")
    assert error.what == (
        f"Nothing can be sealed to the GPG key `late` ({fingerprint}): it expired on 2020-01-02"
    )
    assert error.advice() == (
        f"Where its private half is, let it live longer: `gpg --quick-set-expire {fingerprint} 2y`",
        BRING,
        *NEW_KEYS,
    )


def test_a_key_whose_part_for_encrypting_expired_is_refused(odd_keys):
    error, fingerprint = refused(odd_keys, "half", GpgKeyCannotEncrypt), odd_keys.fingerprint("half")
    assert error.facts["reason"] == "the part of it that can encrypt expired on 2020-01-02"
    assert error.advice()[0] == (
        f"Where its private half is, let it live longer: `gpg --quick-set-expire {fingerprint} 2y '*'`"
    )


def test_a_revoked_key_is_refused(odd_keys):
    error, fingerprint = refused(odd_keys, "revoked", GpgKeyCannotEncrypt), odd_keys.fingerprint("revoked")
    assert error.what == f"Nothing can be sealed to the GPG key `revoked` ({fingerprint}): it was revoked"
    assert error.advice() == ("Ask its owner for the key that took its place", *NEW_KEYS)


def test_an_unknown_and_an_ambiguous_key_are_refused(odd_keys):
    error = refused(odd_keys, "nobody@example.org", GpgKeyUnknown)
    assert error.what == "There is no public key `nobody@example.org` in the keyring of gpg"
    assert error.advice() == (
        "Import it from the machine that has it: `gpg --import FILE`",
        "See which keys there are: `gpg --list-keys`",
    )
    error = refused(odd_keys, "twin", GpgKeyAmbiguous)
    assert error.what.startswith("`twin` is the name of 2 keys: ")
    assert "(twin <twin@example.org>)" in error.what and "(twin <twin@example.net>)" in error.what
    assert error.advice() == ("Say which one is meant by its fingerprint: `gpg:FINGERPRINT`",)
    refused(odd_keys, "--version", GpgKeyUnknown)
    assert seal_to("gpg:twin@example.net", environment=odd_keys.environment).kind == "gpg"


def test_a_missing_gpg_is_said_before_anything_is_read(tmp_path, gpg, clear):
    nothing = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    for text in ("gpg:keeper", "gpg-symmetric"):
        with pytest.raises(GpgMissing) as caught:
            seal_to(text, environment=nothing)
        assert caught.value.what == "The program `gpg` is needed for this and is not on the PATH"
        assert caught.value.advice() == (
            "Install GnuPG (the package is called gnupg or gnupg2), then run the command again",
            "age seals need no program at all: `safekept backup keygen`",
        )
    sealed_by_gpg(gpg, clear / "zip", tmp_path / "a")
    with pytest.raises(GpgMissing) as caught:
        Recorder(tmp_path / "a", opener(environment=nothing))
    assert caught.value.kept == "Nothing was changed"


def test_what_is_read_of_our_own_is_not_mistaken_for_a_message(clear):
    assert read(clear / "zip").keys() == read(clear / "tar.zst").keys()
