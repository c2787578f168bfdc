"""Where settings come from: flag, then `HOLDFAST_*`, then `config.toml`, then the default.

Only the faces import this module; everything below them is handed plain values. Every setting is
one row of SETTINGS, which is also what the documentation test reads, so that none exists without
its line in `docs/reference/settings.md`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.actions.checkpoint import CheckpointPolicy
    from holdfast.actions.destination import DestinationSetting


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
        "databases",
        str,
        "lean",
        "how snapshots hold databases: `lean`, without search indexes that a restore makes anew, or `full`",
    ),
    Setting("databases_full", list, [], "homes whose databases are always held in full"),
    Setting(
        "database.deadline", float, 30.0, "seconds without progress before a locked database is given up"
    ),
    Setting("backup.output", str, "", "where archives go; empty means your home directory"),
    Setting("backup.format", str, "zip", "`zip`, which Hermes reads too, or `tar.zst`"),
    Setting("backup.keep", int, 0, "how many complete archives to keep in that place; 0 keeps all"),
    Setting("backup.include", list, [], "paths to bring in although a rule leaves them out"),
    Setting("backup.exclude", list, [], "paths to leave out, anchored at the home"),
    Setting(
        "backup.seal",
        list,
        [],
        "whom archives are sealed to, as `--seal` takes them; in the variable, with a comma between two",
    ),
    Setting(
        "seal.identity", list, [], "files with private keys that are tried when a sealed archive is opened"
    ),
    Setting(
        "seal.passphrase_command",
        str,
        "",
        "a command that prints the passphrase of sealed archives, for when nobody can be asked",
    ),
    Setting("vault.path", str, "", "where the vault is; empty means `holdfast/vault` in your data directory"),
    Setting(
        "vault.key_file",
        str,
        "",
        "the file that holds the vault's key; empty means `vault.key` in your configuration directory",
    ),
    Setting(
        "vault.passphrase_command",
        str,
        "",
        "a command that prints the vault's passphrase; a vault made while it is set opens with it",
    ),
    Setting(
        "updates.pre_update_backup",
        str,
        "",
        "`quick`, `full` or `off`; empty means what the home's own `config.yaml` says",
    ),
    Setting(
        "updates.backup_keep",
        int,
        0,
        "how many zips stay of each kind; 0 means what the home's own `config.yaml` says",
    ),
    Setting("import.keep_days", int, 14, "days for which what an import replaced can be brought back"),
    Setting("status.stale_hours", float, 26.0, "hours after which the last snapshot of a home counts as old"),
    Setting("checkpoints.max_snapshots", int, 200, "numbered checkpoints kept per project; 0 keeps all"),
    Setting(
        "checkpoints.max_total_size_mb",
        int,
        2000,
        "megabytes for the checkpoints of all projects; 0: no limit",
    ),
    Setting(
        "checkpoints.max_file_size_mb",
        float,
        10.0,
        "files above so many megabytes are not taken; 0: no limit",
    ),
    Setting("checkpoints.max_files", int, 250_000, "files above which only named ones are taken"),
    Setting("checkpoints.retention_days", int, 30, "days after which a checkpoint goes; 0 keeps all"),
    Setting("checkpoints.auto_prune", bool, True, "whether maintenance drops checkpoints by itself"),
    Setting(
        "checkpoints.delete_orphans", bool, True, "whether `prune` drops what belongs to deleted projects"
    ),
    Setting("checkpoints.min_interval_hours", float, 24.0, "hours between two runs of maintenance"),
    Setting(
        "checkpoints.exclude",
        list,
        [],
        "patterns of files to leave out of checkpoints, beside the usual ones",
    ),
    Setting("schedule.at", str, "03:30", "when regular work is due: times of the day, or `hourly`"),
    Setting(
        "schedule.homes", list, [], "the homes to look after; empty means the one that is meant by default"
    ),
    Setting("schedule.archives", str, "", "where sealed archives go; empty means the usual place"),
    Setting("schedule.keep", int, 14, "how many sealed archives of a home stay there; 0 keeps all"),
    Setting("schedule.prune_days", float, 30.0, "days between two prunes of the vault; 0: never"),
    Setting(
        "schedule.checkpoint_days", float, 7.0, "days between two rounds of care for checkpoints; 0: never"
    ),
    Setting("schedule.small_drill_days", float, 7.0, "days between two small drills; 0: never"),
    Setting("schedule.drill_days", float, 91.0, "days between two full drills; 0: never"),
    Setting("schedule.time_limit", float, 4.0, "hours after which a run ends; 0: no limit"),
    Setting(
        "schedule.overdue_hours",
        float,
        48.0,
        "hours without a good snapshot after which a home is overdue; 0: never",
    ),
    Setting(
        "schedule.push_overdue_days",
        float,
        7.0,
        "days after which a destination that got nothing is overdue; 0: never",
    ),
    Setting(
        "schedule.battery",
        str,
        "light",
        "on battery: `run` everything, `light` (the snapshot only) or `wait`",
    ),
    Setting("schedule.metered", str, "wait", "on a metered network: `run` pushes all the same, or `wait`"),
    Setting("notify.ping", str, "", "a healthchecks-style URL, told of every start, good end and failure"),
    Setting("notify.ntfy", str, "", "the URL of an ntfy topic"),
    Setting("notify.webhook", str, "", "a URL that gets a JSON document by POST"),
    Setting("notify.email", list, [], "addresses that get a mail"),
    Setting("notify.sendmail", str, "/usr/sbin/sendmail", "the program that sends mail"),
    Setting("notify.command", str, "", "a command that gets the facts as JSON, run without a shell"),
    Setting("notify.events", list, [], "what somebody is told of; empty means everything that is wrong"),
    Setting("notify.deadline", float, 5.0, "seconds that notifying may take, all targets together"),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


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


#: The variable by which root says whose home he looks after: everything of holdfast's is then the system's.
SYSTEM_USER = "HOLDFAST_SYSTEM_USER"
#: Settings and key, vault and journal, what can be rebuilt: a directory for each user below each of them.
SYSTEM_PLACES = ("/etc/holdfast", "/var/lib/holdfast", "/var/cache/holdfast")


def _home_of(user: str) -> str:
    import pwd

    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        raise _bad(
            f"the variable {SYSTEM_USER} names `{user}`, and there is no such user", "Correct the name"
        ) from None


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Read the file and the environment; a wrong name or value is an error that says which."""
    user_home = environment.get("HOME") or os.path.expanduser("~")
    config = os.path.join(
        environment.get("XDG_CONFIG_HOME") or os.path.join(user_home, ".config"), "holdfast"
    )
    data = os.path.join(
        environment.get("XDG_DATA_HOME") or os.path.join(user_home, ".local", "share"), "holdfast"
    )
    cache = os.path.join(environment.get("XDG_CACHE_HOME") or os.path.join(user_home, ".cache"), "holdfast")
    if owner := environment.get(SYSTEM_USER):
        user_home = _home_of(owner)
        config, data, cache = (os.path.join(place, owner) for place in SYSTEM_PLACES)
    values = {setting.name: setting.default for setting in SETTINGS}
    file = _from_file(os.path.join(config, "config.toml"))
    destinations = cast("tuple[DestinationSetting, ...]", file.pop("destination", ()))
    said = {**file, **_from_environment(environment)}
    return Settings(
        {**values, **said},
        user_home,
        config,
        data,
        cache,
        environment,
        given=frozenset(said),
        destinations=destinations,
    )


