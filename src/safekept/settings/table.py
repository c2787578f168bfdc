"""Every setting there is, a row each; the documentation test reads them, so none goes unwritten."""

from __future__ import annotations

import os

from safekept.core.errors import SafekeptError
from safekept.core.next_step import Step
from safekept.core.records import dataclass
from safekept.core.spelling import FLAGS


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing a user can set; `section.name` in the file, SAFEKEPT_SECTION_NAME outside."""

    name: str
    kind: type
    default: object
    meaning: str

    @property
    def variable(self) -> str:
        return "SAFEKEPT_" + self.name.replace(".", "_").upper()


SETTINGS = (
    Setting("layout", str, "hermes", "which agent's home is meant when nothing else says so"),
    Setting("home", str, "", "the home to work on; empty means the agent's own variable or default place"),
    Setting("layouts", list, [], "directories with layout files of your own"),
    Setting(
        "databases",
        str,
        "lean",
        "how snapshots hold databases: `lean`, without search indexes that a restore rebuilds, or `full`",
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
        "a command that prints the passphrase of sealed archives, for when there is no one to ask",
    ),
    Setting(
        "escrow",
        list,
        [],
        "age and SSH keys; the kit, sealed to them, goes beside every copy of the vault",
    ),
    Setting("vault.path", str, "", "where the vault is; empty means `safekept/vault` in your data directory"),
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
        "seat_belt",
        bool,
        True,
        "whether the stores are closed between commands, so that `rm -rf` cannot empty them",
    ),
    Setting(
        "keeper.socket",
        str,
        "/run/safekept-keeper/socket",
        "where the keeper of this machine listens; empty: nothing is sent to it",
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
        "files above so many megabytes go into the hidden half; 0: no limit",
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
    Setting(
        "checkpoints.hidden_budget",
        float,
        2.0,
        "gigabytes of ignored files, secrets and large files kept of one project, half of it for one file; "
        "0 keeps none",
    ),
    Setting("checkpoints.hidden_files", int, 50_000, "how many such files are kept of one project"),
    Setting(
        "checkpoints.hidden_total", float, 10.0, "gigabytes that those of all projects may take; 0: no limit"
    ),
    Setting(
        "checkpoints.remakeable",
        list,
        [],
        "directories that can be made again, beside the known ones: `NAME beside FILE` or `with FILE`",
    ),
    Setting(
        "integrations.session_snapshot_hours",
        float,
        4.0,
        "hours after which the end of an agent's session is worth a quick snapshot of its home; 0: never",
    ),
    Setting(
        "hooks.prompts",
        bool,
        True,
        "whether the first line of what you say is kept, in a private file, as the name of the turn in lists",
    ),
    Setting("schedule.at", str, "03:30", "when regular work is due: times of the day, or `hourly`"),
    Setting("schedule.homes", list, [], "the homes to look after; empty means every agent's home here"),
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
    Setting("notify.events", list, [], "which events you are told of; empty means everything that is wrong"),
    Setting("notify.deadline", float, 5.0, "seconds that notifying may take, all targets together"),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}


# Whether a value makes sense for its setting; what does not is an error that says where it stands.


class BadSetting(SafekeptError):
    code, exit_code = "bad-setting", 2


def parsed(setting: Setting, raw: str) -> object:
    """A text as the setting's kind; the text itself where it cannot be that."""
    if setting.kind is list:
        between = "," if setting.name == "backup.seal" else os.pathsep  # `gpg:KEY` has a colon
        return [part.strip() for part in raw.split(between) if part.strip()]
    if setting.kind is bool:
        return FLAGS.get(raw.strip().lower(), raw)
    if setting.kind in (int, float):
        try:
            return setting.kind(raw)
        except ValueError:
            return raw
    return raw


def is_kind(setting: Setting, value: object) -> bool:
    if setting.kind is bool or isinstance(value, bool):
        return setting.kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if setting.kind is float else setting.kind)


def checked(name: str, value: object, where: str) -> object:
    setting = BY_NAME.get(name)
    if setting is None:
        from difflib import get_close_matches

        near = get_close_matches(name, BY_NAME, 1)
        step = f"Did you mean `{near[0]}`?" if near else f"Take `{name}` out of there; nothing reads it"
        raise bad(f"{where} sets `{name}`, which does not exist", step)
    if not is_kind(setting, value):
        shown = "something" if name in SECRET else repr(value)
        raise bad(
            f"{where} sets `{name}` to {shown}, which is not {_ARTICLE[setting.kind]}",
            f"The default is {setting.default!r}: {setting.meaning}",
        )
    if isinstance(value, int | float) and value < 0:
        raise bad(f"{where} sets `{name}` to {value!r}, which is below zero", setting.meaning)
    if name == "backup.format":
        from safekept.core.archive_names import FORMATS

        if value not in FORMATS:
            raise bad(f"{where} sets `{name}` to {value!r}", "Use `zip` or `tar.zst`")
    if name == "databases" and value not in ("lean", "full"):
        raise bad(f"{where} sets `{name}` to {value!r}", "Use `lean` or `full`")
    if name == "updates.pre_update_backup" and value not in ("", "quick", "full", "off"):
        raise bad(f"{where} sets `{name}` to {value!r}", "Use `quick`, `full` or `off`")
    if name.startswith(("schedule.", "notify.")):
        _check_schedule(name, value, where)
    return value


#: Settings that are never shown: who knows such a URL can write to it.
SECRET = frozenset({"notify.ping", "notify.ntfy", "notify.webhook"})
_CHOICES = {"schedule.battery": ("run", "light", "wait"), "schedule.metered": ("run", "wait")}


def _check_schedule(name: str, value: object, where: str) -> None:
    if name in _CHOICES and value not in _CHOICES[name]:
        raise bad(f"{where} sets `{name}` to {value!r}", f"Use one of: {', '.join(_CHOICES[name])}")
    if name in SECRET and value and not str(value).startswith(("http://", "https://")):
        raise bad(f"{where} sets `{name}` to something that is no URL", "It starts with `https://`")
    if name == "notify.events" and isinstance(value, list):
        from safekept.actions.alarms.notify import EVENTS

        if strange := [str(item) for item in value if item not in EVENTS]:
            raise bad(f"{where} sets `{name}` to {', '.join(strange)}", f"Use some of: {', '.join(EVENTS)}")
    if name == "schedule.at":
        from safekept.schedule.tasks import Cadence

        try:
            Cadence.parse(str(value))
        except ValueError as error:
            raise bad(
                f"{where} sets `{name}` to {value!r}, which is {error}",
                "Write it as `03:30`, as `03:30, 15:30` or as `hourly`",
            ) from error


_ARTICLE = {str: "a text", int: "a whole number", float: "a number", list: "a list", bool: "true or false"}


def bad(what: str, step: Step) -> BadSetting:
    return BadSetting(what, kept="Nothing changed", next_steps=(step,))
