"""Whose schedule something is that was installed: only what works for the stores of this user's HOME is ours.

Earlier versions wrote no word of it into their records and units. Those are ours where the variables in them
lead to our stores, and where the host itself says that it runs that file.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Mapping, Sequence

from safekept.core.files.small import read_regular
from safekept.schedule.hosts.stores import Stores

from ..base.context import UserContext
from .host_commands import Runner


def stores_of(context: UserContext) -> Stores:
    """The stores of the user who calls."""
    places = context.places
    settings = os.path.dirname(places.settings_file) or os.path.join(places.user_home, ".config", "safekept")
    return Stores(places.data_directory, settings, registered_home())


def registered_home() -> str:
    """The home directory of the user who runs this, as the machine knows it; that is what a timer gets."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # in a container a number may have no name
        return ""


def written_for(stores: Stores, content: bytes) -> bool:
    """Whether a unit or a property list calls us with the places of these stores."""
    return stores.meant_by(environment_in(content))


def files_of_others(stores: Stores, paths: Iterable[str]) -> list[str]:
    """Of these units and property lists, those that are there and work for other stores."""
    found = []
    for path in paths:
        try:
            content = read_regular(path)
        except OSError:
            continue  # one that is gone says nothing; that it is gone is said elsewhere
        if not path.endswith(".timer") and not written_for(stores, content):
            found.append(path)
    return found


def environment_in(content: bytes) -> Mapping[str, str]:
    """The variables that a unit or a property list gives to its call."""
    text = content.decode("utf-8", "surrogateescape")
    if "<plist" in text:
        import plistlib

        try:
            found = plistlib.loads(content).get("EnvironmentVariables", {})
        except (plistlib.InvalidFileException, ValueError, AttributeError):
            return {}
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
    quoted = re.findall(r'^Environment="(.*)"$', text, re.M)
    plain = [re.sub(r"\\(.)", r"\1", one).replace("%%", "%") for one in quoted]
    return dict(one.split("=", 1) for one in plain if "=" in one)


def another_runs(words: Sequence[str], files: Iterable[str], run: Runner) -> str:
    """The file that the host runs under the name that this command stops, where it is none of these.

    "": it is one of them, or nothing runs under that name.
    """
    if words[0] == "systemctl":
        manager = words[: words.index("--user") + 1] if "--user" in words else words[:1]
        code, text = run((*manager, "show", "--property=FragmentPath", words[-1]), "")
        shown = text.strip().removeprefix("FragmentPath=")
    else:
        code, text = run(("launchctl", "print", words[-1]), "")
        listed = re.search(r"^\s*path = (/.*)$", text, re.M)
        shown = listed[1] if listed else ""
    known = code == 0 and os.path.isabs(shown)
    return shown if known and os.path.realpath(shown) not in map(os.path.realpath, files) else ""
