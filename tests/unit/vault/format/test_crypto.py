"""The envelope against published vectors, and against every way of tampering."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.poly1305 import Poly1305
from hypothesis import given
from hypothesis import strategies as st

from safekept.vault.format.crypto import OVERHEAD, Key, Unauthentic

# D. J. Bernstein, "The Poly1305-AES message-authentication code", appendix B: k, r, nonce, message, tag.
POLY1305_AES = [
    (
        "ec074c835580741701425b623235add6",
        "851fc40c3467ac0be05cc20404f3f700",
        "fb447350c4e868c52ac3275cf9d4327e",
        "f3f6",
        "f4c633c3044fc145f84f335cb81953de",
    ),
    (
        "75deaa25c09f208e1dc4ce6b5cad3fbf",
        "a0f3080000f46400d0c7e9076c834403",
        "61ee09218d29b0aaed7e154a2c5509cc",
        "",
        "dd3fab2251f11ac759f0887129cc2ee7",
    ),
    (
        "6acb5f61a7176dd320c5c1eb2edcdc74",
        "48443d0bb0d21109c89a100b5ce2c208",
        "ae212a55399729595dea458bc621ff0e",
        "663cea190ffb83d89593f3f476b6bc24d7e679107ea26adb8caf6652d0656136",
        "0ee1c16bb73f0f4fd19881753c01cdbe",
    ),
    (
        "e1a5668a4d5b66a5f68cc5424ed5982d",
        "12976a08c4426d0ce8a82407c4f48207",
        "9ae831e743978d3a23527c7128149e3a",
        "ab0812724a7f1e342742cbed374d94d136c6b8795d45b3819830f2c04491faf0"
        "990c62e48b8018b2c3e4a0fa3134cb67fa83e158c994d961c4cb21095c1bf9",
        "5154ad0d2cb26e01274fc51148491f1b",
    ),
]
KEY = Key(bytes(range(1, 33)), bytes(range(1, 17)), bytes(range(3, 19)))


@pytest.mark.parametrize("vector", POLY1305_AES)
def test_an_envelope_with_a_published_tag_opens(vector):
    k, r, nonce, message, tag = map(bytes.fromhex, vector)
    key = Key(bytes(range(32)), k, r)
    plain = Cipher(algorithms.AES(key.encrypt), modes.CTR(nonce)).decryptor().update(message)
    assert key.open(nonce + message + tag) == plain


def test_the_cipher_is_aes_256_in_counter_mode():
    # NIST SP 800-38A, F.5.5
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")
    body = bytes.fromhex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5")
    one_time = Cipher(algorithms.AES(KEY.mac_k), modes.ECB()).encryptor().update(counter)
    tag = Poly1305.generate_tag(KEY.mac_r + one_time, body)
    assert Key(key, KEY.mac_k, KEY.mac_r).open(counter + body + tag) == plain


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8))
def test_what_is_sealed_opens_again(plains):
    sealed = KEY.seal_many(plains)
    assert KEY.open_many(sealed) == plains
    assert [len(one) for one in sealed] == [len(plain) + OVERHEAD for plain in plains]
    assert len({one[:16] for one in sealed}) == len(sealed)


def test_every_flipped_bit_is_noticed():
    sealed = KEY.seal(b"a secret of some length")
    for bit in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Unauthentic):
            KEY.open(bytes(changed))


@pytest.mark.parametrize("length", range(OVERHEAD))
def test_what_is_too_short_is_refused(length):
    with pytest.raises(Unauthentic):
        KEY.open(bytes(length))


def test_an_iv_of_zeros_is_refused():
    one_time = Cipher(algorithms.AES(KEY.mac_k), modes.ECB()).encryptor().update(bytes(16))
    sealed = bytes(16) + b"body" + Poly1305.generate_tag(KEY.mac_r + one_time, b"body")
    with pytest.raises(Unauthentic, match="zero"):
        KEY.open(sealed)


def test_another_key_opens_nothing():
    with pytest.raises(Unauthentic):
        Key.generate().open(KEY.seal(b"x"))


def test_a_key_survives_its_json_and_is_never_printed():
    assert Key.from_json(KEY.to_json()) == KEY
    assert len(KEY.to_json()) == 128  # what restic writes
    assert KEY.encrypt.hex() not in repr(KEY)
    assert str(KEY) == "Key(…)"


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"mac":{"k":"","r":""},"encrypt":""}', b"null", b"\xff"]
)
def test_what_is_no_key_is_a_value_error(text):
    with pytest.raises(ValueError):
        Key.from_json(text)
