"""Which host a name means to ssh: `~/.ssh/config` may call any machine anything. Nothing is connected to."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ..errors import SafekeptError
from .address import address_parts

_SECONDS = 5.0
_NONE = ("", "none")


def ssh_host(url: str, config: str, environment: Mapping[str, str]) -> str:
    """The host of an `sftp://` address, as ssh would look it up; "" where it is reached through another one.

    `config`: a file in place of `~/.ssh/config`. Where ssh does not say, the name itself.
    """
    try:
        user, name, port, _ = address_parts(url)
    except SafekeptError:
        return ""
    import shutil

    program = shutil.which("ssh", path=environment.get("PATH"))
    if not name or program is None or name.startswith("-") or user.startswith("-"):
        return name
    # A name server is not asked: one that does not answer must not keep a verdict waiting.
    words = [program, "-G", "-o", "CanonicalizeHostname=no"]
    words += [*(["-F", config] if config else []), *(["-p", str(port)] if port else [])]
    found = _asked((*words, *(["-l", user] if user else []), "--", name), tuple(environment.items()))
    if any(found.get(key, "") not in _NONE for key in ("proxyjump", "proxycommand")):
        return ""  # its `localhost` is that of the machine in between
    return found.get("hostname") or name


@functools.lru_cache(maxsize=64)  # a verdict asks several times
def _asked(words: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """What ssh would use, by the names of its settings; nothing where it does not answer."""
    import subprocess

    try:
        done = subprocess.run(
            words,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return {key.lower(): value.strip() for key, _, value in (line.partition(" ") for line in lines)}
