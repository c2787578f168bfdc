"""What archives are called: one list for everybody who meets one.

A new format begins here; its reader and its writer are in `archive`.
"""

from __future__ import annotations

#: The formats that we write; a file's name ends in its format.
FORMATS = ("zip", "tar.zst")
#: How a sealed file's name goes on, by the kind of the seal.
SEALS = {"age": ".age", "gpg": ".gpg"}
#: What the name of an archive of ours can end in.
OWN_ENDINGS = tuple(f".{form}{seal}" for form in FORMATS for seal in ("", *SEALS.values()))
#: What others call theirs as well, which we read: unsealed, and sealed.
READ_ENDINGS = (*(f".{form}" for form in FORMATS), ".tar.gz", ".tgz", ".tar")
SEALED_ENDINGS = (*SEALS.values(), ".pgp", ".asc")
_ENDINGS = tuple(plain + seal for plain in READ_ENDINGS for seal in ("", *SEALED_ENDINGS))


def is_archive_name(name: str) -> bool:
    """Whether a file of that name should be an archive, sealed or not."""
    return name.endswith(_ENDINGS)


def unsealed_name(name: str) -> str:
    """`a.tar.zst.age` -> `a.tar.zst`; other names as they are."""
    for seal in SEALS.values():
        if name.endswith(seal):
            return name.removesuffix(seal)
    return name


def format_of(name: str) -> str:
    """The format that the name of an archive of ours says; empty where it says none."""
    plain = unsealed_name(name)
    return next((form for form in FORMATS if plain.endswith(f".{form}")), "")
