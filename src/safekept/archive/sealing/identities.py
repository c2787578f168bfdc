"""Finds the private key that opens an age file, among everything that may be tried."""

from __future__ import annotations

from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ..container.handle import Handle
from ..errors import NOTHING_CHANGED
from .age.file import BEGIN, AgeFile
from .age.format import FAMILY, Header, NotAHeader, Stanza
from .age.keys import AgeIdentity, Passphrase, parse_identity
from .age.ssh_keys import KINDS, SshIdentity, default_files
from .age.ssh_private import BEGIN_OPENSSH, BEGIN_RSA, load_private
from .errors import BadIdentity, IdentityDoesNotFit, IdentityNeeded, bad_identity, wrong_passphrase
from .identity import Identity

_LIMIT = 1 << 20
Key = AgeIdentity | SshIdentity


def open_age(handle: Handle, identity: Identity) -> Handle:
    """The clear text of a sealed file; takes the handle over."""
    sealed = AgeFile(handle)
    try:
        return sealed.open(_file_key(sealed.path, sealed.header, identity))
    except NotAHeader as error:
        raise sealed.broken_header(error) from None


def _file_key(path: str, header: Header, identity: Identity) -> bytes:
    kinds = [stanza.kind for stanza in header.stanzas]
    if "scrypt" in kinds:
        if len(kinds) > 1:
            raise NotAHeader("a passphrase in it is not alone")
        return _by_passphrase(path, header.stanzas[0], identity)
    tried = 0
    for key in _keys(identity, header):
        tried += 1
        for stanza in header.stanzas:
            file_key = key.unwrap(stanza)
            if file_key is not None:
                return file_key
    raise _nothing_fits(path, header, identity, tried)


def _by_passphrase(path: str, stanza: Stanza, identity: Identity) -> bytes:
    return identity.opened_file(path, lambda text: _unwrapped(path, stanza, text))


def _unwrapped(path: str, stanza: Stanza, text: str) -> bytes:
    file_key = Passphrase(text).unwrap(stanza)
    if file_key is None:
        raise wrong_passphrase(path)
    return file_key


def _keys(identity: Identity, header: Header) -> Iterator[Key]:
    """Every key that may be tried, the named ones first."""
    for path in identity.files:
        yield from load_identities(path, identity)
    if not identity.ssh_directory or not any(stanza.kind in KINDS for stanza in header.stanzas):
        return
    for path in default_files(identity.ssh_directory):
        try:
            yield from load_identities(path, identity)
        except BadIdentity:
            continue  # a key of another kind that happens to lie there and was not named


def load_identities(path: str, identity: Identity) -> Iterator[Key]:
    """The keys in one file; raises BadIdentity for what holds none."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LIMIT + 1)
    except OSError as error:
        raise bad_identity(path, (error.strerror or str(error)).lower()) from error
    if len(data) > _LIMIT:
        raise bad_identity(path, "it is far too long for a key")
    yield from _parsed(path, data, identity)


def _parsed(path: str, data: bytes, identity: Identity) -> Iterator[Key]:
    start = data.lstrip()
    if start.startswith((BEGIN_OPENSSH, BEGIN_RSA)):
        yield load_private(path, data, identity)
    elif start.startswith((FAMILY, BEGIN)):
        yield from _lines(path, _unprotected(path, identity))
    elif start.startswith(b"-----BEGIN PGP"):
        raise bad_identity(
            path,
            "it is a key of GPG, which opens with gpg's own agent",
            "Import it, and leave `--identity` out: `gpg --import FILE`",
        )
    else:
        yield from _lines(path, data)


def _unprotected(path: str, identity: Identity) -> bytes:
    """An identity file that is itself sealed with a passphrase, opened in memory."""
    from ..container.handle import open_handle

    handle = open_handle(path)
    try:
        sealed = AgeFile(handle)
        if [stanza.kind for stanza in sealed.header.stanzas] != ["scrypt"]:
            raise bad_identity(path, "it is a sealed file, not a key")
        if identity.ask is None:
            raise bad_identity(
                path,
                "it is protected by a passphrase, and none was given and there is no terminal to ask at",
                "Run it at a terminal, or give the passphrase with `--passphrase-file PATH` "
                "or `--passphrase-fd N`",
            )
        stanza = sealed.header.stanzas[0]
        question = f"Passphrase of the identity `{path}`"
        clear = sealed.open(identity.opened(question, lambda text: _unwrapped(path, stanza, text)))
        if clear.size > _LIMIT:
            raise bad_identity(path, "it is far too long for a key")
        return clear.read(0, clear.size)
    except NotAHeader as error:
        raise bad_identity(path, f"it is damaged: {error}") from None
    finally:
        handle.close()


def _lines(path: str, data: bytes) -> Iterator[Key]:
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise bad_identity(path, "it is not a key") from None
    found = False
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.lower().startswith(("age1", "ssh-")):
            raise bad_identity(path, "it is the public half of a pair; the private half opens")
        if not line.upper().startswith("AGE-SECRET-KEY-"):
            raise bad_identity(path, f"line {number} is not a key that safekept knows")
        try:
            yield parse_identity(line)
        except ValueError as error:
            raise bad_identity(path, f"the key in line {number} is damaged: {error}") from None
        found = True
    if not found:
        raise bad_identity(path, "there is no key in it")


def _nothing_fits(path: str, header: Header, identity: Identity, tried: int) -> SafekeptError:
    known = {"X25519": "an age key", "ssh-ed25519": "an SSH key", "ssh-rsa": "an SSH key"}
    kinds = [known[stanza.kind] for stanza in header.stanzas if stanza.kind in known]
    if not kinds:
        other = header.stanzas[0].kind
        return IdentityDoesNotFit(
            f"`{path}` is sealed to a kind of key that safekept does not know ({other})",
            kept=NOTHING_CHANGED,
            next_steps=(
                "Open it with the tool that made it, for example `age --decrypt`, and import what comes out",
            ),
            path=path,
        )
    sealed = kinds[0] if len(kinds) == 1 else f"{len(kinds)} keys"
    if not identity.files:
        return IdentityNeeded(
            f"`{path}` is sealed to {sealed}, and no private key for it was found here",
            kept=NOTHING_CHANGED,
            next_steps=(
                NextStep(
                    "import", ("FILE", "--identity", "KEY"), before="Name the file with the private half:"
                ),
                "Where the private half is kept elsewhere, open the archive there",
            ),
            path=path,
        )
    names = ", ".join(f"`{file}`" for file in identity.files)
    return IdentityDoesNotFit(
        f"`{path}` is sealed to {sealed}, and none of the keys in {names} is one of them",
        kept=NOTHING_CHANGED,
        next_steps=(
            NextStep("import", ("FILE", "--identity", "KEY"), before="Name another file:"),
            "The public half of the right key is the one that `--seal` was given when it was made",
        ),
        path=path,
        tried=tried,
    )
