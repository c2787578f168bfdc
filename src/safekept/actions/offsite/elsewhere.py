"""Whether a copy survives the loss of this machine: on another machine, or on a disk that can be taken away.

A copy on the same disk, in memory, or on a server that is this very machine is stored as any other, and is
not counted on. `elsewhere = true` in the table of a destination says that it looks so and is not: the end of
a tunnel, a container with a disk of its own.
"""

from __future__ import annotations

import os

from safekept.core.objects.ssh_host import ssh_host

from ..base.context import UserContext
from .destination import DestinationSetting
from .this_machine import disks_of, in_memory, is_this_machine

#: What `rclone config` calls remotes that are no place of their own.
_LOCAL_REMOTES = ("local", "memory")


#: Why a directory is no disk at all, as the end of a sentence.
IN_MEMORY = "is in memory, and gone at the next start"


def not_elsewhere(context: UserContext, setting: DestinationSetting, *, away: bool = False) -> str:
    """Why a copy there would be lost with this machine, as the end of a sentence; empty where it would not.

    Nothing is contacted for this. `away`: its disk is known not to be plugged in.
    """
    if setting.elsewhere:
        return ""
    if setting.is_file:
        return _of_directory(context, setting, away)
    here = "is this very machine"
    if setting.url.startswith("sftp://"):
        config = setting.options.get("ssh_config", "")
        return here if is_this_machine(ssh_host(setting.url, config, context.caller.environment)) else ""
    if setting.url.startswith("s3://"):
        endpoint = setting.options.get("endpoint", "") or _variable(context, "AWS_ENDPOINT_URL_S3")
        endpoint = endpoint or _variable(context, "AWS_ENDPOINT_URL")
        return here if is_this_machine(_host(endpoint)) else ""
    if setting.url.startswith("rest:"):
        return here if is_this_machine(_host(setting.url.removeprefix("rest:"))) else ""
    if setting.url.startswith("rclone:"):
        return here if _local_remote(context, setting) else ""
    return ""


def on_a_disk_of_this_machine(context: UserContext, path: str) -> str:
    """Why a directory is no other disk; empty where it is one."""
    if in_memory(path):
        return IN_MEMORY
    places = ("/", context.places.vault, context.places.user_home)
    ours = frozenset().union(*(disks_of(place) for place in places if place.startswith("/")))
    return "is on the same disk as this system or the vault" if disks_of(path) & ours else ""


def directory_of(setting: DestinationSetting) -> str:
    """That of a `file:` place."""
    path = setting.url.removeprefix("file:")
    return "/" + path.lstrip("/").removeprefix("localhost/") if path.startswith("//") else path


def _of_directory(context: UserContext, setting: DestinationSetting, away: bool) -> str:
    path = directory_of(setting)
    if os.path.isdir(path) and not away:
        return on_a_disk_of_this_machine(context, path)
    # A disk that is away cannot be looked at. The first push did, unless it was told that it need not.
    return "is on the same disk as this system or the vault" if setting.same_disk else ""


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError:
        return ""


def _variable(context: UserContext, name: str) -> str:
    return context.caller.environment.get(name, "")


def _local_remote(context: UserContext, setting: DestinationSetting) -> bool:
    """Whether rclone's own settings say so; an encrypted file of settings says nothing."""
    name = setting.url.removeprefix("rclone:").partition(":")[0]
    usual = os.path.join(
        _variable(context, "XDG_CONFIG_HOME") or os.path.join(context.places.user_home, ".config"),
        *("rclone", "rclone.conf"),
    )
    path = setting.options.get("rclone_config", "") or _variable(context, "RCLONE_CONFIG") or usual
    import configparser

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(os.path.expanduser(path), encoding="utf-8")
        remote = dict(parser.items(name)) if parser.has_section(name) else {}
    except (configparser.Error, OSError, UnicodeDecodeError):
        return False
    if not name or remote.get("type") in _LOCAL_REMOTES:
        return True
    if remote.get("type") == "alias" and remote.get("remote", "").startswith("/"):
        return True
    return any(is_this_machine(_host(remote.get(key, ""))) for key in ("host", "url", "endpoint"))
