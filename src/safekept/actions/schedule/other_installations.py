"""This user's other installations, which a crontab, systemd or launchd still calls.

Each has a HOME, or settings, of its own. The program that they call must not be deleted when this one is
taken away.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from safekept.core.files.small import read_regular
from safekept.core.records import dataclass
from safekept.schedule.hosts import cron
from safekept.schedule.hosts.stores import Stores, data_meant_by

from .host import Machine, has_user_manager
from .host_commands import HostRefused, read_table
from .whose import environment_in, written_for

_USUAL = "/.local/share/safekept"


@dataclass(frozen=True, slots=True)
class OtherInstallation:
    """What calls it, and where it keeps its data."""

    host: str
    data: str

    @property
    def home(self) -> str:
        """The HOME that it was set up in; "" where its data lie elsewhere."""
        return self.data.removesuffix(_USUAL) if self.data.endswith(_USUAL) else ""

    def as_dict(self) -> dict[str, object]:
        return {"host": self.host, "home": self.home or None, "data": self.data}


def other_installations(machine: Machine, stores: Stores) -> tuple[OtherInstallation, ...]:
    """Each once. What cannot be asked names none."""
    asked = (_in_crontab, _of_systemd, _of_launchd)
    return tuple(dict.fromkeys(one for ask in asked for one in ask(machine, stores)))


def _in_crontab(machine: Machine, stores: Stores) -> Iterator[OtherInstallation]:
    if not machine.has("crontab"):
        return
    try:
        table = read_table(machine.run)
    except HostRefused:
        return
    for data in cron.others(table, stores):
        yield OtherInstallation("cron", data)


def _of_systemd(machine: Machine, stores: Stores) -> Iterator[OtherInstallation]:
    if not has_user_manager(machine):
        return
    ask = ("systemctl", "--user")
    code, text = machine.run((*ask, "list-unit-files", "--no-legend", "safekept*.timer"))
    for timer in re.findall(r"^(safekept\S*)\.timer\s", text, re.M) if code == 0 else ():
        _, shown = machine.run((*ask, "show", "--property=FragmentPath", f"{timer}.service"))
        yield from _by_file("systemd", shown.strip().removeprefix("FragmentPath="), stores)


def _of_launchd(machine: Machine, stores: Stores) -> Iterator[OtherInstallation]:
    if machine.platform != "darwin":
        return
    code, text = machine.run(("launchctl", "list"))
    for label in re.findall(r"\s(dev\.safekept\.schedule\S*)$", text, re.M) if code == 0 else ():
        _, shown = machine.run(("launchctl", "print", f"gui/{os.getuid()}/{label}"))
        path = re.search(r"^\s*path = (/.*)$", shown, re.M)
        yield from _by_file("launchd", path[1] if path else "", stores)


def _by_file(host: str, path: str, stores: Stores) -> Iterator[OtherInstallation]:
    try:
        content = read_regular(path)
    except OSError:
        return
    if not written_for(stores, content):
        yield OtherInstallation(host, data_meant_by(environment_in(content), stores.user_home))
