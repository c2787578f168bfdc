"""The user and password for a REST server: from the environment, as restic takes them, or from `~/.netrc`.

Never from the address: that stands in lists, journals and process lists.
"""

from __future__ import annotations

import base64
import netrc
import os
import stat
from collections.abc import Mapping

from ..errors import PlaceRefused, refused

USER, PASSWORD = "RESTIC_REST_USERNAME", "RESTIC_REST_PASSWORD"


def authorization(place: str, host: str, user: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The header that says who asks; none where nothing is known of a password."""
    found = _from_environment(user, environment) or _from_netrc(place, host, user, environment)
    if found is None:
        if user:
            raise no_password(place, host, user)
        return {}
    pair = base64.b64encode(":".join(found).encode("utf-8", "surrogateescape")).decode("ascii")
    return {"Authorization": f"Basic {pair}"}


def no_password(place: str, host: str, user: str) -> PlaceRefused:
    who = user or "USER"
    return refused(
        place,
        "in",
        "no password for it is known" if user else "it wants a user and a password",
        f"Put them into `~/.netrc`, which only you may read: `machine {host} login {who} password PASSWORD`",
        f"Or set `{USER}` and `{PASSWORD}`, as for restic",
    )


def _from_environment(user: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    password, named = environment.get(PASSWORD, ""), environment.get(USER, "")
    if not password or (user and named and user != named) or not (user or named):
        return None
    return user or named, password


def _from_netrc(place: str, host: str, user: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    path = environment.get("NETRC") or os.path.join(environment.get("HOME", ""), ".netrc")
    known, understood = None, True
    try:
        mode = os.stat(path).st_mode
        known = netrc.netrc(path).authenticators(host)
    except (OSError, UnicodeDecodeError):
        return None
    except netrc.NetrcParseError:
        understood = False  # its own words repeat the line, and the password with it: they go no further
    if not understood:
        raise refused(place, "in", f"`{path}` cannot be understood", "Correct it; `man netrc`")
    if known is None or not known[2] or (user and known[0] and known[0] != user):
        return None
    if stat.S_IMODE(mode) & 0o077:
        raise refused(place, "in", f"others can read `{path}`", f"Close it: `chmod 600 {path}`")
    return user or known[0] or "", known[2]
