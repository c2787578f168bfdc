"""Whom an archive can be sealed to, and which private keys open it: every form, and every mistake."""

import os
import shutil
import subprocess

import pytest

from safekept.archive import Identity
from safekept.archive.sealing.age.file import sealed_bytes
from safekept.archive.sealing.age.keys import AgeIdentity, Passphrase
from safekept.archive.sealing.age.ssh_keys import parse_public
from safekept.archive.sealing.errors import (
    BadIdentity,
    BadRecipient,
    RecipientsMixed,
    RecipientsUnreadable,
    WrongPassphrase,
)
from safekept.archive.sealing.identities import load_identities
from safekept.archive.sealing.seal import parse_recipients
from support.archives.seals import PASSPHRASE, PLAIN, opener

ME = AgeIdentity.generate()
PUBLIC = str(ME.recipient)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    """SSH keys of every kind, some with a passphrase."""
    place = tmp_path_factory.mktemp("ssh")
    for name, more in (
        ("ed25519", ("-t", "ed25519", "-N", "")),
        ("locked", ("-t", "ed25519", "-N", PASSPHRASE)),
        ("ecdsa", ("-t", "ecdsa", "-N", "")),
        ("rsa", ("-t", "rsa", "-b", "2048", "-N", "")),
        ("weak", ("-t", "rsa", "-b", "1024", "-N", "")),
    ):
        subprocess.run(["ssh-keygen", "-q", *more, "-f", place / name], check=True)
    for name, more in (
        ("locked-rsa", ("-N", PASSPHRASE)),
        ("old-rsa", ("-N", "", "-m", "PEM")),
        ("locked-old-rsa", ("-N", PASSPHRASE, "-m", "PEM")),
    ):
        for end in ("", ".pub"):  # making one takes a second, changing how it lies there does not
            shutil.copy(place / f"rsa{end}", place / f"{name}{end}")
        subprocess.run(["ssh-keygen", "-q", "-p", *more, "-f", place / name], check=True)
    assert (place / "old-rsa").read_text().startswith("-----BEGIN RSA PRIVATE KEY-----")
    return place


def parse(*texts):
    return parse_recipients(texts, "/nonexistent")


def test_every_way_to_name_a_recipient_is_understood(tmp_path, ssh):
    listed = tmp_path / "recipients.txt"
    line = (ssh / "ed25519.pub").read_text()
    listed.write_text(f"# the laptop\n{PUBLIC}\n\n  {line}\n")
    found = parse(PUBLIC, line, str(ssh / "rsa.pub"), str(listed))
    assert [str(key).split(" ")[0] for key in found.keys] == [PUBLIC, "ssh-ed25519", "ssh-rsa"]
    assert parse("gpg:ABCD", "gpg:EF").gpg == ["gpg:ABCD", "gpg:EF"]
    assert parse("passphrase").passphrase == "passphrase"
    assert parse("gpg-symmetric", "gpg-symmetric").passphrase == "gpg-symmetric"


def test_recipients_in_the_home_directory_are_found_by_a_tilde(tmp_path):
    (tmp_path / "keys").write_text(PUBLIC + "\n")
    assert len(parse_recipients(["~/keys"], str(tmp_path)).keys) == 1


@pytest.mark.parametrize(
    "texts",
    [
        (PUBLIC, "gpg:ABCD"),
        (PUBLIC, "passphrase"),
        ("passphrase", "gpg-symmetric"),
        ("gpg:ABCD", "gpg-symmetric"),
        ("gpg:ABCD", "passphrase"),
    ],
)
def test_two_kinds_of_seals_at_once_are_refused(texts):
    with pytest.raises(RecipientsMixed) as caught:
        parse(*texts)
    error = caught.value
    assert error.exit_code == 2
    assert error.what == (
        "An archive is sealed in one way: to age and SSH keys, to GPG keys, or with one passphrase"
    )
    assert error.kept == "No archive was written, and no part of one was left behind"
    assert error.advice() == (
        "Leave out all but one kind; several keys of one kind can all open it",
        "Or make two archives, one for each",
    )


def refused(*texts, kind=BadRecipient):
    with pytest.raises(kind) as caught:
        parse(*texts)
    return caught.value


