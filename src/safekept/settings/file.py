"""The settings file, changed by a command: one value or one destination, and every other byte stays.

Comments and order are the user's own. A change is checked as the reader checks it before anything is
written, and the file is replaced whole; one that cannot be read is never written over.
"""

from __future__ import annotations

import contextlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write, private_directory
from safekept.core.files.small import read_regular
from safekept.core.locks import process_lock
from safekept.core.next_step import NextStep

from .table import BY_NAME, bad, checked, parsed

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from safekept.actions.offsite.destination import DestinationSetting


class SettingsFileNotWritten(SafekeptError):
    code = "settings-file-not-written"


class NoSuchDestinationSet(SafekeptError):
    code, exit_code = "no-such-destination-set", 2


def settings_path(config_directory: str) -> str:
    return os.path.join(config_directory, "config.toml")


def value_from(name: str, raw: str) -> object:
    """What a person typed, as the setting's kind; an error that says what it should be."""
    setting = BY_NAME.get(name)
    value = checked(name, parsed(setting, raw) if setting else raw, "The command")
    if name == "notify.email" and isinstance(value, list):
        for one in value:
            _check_address(str(one))
    return value


#: One @, something before it, and names with single dots behind it.
_ADDRESS = re.compile(r"[^\s@,;:<>()\"]+@[^\s@,;:<>()\".]+(\.[^\s@,;:<>()\".]+)*")


def _check_address(address: str) -> None:
    """Only what is typed is checked: a file may name an alias that its mail program alone knows."""
    import pwd

    if _ADDRESS.fullmatch(address):
        return
    try:
        pwd.getpwnam(address)  # a user of this machine gets mail by that name
    except (KeyError, ValueError):
        raise bad(
            f"`{address}` is no mail address",
            "Write it as `me@example.org`, with a colon between two; or name a user of this machine",
        ) from None


def set_value(config_directory: str, name: str, value: object) -> None:
    """Write one setting into the file."""
    with _changing(config_directory) as document:
        section, _, key = name.rpartition(".")
        table = document.setdefault(section, {}) if section else document
        table[key] = value


def unset_value(config_directory: str, name: str) -> bool:
    """Take one setting out of the file, so that its default holds; whether it was there."""
    checked(name, BY_NAME[name].default if name in BY_NAME else None, "The command")
    with _changing(config_directory) as document:
        section, _, key = name.rpartition(".")
        table = document.get(section) if section else document
        if table is None or key not in table:
            return False
        del table[key]
        if section and not table:
            del document[section]
    return True


def add_destination(config_directory: str, fields: Mapping[str, object]) -> DestinationSetting:
    """One more `[[destination]]`; refused where one of that name is there, or a key is wrong."""
    import tomlkit

    from safekept.actions.offsite.destination import parse_destination

    try:
        made = parse_destination(fields)
    except ValueError as error:
        raise bad(f"The destination is not as it must be: {error}", "Correct it and run it again") from error
    with _changing(config_directory) as document:
        tables = document.get("destination")
        if tables is None:
            tables = tomlkit.aot()
            if document:
                document.add(tomlkit.nl())
            document["destination"] = tables
        if any(table.get("name") == made.name for table in tables):
            raise bad(
                f"There is a destination called `{made.name}` already",
                "Give the new one another name, or remove the old one first",
            )
        table = tomlkit.table()
        for key, value in fields.items():
            table[key] = value
        tables.append(table)
    return made


def remove_destination(config_directory: str, name: str) -> None:
    """Take one `[[destination]]` out of the file; what lies there is not touched."""
    with _changing(config_directory) as document:
        tables = document.get("destination") or []
        at = next((index for index, table in enumerate(tables) if table.get("name") == name), None)
        if at is None:
            raise NoSuchDestinationSet(
                f"There is no destination called `{name}` in `{settings_path(config_directory)}`",
                kept="Nothing was changed",
                next_steps=(NextStep("destinations list", before="See which there are:"),),
            )
        del tables[at]
        if not tables:
            del document["destination"]


@contextlib.contextmanager
def _changing(config_directory: str) -> Iterator[TOMLDocument]:
    """The file as it can be changed; written at the end, if it is one that the reader takes."""
    import tomlkit

    from .loading import read_settings_file

    path = settings_path(config_directory)
    with process_lock(f"{path}.lock", "changing the settings", wait=10.0, remove=True):
        try:
            before = read_regular(path).decode("utf-8")
        except FileNotFoundError:
            before = ""
        except (OSError, UnicodeDecodeError) as error:
            raise bad(f"`{path}` cannot be read: {error}", f"Mend `{path}`, or move it away") from error
        try:
            document = tomlkit.parse(before)
            yield document
            after = tomlkit.dumps(document)
            tomllib.loads(after)
        except (tomlkit.exceptions.TOMLKitError, tomllib.TOMLDecodeError) as error:
            raise bad(f"`{path}` cannot be read: {error}", f"Mend `{path}`, or move it away") from error
        if after == before:
            return
        read_settings_file(after, path)
        try:
            private_directory(config_directory)
            # Many keep it in a repository of their own, behind a link.
            durable_write(os.path.realpath(path), after.encode("utf-8"))
        except OSError as error:
            raise SettingsFileNotWritten(
                f"`{path}` could not be written: {error.strerror or error}",
                kept="The file is as it was",
                next_steps=("See that the disk has room and that the file is yours, then run it again",),
                path=path,
            ) from error
