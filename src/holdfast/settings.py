"""Where settings come from: flag, then `HOLDFAST_*`, then `config.toml`, then the default.

Only the faces import this module; everything below them is handed plain values. Every setting is
one row of SETTINGS, which is also what the documentation test reads, so that none exists without
its line in `docs/reference/settings.md`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.core.errors import HoldfastError


class BadSetting(HoldfastError):
    code, exit_code = "bad-setting", 2


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing a user can set; `section.name` in the file, HOLDFAST_SECTION_NAME outside."""

    name: str
    kind: type
    default: object
    meaning: str

    @property
    def variable(self) -> str:
        return "HOLDFAST_" + self.name.replace(".", "_").upper()


SETTINGS = (
    Setting("layout", str, "hermes", "which agent's home is meant when nothing else says so"),
    Setting("home", str, "", "the home to work on; empty means the agent's own variable or default place"),
    Setting("layouts", list, [], "directories with layout files of your own"),
    Setting(
        "database.deadline", float, 30.0, "seconds without progress before a locked database is given up"
    ),
    Setting("backup.output", str, "", "where archives go; empty means your home directory"),
    Setting("backup.format", str, "zip", "`zip`, which Hermes reads too, or `tar.zst`"),
    Setting("backup.keep", int, 0, "how many complete archives to keep in that place; 0 keeps all"),
    Setting("backup.include", list, [], "paths to bring in although a rule leaves them out"),
    Setting("backup.exclude", list, [], "paths to leave out, anchored at the home"),
    Setting("import.keep_days", int, 14, "days for which what an import replaced can be brought back"),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force, and the places that belong to this user."""

    values: Mapping[str, object]
    user_home: str
    config_directory: str
    data_directory: str
    environment: Mapping[str, str]

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> float:
        return float(str(self.values[name]))

    def whole(self, name: str) -> int:
        return int(self.number(name))

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        return tuple(str(item) for item in value) if isinstance(value, list) else ()


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Read the file and the environment; a wrong name or value is an error that says which."""
    user_home = environment.get("HOME") or os.path.expanduser("~")
    config = os.path.join(
        environment.get("XDG_CONFIG_HOME") or os.path.join(user_home, ".config"), "holdfast"
    )
    data = os.path.join(
        environment.get("XDG_DATA_HOME") or os.path.join(user_home, ".local", "share"), "holdfast"
    )
    values: dict[str, object] = {setting.name: setting.default for setting in SETTINGS}
    values.update(_from_file(os.path.join(config, "config.toml")))
    values.update(_from_environment(environment))
    return Settings(values, user_home, config, data, environment)


def _from_file(path: str) -> dict[str, object]:
    if not os.path.exists(path):
        return {}
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise _bad(f"`{path}` cannot be read: {error}", f"Mend `{path}`, or move it away") from error
    found: dict[str, object] = {}
    for key, value in document.items():
        pairs = (
            {f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {key: value}
        )
        for name, inner_value in pairs.items():
            found[name] = _checked(name, inner_value, f"`{path}`")
    return found


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for setting in SETTINGS:
        raw = environment.get(setting.variable)
        if raw is None or raw == "":
            continue
        value: object = [part for part in raw.split(os.pathsep) if part] if setting.kind is list else raw
        if setting.kind in (int, float):
            try:
                value = setting.kind(raw)
            except ValueError:
                value = raw
        found[setting.name] = _checked(setting.name, value, f"the variable {setting.variable}")
    return found


def _checked(name: str, value: object, where: str) -> object:
    setting = _BY_NAME.get(name)
    if setting is None:
        raise _bad(f"{where} sets `{name}`, which does not exist", "See `docs/reference/settings.md`")
    wanted = (int, float) if setting.kind is float else (setting.kind,)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise _bad(
            f"{where} sets `{name}` to {value!r}, which is not {_ARTICLE[setting.kind]}",
            f"The default is {setting.default!r}: {setting.meaning}",
        )
    if isinstance(value, int | float) and value < 0:
        raise _bad(f"{where} sets `{name}` to {value!r}, which is below zero", setting.meaning)
    if name == "backup.format" and value not in ("zip", "tar.zst"):
        raise _bad(f"{where} sets `{name}` to {value!r}", "Use `zip` or `tar.zst`")
    return value


_ARTICLE = {str: "a text", int: "a whole number", float: "a number", list: "a list"}


def _bad(what: str, step: str) -> BadSetting:
    return BadSetting(what, kept="Nothing was read or changed", next_steps=(step,))