def test_mistakes_are_told_apart_and_what_was_given_is_never_repeated(tmp_path, ssh):
    secret = "my secret passphrase"
    for text, why in (
        (secret, "it is neither a key nor a file"),
        ("", "it is neither a key nor a file"),
        (PUBLIC[:-1], "its checksum is wrong, so a letter is wrong or missing"),
        (ME.text, "it is the private half of a pair, which must not be here"),
        ((ssh / "weak.pub").read_text(), "an RSA key of less than 2048 bits is too weak"),
        (
            (ssh / "ecdsa.pub").read_text(),
            "SSH keys of the kind ecdsa-sha2-nistp256 can only sign; take ssh-ed25519 or ssh-rsa",
        ),
        ("ssh-ed25519 AAAA", "it is not a whole SSH public key"),
    ):
        error = refused(text)
        assert error.what == f"what is named to seal to is nothing that an archive can be sealed to: {why}"
        assert error.kept == "No archive was written, and no part of one was left behind"
        if text:
            assert text.strip() not in str(error.as_dict())
    assert refused(ME.text).advice() == (
        "Give the public half: the line that begins with `age1`, or the `.pub` file",
    )
    assert refused(secret).advice() == (
        "Give an age recipient (`age1…`), an SSH public key or its `.pub` file (ssh-ed25519, ssh-rsa), "
        "a file with one recipient per line, `gpg:KEY`, `passphrase` or `gpg-symmetric`",
    )
    assert refused(PUBLIC, secret).what.startswith("number 2 of what is named to seal to is nothing")


def test_files_that_are_no_list_of_keys_are_refused_by_name(tmp_path, ssh):
    error = refused(str(ssh / "ed25519"))
    assert error.what == (
        f"`{ssh / 'ed25519'}` is nothing that an archive can be sealed to: it is a private key, "
        "which is not needed here"
    )
    (tmp_path / "identity").write_text(ME.text)
    assert ME.text not in str(refused(str(tmp_path / "identity")).as_dict())
    (tmp_path / "text").write_text(PUBLIC + "\nsomething else\n")
    assert refused(str(tmp_path / "text")).what.startswith(f"line 2 of `{tmp_path / 'text'}` is nothing")
    (tmp_path / "empty").write_text("# nobody yet\n")
    error = refused(str(tmp_path / "empty"), kind=RecipientsUnreadable)
    assert error.what == f"The recipients in `{tmp_path / 'empty'}` cannot be read: there is no key in it"
    assert error.advice() == (
        "Name a file with one recipient per line: `age1…`, an SSH public key, or `gpg:KEY`",
    )
    error = refused(str(tmp_path), kind=RecipientsUnreadable)
    assert error.what == f"The recipients in `{tmp_path}` cannot be read: is a directory"
    (tmp_path / "large").write_bytes(b"#" * (2 << 20))
    refused(str(tmp_path / "large"), kind=RecipientsUnreadable)
    (tmp_path / "with passphrase").write_text("passphrase\n")
    refused(str(tmp_path / "with passphrase"))


@pytest.mark.parametrize("name", ["ed25519", "rsa", "locked", "locked-rsa", "old-rsa", "locked-old-rsa"])
def test_ssh_keys_open_what_was_sealed_to_them_protected_ones_too(name, ssh):
    stanza = parse_public((ssh / f"{name}.pub").read_text()).wrap(b"sixteen byte key")
    (key,) = load_identities(str(ssh / name), opener(passphrase=PASSPHRASE))
    assert key.unwrap(stanza) == b"sixteen byte key"
    other = parse_public(
        (ssh / "ed25519.pub").read_text() if "rsa" in name else (ssh / "rsa.pub").read_text()
    )
    assert key.unwrap(other.wrap(b"sixteen byte key")) is None


def test_nobody_is_asked_for_the_passphrase_of_a_key_that_does_not_fit(ssh):
    def ask(question, new):
        raise AssertionError(question)

    (key,) = load_identities(str(ssh / "locked"), Identity(ask=ask, environment=PLAIN))
    assert key.unwrap(parse_public((ssh / "ed25519.pub").read_text()).wrap(b"sixteen byte key")) is None


def typing(*answers):
    """Somebody who types these, one after the other, and what was asked."""
    asked, left = [], list(answers)

    def ask(question, new):
        asked.append(question)
        return left.pop(0)

    return asked, Identity(environment=PLAIN, ask=ask, tries=3)


