"""Where settings come from: flag, then `SAFEKEPT_*`, then `config.toml`, then the default.

Only the faces import this room; everything below them is handed plain values.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_regular
from safekept.core.next_step import NextStep
from safekept.core.owner import foreign_owner
from safekept.core.records import dataclass

from .table import SETTINGS, bad, checked, parsed

if TYPE_CHECKING:
    from safekept.actions.offsite.destination import DestinationSetting


class PlacesOfAnother(SafekeptError):
    code = "places-of-another"


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force, and the places that belong to this user."""

    values: Mapping[str, object]
    user_home: str
    config_directory: str
    data_directory: str
    cache_directory: str
    environment: Mapping[str, str]
    given: frozenset[str] = frozenset()  # what the user said; the rest are defaults
    destinations: tuple[DestinationSetting, ...] = ()

    def text(self, name: str) -> str:
        return str(self.values[name])

    def path(self, name: str, default: str) -> str:
        """A place: absolute, with `~` as this user's home directory."""
        value = self.text(name) or default
        if value == "~" or value.startswith("~/"):
            value = self.user_home + value[1:]
        return os.path.abspath(value)

    def number(self, name: str) -> float:
        return float(str(self.values[name]))

    def whole(self, name: str) -> int:
        return int(self.number(name))

    def flag(self, name: str) -> bool:
        return bool(self.values[name])

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        return tuple(str(item) for item in value) if isinstance(value, list) else ()


#: The variable by which root says whose home it looks after: everything of safekept's is then the system's.
SYSTEM_USER = "SAFEKEPT_SYSTEM_USER"
#: Settings and key, vault and journal, what can be rebuilt: a directory for each user below each of them.
SYSTEM_PLACES = ("/etc/safekept", "/var/lib/safekept", "/var/cache/safekept")


def _home_of(user: str) -> str:
    import pwd

    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        raise bad(
            f"The variable {SYSTEM_USER} names `{user}`, and there is no such user", "Correct the name"
        ) from None


def _own_home() -> str:
    """Of the user who runs this, whatever the environment says; "/" for a user without an entry."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _place(environment: Mapping[str, str], name: str, otherwise: Callable[[], str]) -> str:
    """A directory that a variable names. A relative one would be another place wherever one stands, and is
    as good as none, as the XDG specification wants it."""
    value = environment.get(name, "")
    return value if os.path.isabs(value) else otherwise()


def load_settings(environment: Mapping[str, str], file: str = "", text: str = "") -> Settings:
    """Read the file and the environment; a wrong name or value is an error that says which.

    `file`: another one than this user's own, which is gone; or its `text`.
    """
    bare = default_settings(environment)
    path = file or os.path.join(bare.config_directory, "config.toml")
    given = read_settings_file(text, path) if text else _from_file(path)
    destinations = cast("tuple[DestinationSetting, ...]", given.pop("destination", ()))
    values = {**given, **_from_environment(environment)}
    return replace(bare, values={**bare.values, **values}, given=frozenset(values), destinations=destinations)


def default_settings(environment: Mapping[str, str]) -> Settings:
    """What holds where nothing that the user said can be read: this user's places, and the defaults."""
    user_home = _place(environment, "HOME", _own_home)
    config = _place(environment, "XDG_CONFIG_HOME", lambda: os.path.join(user_home, ".config"))
    data = _place(environment, "XDG_DATA_HOME", lambda: os.path.join(user_home, ".local", "share"))
    cache = _place(environment, "XDG_CACHE_HOME", lambda: os.path.join(user_home, ".cache"))
    config, data, cache = (os.path.join(place, "safekept") for place in (config, data, cache))
    if owner := environment.get(SYSTEM_USER):
        user_home = _home_of(owner)
        config, data, cache = (os.path.join(place, owner) for place in SYSTEM_PLACES)
    _refuse_others(config, data, cache)
    values = {setting.name: setting.default for setting in SETTINGS}
    return Settings(values, user_home, config, data, cache, environment)


def _refuse_others(*places: str) -> None:
    """As root: settings are obeyed and records acted on, so no other user may be able to write them."""
    for place in places:
        if (owner := foreign_owner(place)) is not None:
            sudo = "sudo " if owner.in_front.startswith("sudo") else ""
            raise PlacesOfAnother(
                f"`{place}` belongs to `{owner.name}`, and this command runs as root",
                kept="Nothing of it was read or changed",
                next_steps=(
                    f"Run it as that user: `{owner.in_front} safekept status`",
                    f"Or with places of root's own: `{sudo}HOME=/root safekept status`",
                    "Or with the stores of the system: "
                    f"`{sudo}SAFEKEPT_SYSTEM_USER={owner.name} safekept status`",
                ),
                path=place,
                owner=owner.name,
            )


def _from_file(path: str) -> dict[str, object]:
    if not os.path.exists(path):
        return {}
    try:
        text = read_regular(path).decode("utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise bad(f"`{path}` cannot be read: {error}", f"Mend `{path}`, or move it away") from error
    return read_settings_file(text, path)


def read_settings_file(text: str, path: str) -> dict[str, object]:
    """What a settings file says, by the names of the settings; a wrong name or value is an error."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits
        raise bad(f"`{path}` cannot be read: {error}", f"Mend `{path}`, or move it away") from error
    found: dict[str, object] = {}
    if "destination" in document:
        found["destination"] = _destinations(document.pop("destination"), path)
    for key, value in document.items():
        pairs = (
            {f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {key: value}
        )
        for name, inner_value in pairs.items():
            found[name] = checked(name, inner_value, f"`{path}`")
    return found


def _destinations(tables: object, path: str) -> tuple[DestinationSetting, ...]:
    """Every `[[destination]]`; what is wrong is an error that names the table."""
    from safekept.actions.offsite.destination import parse_destination

    step = NextStep(
        "destinations add", ("PLACE",), before="Mend it there, or take that table out and have it written:"
    )
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise bad(f"`{path}`: `destination` is not a list of tables", "Write it as `[[destination]]`")
    found: dict[str, DestinationSetting] = {}
    for number, table in enumerate(tables, 1):
        name = table.get("name")
        which = f"the destination `{name}`" if isinstance(name, str) and name else f"destination {number}"
        try:
            one = parse_destination(table)
        except ValueError as error:
            raise bad(f"`{path}`: {which}: {error}", step) from error
        if one.name in found:
            raise bad(f"`{path}`: two destinations are called `{one.name}`", "Give each a name of its own")
        found[one.name] = one
    return tuple(found.values())


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for setting in SETTINGS:
        raw = environment.get(setting.variable)
        if raw is None or raw == "":
            continue
        value = parsed(setting, raw)
        found[setting.name] = checked(setting.name, value, f"the variable {setting.variable}")
    return found
