"""`safekept settings [KEY [VALUE]]`: see, explain and change what the user set."""

from __future__ import annotations

from dataclasses import replace

import click

from safekept.core.next_step import NextStep
from safekept.settings import SECRET, SETTINGS, BadSetting, Setting, Settings

from ...console import Console, path_text
from ...options import start
from ...words.lists import table

_STILL = "This machine still wakes it at the times before. Tell it:"


@click.command("settings")
@click.argument("key", metavar="[KEY]", default="")
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("--unset", is_flag=True, help="Take KEY out of the file, so that its default holds.")
@click.option("--all", "every", is_flag=True, help="Also those that are at their default.")
@click.option("--dry-run", is_flag=True, help="Check the value; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(key: str, value: str | None, unset: bool, every: bool, dry_run: bool, as_json: bool) -> int:
    """See what you set; with KEY, what it means and where its value comes from; with VALUE, set it.

    A value is checked before it is written, and every other line of `config.toml`, comments included, stays
    as it is. In a list, a colon stands between two values. A variable SAFEKEPT_KEY wins over the file.
    """
    from safekept.settings.file import set_value, settings_path, unset_value, value_from

    settings, _, console = start(as_json)
    path = settings_path(settings.config_directory)
    if not key:
        return _list(console, settings, path, every)
    setting = _known(key)
    if value is not None and unset:
        raise click.UsageError("Give a VALUE or --unset, not both.")
    if value is None and not unset:
        return _explain(console, settings, setting, path)
    if unset:
        changed = dry_run or unset_value(settings.config_directory, key)
        new: object = setting.default
    else:
        assert value is not None
        new = value_from(key, value)
        changed = True
        if not dry_run:
            set_value(settings.config_directory, key, new)
    shown = _shown(setting, new)
    missing = _missing_mailer(settings, setting, new)
    console.document(
        {
            "key": key,
            "value": shown,
            "changed": changed and not dry_run,
            "settings": path,
            "missing": missing,  # a program that this setting needs
        }
    )
    start_text = "Dry run. Would set" if dry_run else "Set"
    if unset and not changed:
        console.line(f"{key} was not in {path_text(path)}")
    else:
        console.heading(f"{start_text} {key} to {_text(shown)}{' (the default)' if unset else ''}")
    if setting.variable in settings.environment:
        console.line(f"Note: the variable {setting.variable} is set too, and wins")
    if key == "schedule.at" and not dry_run and _host_waits():
        console.line(NextStep("schedule install", before=_STILL))
    if missing:
        from safekept.actions.alarms.notify import INSTALL_MAILER

        console.line(f"No mail goes out yet: there is no program {path_text(missing)}")
        console.next((INSTALL_MAILER, NextStep("notify test", before="Then see that it arrives:")))
    return 0


def _host_waits() -> bool:
    """Whether a schedule is installed for other times than those that are set by now."""
    from safekept.actions.schedule.host_start import other_times
    from safekept.actions.schedule.install import installed

    _, context, _ = start(True)
    return bool(other_times(context, installed(context)))


def _missing_mailer(settings: Settings, setting: Setting, new: object) -> str:
    """The program that mail needs and this machine lacks, with the new value in force."""
    if setting.name not in ("notify.email", "notify.sendmail"):
        return ""
    from safekept.settings.policies import notify_targets

    if setting.variable not in settings.environment:
        settings = replace(settings, values={**settings.values, setting.name: new})
    targets = notify_targets(settings)
    return targets.missing_mailer if targets is not None else ""


def _known(key: str) -> Setting:
    from difflib import get_close_matches

    found = {setting.name: setting for setting in SETTINGS}
    if key in found:
        return found[key]
    near = get_close_matches(key, found, 1)
    raise BadSetting(
        f"There is no setting called `{key}`",
        kept="Nothing was changed",
        next_steps=(
            *(NextStep("settings", (name,), before="Did you mean") for name in near),
            NextStep("settings", ("--all",), before="See all of them:"),
        ),
    )


def _list(console: Console, settings: Settings, path: str, every: bool) -> int:
    chosen = [one for one in SETTINGS if every or one.name in settings.given]
    console.document(
        {
            "file": path,
            "settings": [_document(settings, one) for one in chosen],
            "destinations": [one.as_dict() for one in settings.destinations],
        }
    )
    console.heading(f"Settings in {path_text(path)}")
    rows = [("SETTING", "VALUE", "FROM")]
    rows += [
        (one.name, _text(_shown(one, settings.values[one.name])), _where(settings, one)) for one in chosen
    ]
    if chosen:
        table(console, rows)
    else:
        console.line("Nothing is set; every setting is at its default (--all shows them)")
    copies = [f"{path_text(place.name)}, {path_text(place.url)}" for place in settings.destinations]
    console.facts("Copies to", copies)
    return 0


def _explain(console: Console, settings: Settings, setting: Setting, path: str) -> int:
    value = settings.values[setting.name]
    console.document(_document(settings, setting))
    console.heading(f"{setting.name} = {_text(_shown(setting, value))}")
    console.fact("Means", setting.meaning)
    console.fact("Default", _text(_shown(setting, setting.default)))
    console.fact("From", _source(settings, setting, path))
    console.line(f"Change it: `{console.command('settings', setting.name, 'VALUE')}`")
    return 0


def _document(settings: Settings, setting: Setting) -> dict[str, object]:
    return {
        "key": setting.name,
        "value": _shown(setting, settings.values[setting.name]),
        "default": setting.default,
        "set": setting.name in settings.given,
        "variable": setting.variable,
        "meaning": setting.meaning,
    }


def _source(settings: Settings, setting: Setting, path: str) -> str:
    if setting.variable in settings.environment:
        return f"the variable {setting.variable}"
    return path_text(path) if setting.name in settings.given else "the default"


def _where(settings: Settings, setting: Setting) -> str:
    if setting.variable in settings.environment:
        return setting.variable
    return "" if setting.name in settings.given else "default"


def _shown(setting: Setting, value: object) -> object:
    """Who knows one of these URLs can write to it: that it is set is all that is reported."""
    return "…" if setting.name in SECRET and value else value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "(none)"
    return str(value) if value != "" else "(empty)"
