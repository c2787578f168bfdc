"""Whether a value makes sense for its setting; what does not is an error that says where it stands."""

from __future__ import annotations

import os

from safekept.core.errors import SafekeptError
from safekept.core.next_step import Step
from safekept.core.spelling import FLAGS

from .table import BY_NAME, Setting


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
        raise bad(f"{where} sets `{name}`, which does not exist", "See `docs/reference/settings.md`")
    if not is_kind(setting, value):
        shown = "something" if name in SECRET else repr(value)
        raise bad(
            f"{where} sets `{name}` to {shown}, which is not {_ARTICLE[setting.kind]}",
            f"The default is {setting.default!r}: {setting.meaning}",
        )
    if isinstance(value, int | float) and value < 0:
        raise bad(f"{where} sets `{name}` to {value!r}, which is below zero", setting.meaning)
    if name == "backup.format" and value not in ("zip", "tar.zst"):
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
        from safekept.schedule.cadence import Cadence

        try:
            Cadence.parse(str(value))
        except ValueError as error:
            raise bad(
                f"{where} sets `{name}` to {value!r}, which is {error}",
                "Write it as `03:30`, as `03:30, 15:30` or as `hourly`",
            ) from error


_ARTICLE = {str: "a text", int: "a whole number", float: "a number", list: "a list", bool: "true or false"}


def bad(what: str, step: Step) -> BadSetting:
    return BadSetting(what, kept="Nothing was read or changed", next_steps=(step,))
