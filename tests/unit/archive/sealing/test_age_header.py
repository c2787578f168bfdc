"""The header of age files: one way to write it, and everything else refused."""

import base64

import pytest

from safekept.archive.sealing.age.format import NotAHeader, Stanza, make_header, parse_header
from safekept.archive.sealing.age.keys import (
    AgeIdentity,
    Passphrase,
    parse_identity,
    parse_recipient,
    share_of,
    to_bech32,
)

KEY = b"sixteen byte key"


def header(*stanzas):
    return make_header(list(stanzas) or [Stanza("X25519", ("abc",), b"b" * 32)], KEY)


@pytest.mark.parametrize("size", [0, 1, 32, 47, 48, 49, 96, 500])
def test_a_header_comes_back_as_it_was_made(size):
    stanzas = [Stanza("X25519", ("abc", "d"), bytes(size)), Stanza("other-kind", (), b"x" * size)]
    made = header(*stanzas)
    found = parse_header(made + b"payload \n--- not part of it")
    assert found.stanzas == tuple(stanzas)
    assert found.size == len(made)
    assert found.made_with(KEY)


def test_a_header_of_another_key_or_with_one_bit_changed_is_not_made_with_ours():
    made = header()
    assert not parse_header(made).made_with(b"another key 1234")
    changed = made.replace(b"-> X25519 abc", b"-> X25519 abd")
    assert not parse_header(changed).made_with(KEY)


def broken(text):
    with pytest.raises(NotAHeader) as caught:
        parse_header(text)
    return str(caught.value)


BODY = base64.b64encode(b"b" * 32).rstrip(b"=")


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [
        ("an unknown version", b"/v1\n", b"/v2\n"),
        ("carriage returns", b"/v1\n", b"/v1\r\n"),
        ("no arrow", b"-> X", b"=> X"),
        ("no kind", b"-> X25519 abc\n", b"-> \n"),
        ("two blanks", b"-> X25519 abc", b"-> X25519  abc"),
        ("a blank at the end", b"abc\n", b"abc \n"),
        ("a control character", b"abc", b"a\x07c"),
        ("a letter that is not ASCII", b"abc", b"a\xc3\xa4c"),
        ("padding in the body", BODY + b"\n", BODY + b"=\n"),
        ("bits left over in the body", BODY + b"\n", BODY[:-1] + b"J\n"),
        ("a long line", BODY + b"\n", b"A" * 68 + b"\n\n"),
        ("a body that ends in a full line", BODY + b"\n", b"A" * 64 + b"\n"),
        ("no last line", BODY + b"\n", b""),
        ("no blank before the MAC", b"--- ", b"---"),
        ("two blanks before the MAC", b"--- ", b"---  "),
    ],
)
def test_a_header_written_in_any_other_way_is_refused(what, old, new):
    made = header()
    assert old in made
    broken(made.replace(old, new, 1))


def test_a_header_without_stanzas_or_cut_anywhere_is_refused():
    made = header()
    for end in range(len(made)):
        broken(made[:end])
    broken(make_header([], KEY))
    broken(made[:-10] + b"\n")
    broken(made[:-1] + b" \n")


def test_bech32_finds_every_single_wrong_letter():
    identity = AgeIdentity.generate()
    for text, parse in ((str(identity.recipient), parse_recipient), (identity.text, parse_identity)):
        start = text.rfind("1") + 1
        for place in range(start, len(text)):
            other = "q" if text[place].lower() != "q" else "p"
            other = other.upper() if text.isupper() else other
            with pytest.raises(ValueError, match="checksum"):
                parse(text[:place] + other + text[place + 1 :])
        with pytest.raises(ValueError, match="checksum"):
            parse(text[:-1])


def test_keys_are_read_as_others_write_them_and_no_other_kind_passes_for_one():
    identity = AgeIdentity.generate()
    assert parse_identity(identity.text.lower()) == identity
    assert parse_recipient(str(identity.recipient).upper()) == identity.recipient
    with pytest.raises(ValueError, match="capitals"):
        parse_recipient("age1" + str(identity.recipient)[4:].upper())
    with pytest.raises(ValueError, match="does not know"):
        parse_recipient(to_bech32("age1yubikey", bytes(33)))
    with pytest.raises(ValueError, match="does not know"):
        parse_recipient(to_bech32("age", bytes(31)))
    with pytest.raises(ValueError, match="does not know"):
        parse_identity(to_bech32("age", bytes(32)))
    assert "AGE-SECRET" not in repr(identity)


def test_a_wrapped_key_opens_for_its_owner_only():
    mine, other = AgeIdentity.generate(), AgeIdentity.generate()
    stanza = mine.recipient.wrap(KEY)
    assert mine.unwrap(stanza) == KEY
    assert other.unwrap(stanza) is None
    assert mine.unwrap(Stanza("X-other", stanza.arguments, stanza.body)) is None


def test_stanzas_that_an_attacker_would_make_are_refused():
    mine = AgeIdentity.generate()
    stanza = mine.recipient.wrap(KEY)
    for arguments, body in (
        ((), stanza.body),
        ((*stanza.arguments, "more"), stanza.body),
        (("AAAA",), stanza.body),
        (stanza.arguments, stanza.body + b"x"),  # a longer file key could be two at once
        (stanza.arguments, stanza.body[:-1]),
        (("A" * 43,), stanza.body),  # the share that makes every shared secret zero
    ):
        with pytest.raises(NotAHeader):
            mine.unwrap(Stanza("X25519", arguments, body))
    with pytest.raises(NotAHeader):
        share_of("not base 64!")


def test_a_passphrase_opens_what_it_wrapped_and_its_cost_is_bounded():
    secret = Passphrase("correct horse", work=4)
    stanza = secret.wrap(KEY)
    assert secret.unwrap(stanza) == KEY
    assert Passphrase("wrong horse").unwrap(stanza) is None
    salt = stanza.arguments[0]
    for work in ("21", "22", "23", "99", "0", "04", "+4", "-4", "4x", "", "0x4", "100"):
        with pytest.raises(NotAHeader):
            secret.unwrap(Stanza("scrypt", (salt, work), stanza.body))
    with pytest.raises(NotAHeader, match="more than 1 GB of memory, which no honest one asks for"):
        secret.unwrap(Stanza("scrypt", (salt, "21"), stanza.body))
    for arguments in ((salt,), (salt, "4", "x"), ("AAAA", "4"), (salt[:-1] + "!", "4")):
        with pytest.raises(NotAHeader):
            secret.unwrap(Stanza("scrypt", arguments, stanza.body))