def with_hermes(settings: Settings, home: str) -> Settings:
    """The same, with the caps and retention of a Hermes home's `config.yaml` where ours are silent.

    What is not there or makes no sense is passed over: it is Hermes's file and not ours to refuse.
    """
    from holdfast.home.yaml_nodes import compose, text_at

    try:
        with open(os.path.join(home, "config.yaml"), encoding="utf-8") as file:
            document = compose(file.read())
    except (OSError, ValueError):
        return settings
    found: dict[str, object] = {}
    for key in HERMES_CHECKPOINT_KEYS:
        name = f"checkpoints.{key}"
        raw = text_at(document, name)
        if raw is None or name in settings.given:
            continue
        value = _parsed(_BY_NAME[name], raw.replace("_", ""))
        if not _is_kind(_BY_NAME[name], value) or (isinstance(value, int | float) and value < 0):
            continue
        # Hermes keeps at least one; for us 0 would mean all.
        found[name] = 1 if name == "checkpoints.max_snapshots" and value == 0 else value
    return replace(settings, values={**settings.values, **found})


def checkpoint_policy(settings: Settings, home: str = "") -> CheckpointPolicy:
    """What holds for checkpoints; `home` is a Hermes home whose section is honoured where ours is silent."""
    from holdfast.actions.checkpoint import CheckpointPolicy
    from holdfast.checkpoints.maintenance import MaintenanceSettings
    from holdfast.checkpoints.retention import Limits
    from holdfast.checkpoints.take import TakeSettings

    if home:
        settings = with_hermes(settings, home)
    return CheckpointPolicy(
        take=TakeSettings(
            max_file_size=int(settings.number("checkpoints.max_file_size_mb") * (1 << 20)),
            max_files=settings.whole("checkpoints.max_files"),
            exclusions=settings.texts("checkpoints.exclude"),
        ),
        maintenance=MaintenanceSettings(
            limits=Limits(
                max_snapshots=settings.whole("checkpoints.max_snapshots"),
                max_total_bytes=settings.whole("checkpoints.max_total_size_mb") * 1_000_000,
                retention_days=settings.number("checkpoints.retention_days"),
            ),
            auto_prune=settings.flag("checkpoints.auto_prune"),
            min_interval_seconds=settings.number("checkpoints.min_interval_hours") * 3600,
        ),
        delete_orphans=settings.flag("checkpoints.delete_orphans"),
    )