@pytest.mark.parametrize("name", ["locked", "locked-rsa", "locked-old-rsa", "safe.age"])
def test_who_mistypes_a_passphrase_may_type_it_again(name, ssh):
    protected = sealed_bytes(ME.text.encode(), [Passphrase(PASSPHRASE, work=8)])
    (ssh / "safe.age").write_bytes(protected)
    to = ME.recipient if name == "safe.age" else parse_public((ssh / f"{name}.pub").read_text())
    stanza = to.wrap(b"sixteen byte key")
    asked, identity = typing("wrong one", "another one", PASSPHRASE)
    (key,) = load_identities(str(ssh / name), identity)
    assert key.unwrap(stanza) == b"sixteen byte key"
    assert [text.partition(" Passphrase")[0] for text in asked[1:]] == [
        "That does not open it; 2 more tries.",
        "That does not open it; 1 more try.",
    ]
    asked, identity = typing("one", "two", "three", PASSPHRASE)
    with pytest.raises(WrongPassphrase):
        (key,) = load_identities(str(ssh / name), identity)
        key.unwrap(stanza)
    assert len(asked) == 3


@pytest.mark.parametrize("name", ["locked", "locked-rsa", "locked-old-rsa"])
def test_a_wrong_passphrase_of_an_ssh_key_is_said(name, ssh):
    stanza = parse_public((ssh / f"{name}.pub").read_text()).wrap(b"sixteen byte key")
    with pytest.raises(Exception) as caught:
        (key,) = load_identities(str(ssh / name), opener(passphrase="wrong one"))
        key.unwrap(stanza)
    assert caught.value.code == "wrong-passphrase"
    assert caught.value.what == f"The passphrase does not open `{ssh / name}`"
    with pytest.raises(BadIdentity) as caught:
        (key,) = load_identities(str(ssh / name), opener())
        key.unwrap(stanza)
    assert caught.value.what == (
        f"`{ssh / name}` cannot open anything: it is protected by a passphrase, and none was given and "
        "there is no terminal to ask at"
    )
    assert caught.value.advice() == (
        "Run it at a terminal, or give the passphrase with `--passphrase-file PATH` or `--passphrase-fd N`",
    )


def test_unlocking_leaves_the_key_file_and_no_other_file(ssh):
    before = {name: (ssh / name).read_bytes() for name in os.listdir(ssh)}
    (key,) = load_identities(str(ssh / "locked"), opener(passphrase=PASSPHRASE))
    key.unwrap(parse_public((ssh / "locked.pub").read_text()).wrap(b"sixteen byte key"))
    assert {name: (ssh / name).read_bytes() for name in os.listdir(ssh)} == before


def test_a_protected_age_identity_opens_with_its_passphrase(tmp_path):
    path = tmp_path / "identity.age"
    path.write_bytes(sealed_bytes(f"# mine\n{ME.text}\n".encode(), [Passphrase(PASSPHRASE, work=10)]))
    assert list(load_identities(str(path), opener(passphrase=PASSPHRASE))) == [ME]
    with pytest.raises(Exception) as caught:
        list(load_identities(str(path), opener(passphrase="wrong one")))
    assert caught.value.code == "wrong-passphrase"
    with pytest.raises(BadIdentity, match="protected by a passphrase"):
        list(load_identities(str(path), opener()))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "there is no key in it"),
        (b"# nothing\n", "there is no key in it"),
        (b"something\n", "line 1 is not a key that safekept knows"),
        (b"\xff\xfe\x00", "it is not a key"),
        (PUBLIC.encode(), "it is the public half of a pair; the private half opens"),
        (b"ssh-ed25519 AAAA", "it is the public half of a pair; the private half opens"),
        (ME.text.encode()[:-1], "the key in line 1 is damaged: its checksum is wrong, so a letter is wrong"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", "it is not a whole SSH private key"),
        (b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n", "it is not a whole SSH private key"),
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n", "it is a key of GPG, which opens with gpg's own agent"),
        (b"#" * (2 << 20), "it is far too long for a key"),
    ],
    ids="empty remark word bytes public ssh-public cut ssh-cut rsa-cut gpg long".split(),  # keys are random
)
def test_files_that_are_no_identity_are_told_apart(content, why, tmp_path):
    path = tmp_path / "identity"
    path.write_bytes(content)
    with pytest.raises(BadIdentity) as caught:
        list(load_identities(str(path), opener()))
    error = caught.value
    assert error.exit_code == 12
    assert error.what.startswith(f"`{path}` cannot open anything: {why}")
    assert error.kept == "Nothing was changed"
    assert "AGE-SECRET" not in error.what


def test_a_key_that_can_only_sign_and_a_missing_file_are_said(tmp_path, ssh):
    with pytest.raises(BadIdentity, match="SSH keys of the kind ecdsa-sha2-nistp256 can only sign"):
        list(load_identities(str(ssh / "ecdsa"), opener()))
    with pytest.raises(BadIdentity, match="no such file or directory"):
        list(load_identities(str(tmp_path / "nowhere"), opener()))
