"""Where the run of a user lies that root set up together with the keeper: files of root's."""

from __future__ import annotations

import os

SYSTEMD_DIRECTORY, CRON_DIRECTORY = "/etc/systemd/system", "/etc/cron.d"
#: How every such file begins.
PREFIX = "safekept-nightly-"


def nightly_name(user: str) -> str:
    return f"{PREFIX}{user}"


def nightly_places(user: str) -> tuple[str, str]:
    """The timer for systemd, and the file for cron, which passes over names with a dot in them."""
    name = nightly_name(user)
    return (
        os.path.join(SYSTEMD_DIRECTORY, f"{name}.timer"),
        os.path.join(CRON_DIRECTORY, name.replace(".", "_")),
    )
