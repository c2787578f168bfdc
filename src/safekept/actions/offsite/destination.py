"""A destination: one place off this host, as `[[destination]]` in the settings describes it.

Parsing is strict: a misspelt key would silently protect nothing. A secret never belongs here: keys and
passwords come from the environment, a profile, `~/.ssh/config`, `~/.netrc` or `rclone.conf`, and a URL
that carries one is refused before it can reach a list, an error or the journal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from safekept.core.objects.address import SCHEMES, scheme_of, scp_address, without_secret
from safekept.core.records import dataclass

VAULT, ARCHIVES = "vault", "archives"
#: What git hides in projects: it leaves this host only where a destination names it.
HIDDEN = "hidden"
KEEP = 14
TIMEOUT = 60
_MOST_CONNECTIONS = 64
#: What only some kinds of places understand; handed on as they are.
_OPTIONS = ("endpoint", "region", "profile", "ssh_config", "ca_file", "rclone_config")
#: Every key that a table may have; `docs/reference/settings.md` has a row for each.
KEYS = (
    "name",
    "url",
    "takes",
    "keep",
    "rate_limit",
    "connections",
    "timeout",
    "unsealed",
    "same_disk",
    "elsewhere",
    *_OPTIONS,
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_RATE = re.compile(r"(\d+(?:\.\d+)?) ?([KMG]?)(?:i?B)?(?:/s)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class DestinationSetting:
    """One table `[[destination]]`."""

    name: str
    url: str
    takes: tuple[str, ...] = (VAULT, ARCHIVES)
    keep: int = KEEP  # archives of each host and kind; 0 keeps all
    rate_limit: int = 0  # bytes in a second; 0: as fast as it goes
    connections: int = 0  # files on their way at once; 0: what suits the place
    timeout: int = TIMEOUT  # seconds of silence after which the place counts as gone
    unsealed: bool = False  # archives that the place could read may go there
    same_disk: bool = False  # a `file:` place on the disk of the vault, or of the system, is meant so
    elsewhere: bool = False  # it looks like this machine, and is another one: a tunnel
    options: Mapping[str, str] = field(default_factory=dict)  # endpoint, region, profile, …

    @property
    def is_file(self) -> bool:
        return self.url.startswith("file:")

    @classmethod
    def at(cls, url: str) -> DestinationSetting:
        """The place that a URL names, with everything else as usual."""
        return cls(url, url, usual_takes(url))

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "url": self.url,
            "takes": list(self.takes),
            "keep": self.keep,
            "rate_limit": self.rate_limit or None,
            "connections": self.connections or None,
            "unsealed": self.unsealed,
            "elsewhere": self.elsewhere,
            "options": dict(self.options),
        }


def usual_takes(url: str) -> tuple[str, ...]:
    """What goes to a place: a REST server has no room for anything but vaults."""
    return (VAULT,) if url.startswith("rest:") else (VAULT, ARCHIVES)


def checked_url(url: str) -> str:
    """The URL as it is used; a plain absolute path is a `file:`. ValueError says what is wrong with it."""
    if url.startswith("/"):
        return f"file:{url}"
    shown = without_secret(url)
    if not scheme_of(url):
        by_ssh = scp_address(shown, alias=True)
        raise ValueError(
            f"`{shown}` is no place that safekept knows: {', '.join(SCHEMES)}, or a path from `/` on"
            + (f". A server by SSH is `{by_ssh}`" if by_ssh else "")
        )
    if shown != url:
        raise ValueError(
            f"`{shown}` holds a password; keys and passwords come from the environment, a profile, "
            "`~/.ssh/config`, `~/.netrc` or `rclone.conf`"
        )
    return url


def parse_destination(fields: Mapping[str, object]) -> DestinationSetting:
    """One table of the settings; ValueError says which key is wrong and why."""
    unknown = sorted(fields.keys() - set(KEYS))
    if unknown:
        raise ValueError(f"`{unknown[0]}` does not exist")
    name, url = _text(fields, "name"), _text(fields, "url")
    if not _NAME.fullmatch(name):
        raise ValueError("`name` needs letters, digits, `.`, `_` or `-`")
    if not url:
        raise ValueError("`url` is missing")
    url = checked_url(url)
    takes = _takes(fields.get("takes", list(usual_takes(url))))
    if not set(takes) <= {*usual_takes(url), HIDDEN}:
        raise ValueError("`takes` names archives, and a REST server keeps vaults only")
    if HIDDEN in takes and VAULT not in takes:
        raise ValueError("`takes` names `hidden` alone, and `hidden` goes with the vault whose key opens it")
    return DestinationSetting(
        name=name,
        url=url,
        takes=takes,
        keep=_count(fields, "keep", KEEP, least=0),
        rate_limit=parse_rate(fields.get("rate_limit", 0)),
        connections=_count(fields, "connections", 0, least=0, most=_MOST_CONNECTIONS),
        timeout=_count(fields, "timeout", TIMEOUT, least=1, most=86_400),
        unsealed=_flag(fields, "unsealed"),
        same_disk=_flag(fields, "same_disk"),
        elsewhere=_flag(fields, "elsewhere"),
        options={name: _text(fields, name) for name in _OPTIONS if fields.get(name)},
    )


def table_of(setting: DestinationSetting) -> dict[str, object]:
    """The table that describes it, without what is at its default: `parse_destination` reads it again."""
    usual = DestinationSetting.at(setting.url)
    fields: dict[str, object] = {"name": setting.name, "url": setting.url}
    keys = ("takes", "keep", "rate_limit", "connections", "timeout", "unsealed", "same_disk", "elsewhere")
    for key in keys:
        value = getattr(setting, key)
        if value != getattr(usual, key):
            fields[key] = list(value) if key == "takes" else value
    return fields | dict(setting.options)


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str) or "\n" in value or "\x00" in value:
        raise ValueError(f"`{name}` is not a text")
    return value


def _flag(fields: Mapping[str, object], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` is neither true nor false")
    return value


def _count(fields: Mapping[str, object], name: str, default: int, *, least: int, most: int = 10**9) -> int:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"`{name}` is not a whole number from {least:,} to {most:,}")
    return value


def _takes(value: object) -> tuple[str, ...]:
    known = (VAULT, ARCHIVES, HIDDEN)
    if not isinstance(value, list) or not value or any(one not in known for one in value):
        raise ValueError('`takes` is not a list of "vault", "archives" and "hidden"')
    return tuple(one for one in known if one in value)


def parse_rate(value: object) -> int:
    """`"2 MB"`, `"500K"` or a number of bytes: so many in a second. ValueError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError('`rate_limit` is not an amount for each second, such as "2 MB" or "500 KB"')
    return int(float(match[1]) * _UNITS[match[2].upper()])
