"""What ssh would use for a name: `~/.ssh/config` may call any machine anything. Nothing is connected to."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from ..errors import SafekeptError
from ..files.small import read_start
from .address import address_parts

_SECONDS = 5.0
_NONE = ("", "none")
_LONGEST = 16 << 10  # bytes of a public key
_PUBLIC = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/=]+(?: [ -~]*)?")


def ssh_host(url: str, config: str, environment: Mapping[str, str]) -> str:
    """The host of an `sftp://` address, as ssh would look it up; "" where it is reached through another one.

    `config`: a file in place of `~/.ssh/config`. Where ssh does not say, the name itself.
    """
    try:
        name = address_parts(url)[1]
    except SafekeptError:
        return ""
    found = dict(_settings(url, config, environment))
    if any(found.get(key, "") not in _NONE for key in ("proxyjump", "proxycommand")):
        return ""  # its `localhost` is that of the machine in between
    return found.get("hostname") or name


def ssh_public_key(url: str, config: str, environment: Mapping[str, str]) -> str:
    """The first public key that lies beside a private one which ssh would show there, as a line; or ""."""
    for key, path in _settings(url, config, environment):
        if key != "identityfile":
            continue
        path = environment.get("HOME", "") + path[1:] if path.startswith("~/") else path
        try:
            line = read_start(f"{path}.pub", _LONGEST).decode("utf-8", "replace").split("\n")[0].strip()
        except OSError:
            continue
        if _PUBLIC.fullmatch(line):
            return line
    return ""


def _settings(url: str, config: str, environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What ssh would use for an address, by the names of its settings; nothing where it does not say."""
    try:
        user, name, port, _ = address_parts(url)
    except SafekeptError:
        return ()
    import shutil

    program = shutil.which("ssh", path=environment.get("PATH"))
    if not name or program is None or name.startswith("-") or user.startswith("-"):
        return ()
    # A name server is not asked: one that does not answer must not keep a verdict waiting.
    words = [program, "-G", "-o", "CanonicalizeHostname=no"]
    words += [*(["-F", config] if config else []), *(["-p", str(port)] if port else [])]
    return _asked((*words, *(["-l", user] if user else []), "--", name), tuple(environment.items()))


@functools.lru_cache(maxsize=64)  # a verdict asks several times
def _asked(words: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """One line of its settings after the other; a name may come several times."""
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
        return ()
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return tuple((key.lower(), value.strip()) for key, _, value in (line.partition(" ") for line in lines))