#: The keys of Hermes's section `checkpoints` that we take. Its `enabled` governs its own store only.
HERMES_CHECKPOINT_KEYS = (
    "max_snapshots",
    "max_total_size_mb",
    "max_file_size_mb",
    "auto_prune",
    "retention_days",
    "delete_orphans",
    "min_interval_hours",
)


def _from_file(path: str) -> dict[str, object]:
    if not os.path.exists(path):
        return {}
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise _bad(f"`{path}` cannot be read: {error}", f"Mend `{path}`, or move it away") from error
    found: dict[str, object] = {}
    if "destination" in document:
        found["destination"] = _destinations(document.pop("destination"), path)
    for key, value in document.items():
        pairs = (
            {f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {key: value}
        )
        for name, inner_value in pairs.items():
            found[name] = _checked(name, inner_value, f"`{path}`")
    return found


def _destinations(tables: object, path: str) -> tuple[DestinationSetting, ...]:
    """Every `[[destination]]`; what is wrong is an error that names the table."""
    from holdfast.actions.destination import parse_destination

    step = "See the table of destinations in `docs/reference/settings.md`"
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise _bad(f"`{path}`: `destination` is not a list of tables", "Write it as `[[destination]]`")
    found: dict[str, DestinationSetting] = {}
    for number, table in enumerate(tables, 1):
        name = table.get("name")
        which = f"the destination `{name}`" if isinstance(name, str) and name else f"destination {number}"
        try:
            one = parse_destination(table)
        except ValueError as error:
            raise _bad(f"`{path}`: {which}: {error}", step) from error
        if one.name in found:
            raise _bad(f"`{path}`: two destinations are called `{one.name}`", "Give each a name of its own")
        found[one.name] = one
    return tuple(found.values())


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for setting in SETTINGS:
        raw = environment.get(setting.variable)
        if raw is None or raw == "":
            continue
        value = _parsed(setting, raw)
        found[setting.name] = _checked(setting.name, value, f"the variable {setting.variable}")
    return found


def _parsed(setting: Setting, raw: str) -> object:
    """A text as the setting's kind; the text itself where it cannot be that."""
    if setting.kind is list:
        between = "," if setting.name == "backup.seal" else os.pathsep  # `gpg:KEY` has a colon
        return [part.strip() for part in raw.split(between) if part.strip()]
    if setting.kind is bool:
        return _FLAGS.get(raw.strip().lower(), raw)
    if setting.kind in (int, float):
        try:
            return setting.kind(raw)
        except ValueError:
            return raw
    return raw


_FLAGS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def _is_kind(setting: Setting, value: object) -> bool:
    if setting.kind is bool or isinstance(value, bool):
        return setting.kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if setting.kind is float else setting.kind)


