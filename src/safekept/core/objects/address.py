"""From an address to a place: `file:`, `sftp://`, `s3://`, `rest:`, `rclone:`.

    file:/mnt/stick/agent                 a directory; `file:///mnt/stick/agent` is the same
    sftp://user@host:port/srv/agent       an absolute path; `/~/agent` is below the login directory
    s3://bucket/prefix                    with `endpoint`, `region` and `profile` as options
    rest:https://user@host:port/path/     a server for restic: vaults only, no archives
    rclone:REMOTE:PATH                    whatever `rclone config` knows

An address never holds a password: passwords in addresses end up in logs and process lists. It is refused,
and the refusal does not repeat it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..records import dataclass

if TYPE_CHECKING:
    from .base import ObjectStore
    from .errors import BadAddress

#: How the address of each kind of place begins, and what it looks like: the one list of them.
SCHEMES = {
    "file:": "file:/PATH",
    "sftp://": "sftp://USER@HOST/PATH",
    "s3://": "s3://BUCKET/PATH",
    "rest:": "rest:https://USER@HOST/PATH/",
    "rclone:": "rclone:REMOTE:PATH",
}
#: The program that such a place is reached by, where it needs one.
_PROGRAMS = {"sftp://": "ssh", "rclone:": "rclone"}
_SCP = re.compile(r"([\w.-]+@)?(\w[\w.-]*):(?!//)(.+)", re.DOTALL)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class Options:
    """What an address leaves open; empty values mean the usual."""

    endpoint: str = ""  # S3: the URL of an S3-compatible server
    region: str = ""  # S3
    profile: str = ""  # S3: a section of ~/.aws/credentials and ~/.aws/config
    ssh_config: str = ""  # SFTP: a file in place of ~/.ssh/config
    ca_file: str = ""  # REST: a file with the certificates that are trusted, in place of the system's
    rclone_config: str = ""  # rclone: a file in place of its usual rclone.conf
    rate_limit: int = 0  # bytes a second, all lanes together; 0 is no limit
    timeout: float = 60.0  # seconds of silence after which a server counts as gone
    patience: float = 300.0  # seconds in which one operation may be tried again
    lanes: int = 0  # calls at once; 0 is what suits the place


def scp_address(text: str, *, alias: bool = False) -> str:
    """`user@host:path`, as people type it for scp, as an address; `alias`: `host:path`, too. Else empty."""
    found = _SCP.fullmatch(text)
    if found is None or not (alias or found[1]):
        return ""
    user, host, path = found.groups()
    return f"sftp://{user or ''}{host}{path if path.startswith('/') else f'/~/{path}'}"


def is_address(text: str) -> bool:
    """Whether this is an address of a place, and not a path or a name.

    Also one that is not understood here (`http://…`): it must come out as that, not as an odd path.
    """
    return text.startswith(tuple(SCHEMES)) or _ADDRESS.match(text) is not None


def scheme_of(url: str) -> str:
    """How the address begins, as `SCHEMES` has it; empty where that is no address of ours."""
    return next((known for known in SCHEMES if url.startswith(known)), "")


def program_for(url: str) -> str:
    """The program that must be installed to reach that place; empty where none is needed."""
    return _PROGRAMS.get(scheme_of(url), "")


def address_forms() -> str:
    """What an address can look like, for an advice."""
    *others, last = (f"`{form}`" for form in SCHEMES.values())
    return f"{', '.join(others)} or {last}"


def open_objects(url: str, *, environment: Mapping[str, str], options: Options | None = None) -> ObjectStore:
    """The place that an address means. Nothing is contacted yet; BadAddress where it cannot be understood."""
    options = options or Options()
    scheme = scheme_of(url)
    if scheme == "file:":
        return _local(url)
    if scheme == "rclone:":
        return _patient(_rclone(url, environment, options), options, limited=True)
    if scheme == "sftp://":
        return _patient(_sftp(url, environment, options), options)
    if scheme == "s3://":
        return _patient(_s3(url, environment, options), options)
    if scheme == "rest:":
        return _patient(_rest(url, environment, options), options)
    *others, last = (f"`{known}`" for known in SCHEMES)
    raise _bad(url, f"it starts with none of {', '.join(others)} and {last}")


def _local(url: str) -> ObjectStore:
    from .local import LocalObjects

    rest = url.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise _bad(url, "a `file:` address has no host; write `file:/path`")
        from urllib.parse import unquote

        rest = unquote(slash + rest, errors="surrogateescape")
    if not rest.startswith("/"):
        raise _bad(url, "the path after `file:` must begin with `/`")
    return LocalObjects(rest)


def _sftp(url: str, environment: Mapping[str, str], options: Options) -> ObjectStore:
    from .sftp.connections import Host
    from .sftp.place import SftpObjects

    user, host, port, path = address_parts(url)
    # ssh takes what begins with a dash for an option.
    if not host or host.startswith("-") or user.startswith("-"):
        raise _bad(url, "it names no host")
    if "/../" in f"{path}/" or "\0" in path:
        raise _bad(url, "the path goes back up")
    if path.startswith("/~/") or path == "/~":
        path = path[3:] or "."
    elif path in ("", "/"):
        raise _bad(url, "it names no directory; write `sftp://host/path`, or `sftp://host/~/path`")
    return SftpObjects(
        Host(host, user, port, options.ssh_config),
        path,
        environment=environment,
        timeout=options.timeout,
        # Each connection is a process that encrypts: more than there are processors do not pay.
        lanes=options.lanes or max(2, min(4, os.cpu_count() or 2)),
    )


def _s3(url: str, environment: Mapping[str, str], options: Options) -> ObjectStore:
    from .s3.client import s3_access
    from .s3.place import S3Objects

    user, bucket, port, path = address_parts(url)
    if not bucket or user or port:
        raise _bad(url, "write `s3://bucket/prefix`; keys and servers are options, not parts of the address")
    if any(part in (".", "..") for part in path.split("/")):
        raise _bad(url, "the path goes back up")
    endpoint = options.endpoint
    if endpoint and not endpoint.startswith(("https://", "http://")):
        raise _bad(url, "its `endpoint` must begin with `https://` or `http://`")
    if "@" in endpoint:
        raise _bad(url, "its `endpoint` holds a user or a password; keys belong into a profile")
    access = s3_access(
        without_secret(url), environment, endpoint=endpoint, region=options.region, profile=options.profile
    )
    return S3Objects(
        bucket,
        path,
        access,
        timeout=options.timeout,
        patience=options.patience,
        lanes=options.lanes or 4,
    )


def _rest(url: str, environment: Mapping[str, str], options: Options) -> ObjectStore:
    from .rest.connections import Server
    from .rest.place import RestObjects

    scheme = url.removeprefix("rest:").partition("://")[0]
    if scheme not in ("http", "https"):
        raise _bad(url, "write `rest:https://user@host/path/`, or `rest:http://…`")
    user, host, port, path = address_parts(url)
    if not host:
        raise _bad(url, "it names no host")
    if any(part in (".", "..") for part in path.split("/")) or not path.isprintable():
        raise _bad(url, "the path goes back up")
    secure = scheme == "https"
    trusted = options.ca_file or environment.get("RESTIC_CACERT", "")
    return RestObjects(
        Server(host, port or (443 if secure else 80), secure, trusted),
        path,
        user,
        environment=environment,
        timeout=options.timeout,
        lanes=options.lanes or 4,
    )


def _rclone(url: str, environment: Mapping[str, str], options: Options) -> ObjectStore:
    from .rclone.place import RcloneObjects

    remote = url.removeprefix("rclone:")
    if ":" not in remote.removeprefix(":") or "]" in remote:
        raise _bad("rclone:", "write `rclone:REMOTE:PATH`, with a remote that `rclone listremotes` shows")
    return RcloneObjects(
        remote,
        environment=environment,
        config=options.rclone_config,
        timeout=options.timeout,
        rate_limit=options.rate_limit,
        lanes=options.lanes or 4,
    )


def _patient(place: ObjectStore, options: Options, limited: bool = False) -> ObjectStore:
    """With retries, and with the rate limit where the place does not keep it itself."""
    from .retry import PatientObjects, Rate, RetryPatience

    return PatientObjects(place, RetryPatience(options.patience), Rate(0 if limited else options.rate_limit))


def address_parts(url: str) -> tuple[str, str, int, str]:
    """User, host, port and path; a password is refused. The host keeps its case: it may be an alias."""
    rest = url.partition("://")[2]
    if "?" in rest or "#" in rest:
        raise _bad(url, "`?` and `#` have no meaning here; write `%3F` and `%23` if they belong to the path")
    server, slash, path = rest.partition("/")
    user, _, server = server.rpartition("@")
    if ":" in user:
        raise _bad(url, "it holds a password, which would end up in logs and process lists")
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^:\[\]]*)(?::([0-9]{1,5}))?", server)
    if match is None or int(match[2] or 0) > 65535:
        raise _bad(url, "its host or port cannot be understood")
    host = match[1].strip("[]")
    from urllib.parse import unquote  # costly, and most only ask whether a word is an address

    return unquote(user), host, int(match[2] or 0), unquote(slash + path)


def without_secret(url: str) -> str:
    """An address as it may be shown: without what stands between `:` and `@`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    host, slash, path = rest.partition("/")
    user, at, server = host.rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}{at}{server}{slash}{path}"


def _bad(url: str, reason: str) -> BadAddress:
    shown = without_secret(url)
    from .errors import BadAddress

    return BadAddress(
        f"`{shown}` is not an address of a place: {reason}",
        kept="Nothing was contacted or changed",
        next_steps=(f"Correct the address: {address_forms()}",),
        place=shown,
    )
