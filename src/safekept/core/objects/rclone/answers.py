"""What rclone's words mean, and how they look without secrets.

rclone passes on what each of its seventy remotes says, so there are no codes to rely on, only signs. What
has none of them is taken for a failure that may pass.
"""

from __future__ import annotations

import contextlib
import json
import re

from ...errors import SafekeptError
from ...files import NoRoom
from ..errors import WHOLE, refused, unreachable, wrong
from .process import Answered

_NO_REMOTE = ("didn't find section in config file", "didn't find backend called")
_LOCKED_CONFIG = ("decrypt config", "decrypt the config", "encrypted config")
_NOT_THERE = (
    "directory not found",
    "object not found",
    "is a directory not a file",
    "bucket does not exist",
    "nosuchbucket",
)
_FULL = (
    "no space left",
    "remaining disk space",
    "disk quota exceeded",
    "disk full",
    "insufficient storage",
    "insufficient_space",
    "insufficientspace",
    "storagequotaexceeded",
    "quotalimitreached",
    "storage_limit_exceeded",
    "storagefull",
)
_REFUSED = (
    "permission denied",
    "accessdenied",
    "access denied",
    "forbidden",
    "unauthorized",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
    "invalid_grant",
    "expiredtoken",
    "unable to authenticate",
    "read-only file system",
    "knownhosts",
    "authentication failed",
    "operation not permitted",
    "login failed",
)


def not_there(answer: Answered) -> bool:
    return answer.status == 404 or _says(answer.words, _NOT_THERE)


def explained(place: str, remote: str, verb: str, words: str) -> SafekeptError:
    """The error that fits."""
    shown = without_secrets(words, remote)
    if _says(words, _NO_REMOTE):
        return refused(place, verb, "rclone knows no such remote", "See which it knows: `rclone listremotes`")
    if _says(words, _LOCKED_CONFIG):
        return refused(
            place,
            verb,
            "rclone's configuration is encrypted",
            "Set RCLONE_CONFIG_PASS or RCLONE_PASSWORD_COMMAND where the command or its schedule runs",
        )
    if _says(words, _FULL):
        return NoRoom(
            f"There is no room left at `{place}`: {shown}",
            kept=WHOLE,
            next_steps=("Make room there, or raise the limit, and run the command again",),
            place=place,
        )
    if _says(words, ("corrupted on transfer",)):
        return wrong(place, "the object", shown)
    if _says(words, _REFUSED):
        return refused(place, verb, shown)
    return unreachable(place, shown)


def without_secrets(words: str, remote: str) -> str:
    """rclone's words without what could be a secret: parameters of remotes and of addresses."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        words = str(json.loads(words)["error"])
    words = words.replace(remote, shown(remote))
    words = re.sub(r"(://)[^/@\s]+@", r"\1", words)
    words = re.sub(r"\?[^\s\"']+", "", words)
    return " ".join(words.split())[:300]


def shown(remote: str) -> str:
    """A remote without its parameters, which may hold passwords: `:s3,secret=…:bucket` -> `:s3:bucket`."""
    quoted = re.sub(r'"[^"]*"|\'[^\']*\'', "", remote)
    start = 1 if quoted.startswith(":") else 0
    end = quoted.find(":", start)
    if end < 0 or "," not in quoted[:end]:
        return quoted
    return quoted[: quoted.index(",")] + quoted[end:]


def _says(words: str, signs: tuple[str, ...]) -> bool:
    lower = words.lower()
    return any(sign in lower for sign in signs)