def _checked(name: str, value: object, where: str) -> object:
    setting = _BY_NAME.get(name)
    if setting is None:
        raise _bad(f"{where} sets `{name}`, which does not exist", "See `docs/reference/settings.md`")
    if not _is_kind(setting, value):
        shown = "something" if name in SECRET else repr(value)
        raise _bad(
            f"{where} sets `{name}` to {shown}, which is not {_ARTICLE[setting.kind]}",
            f"The default is {setting.default!r}: {setting.meaning}",
        )
    if isinstance(value, int | float) and value < 0:
        raise _bad(f"{where} sets `{name}` to {value!r}, which is below zero", setting.meaning)
    if name == "backup.format" and value not in ("zip", "tar.zst"):
        raise _bad(f"{where} sets `{name}` to {value!r}", "Use `zip` or `tar.zst`")
    if name == "databases" and value not in ("lean", "full"):
        raise _bad(f"{where} sets `{name}` to {value!r}", "Use `lean` or `full`")
    if name == "updates.pre_update_backup" and value not in ("", "quick", "full", "off"):
        raise _bad(f"{where} sets `{name}` to {value!r}", "Use `quick`, `full` or `off`")
    if name.startswith(("schedule.", "notify.")):
        _check_schedule(name, value, where)
    return value


#: Settings that are never shown: who knows such a URL can write to it.
SECRET = frozenset({"notify.ping", "notify.ntfy", "notify.webhook"})
_CHOICES = {"schedule.battery": ("run", "light", "wait"), "schedule.metered": ("run", "wait")}


def _check_schedule(name: str, value: object, where: str) -> None:
    if name in _CHOICES and value not in _CHOICES[name]:
        raise _bad(f"{where} sets `{name}` to {value!r}", f"Use one of: {', '.join(_CHOICES[name])}")
    if name in SECRET and value and not str(value).startswith(("http://", "https://")):
        raise _bad(f"{where} sets `{name}` to something that is no URL", "It starts with `https://`")
    if name == "notify.events" and isinstance(value, list):
        from holdfast.actions.notify import EVENTS

        if strange := [str(item) for item in value if item not in EVENTS]:
            raise _bad(f"{where} sets `{name}` to {', '.join(strange)}", f"Use some of: {', '.join(EVENTS)}")
    if name == "schedule.at":
        from holdfast.schedule.cadence import Cadence

        try:
            Cadence.parse(str(value))
        except ValueError as error:
            raise _bad(
                f"{where} sets `{name}` to {value!r}, which is {error}",
                "Write it as `03:30`, as `03:30, 15:30` or as `hourly`",
            ) from error


_ARTICLE = {str: "a text", int: "a whole number", float: "a number", list: "a list", bool: "true or false"}


def _bad(what: str, step: str) -> BadSetting:
    return BadSetting(what, kept="Nothing was read or changed", next_steps=(step,))
