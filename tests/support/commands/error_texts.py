"""An error as a person reads it: the sentence first, the code last."""

from __future__ import annotations

import re

_CODE = re.compile(r"^(?:\x1b\[\d+m)* {2}Error {6}([a-z0-9-]+)", re.MULTILINE)


def error_codes(screen: str) -> list[str]:
    """The codes of all errors on a screen, in order."""
    return _CODE.findall(screen)


def error_code(screen: str) -> str:
    """The code of the error that a screen ends with, or nothing."""
    return next(reversed(error_codes(screen)), "")
