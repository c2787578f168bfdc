"""Profile commands: `~/.local/bin/NAME` starts the agent with that profile.

They are not part of a home, so an import makes them anew. A wrapper is only ever created, never
overwritten, and a name that would hide another command is left alone and said.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from dataclasses import dataclass

from holdfast.actions.surroundings import Place, Surroundings

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RESERVED = frozenset({"hermes", "default", "test", "tmp", "root", "sudo"})


@dataclass(frozen=True, slots=True)
class Wrapper:
    """One profile command: made, already there, or not made and why."""

    profile: str
    path: str
    state: str  # "made", "present" or "skipped"
    note: str = ""

    def as_dict(self) -> dict[str, str]:
        return {"profile": self.profile, "path": self.path, "state": self.state, "note": self.note}


def make_wrappers(place: Place, surroundings: Surroundings) -> list[Wrapper]:
    """Make the missing ones for every profile of this home that has settings of its own."""
    agent = place.layout.profile_command
    profiles = os.path.join(place.home, place.layout.profiles) if place.layout.profiles else ""
    if not agent or not os.path.isdir(profiles):
        return []
    search = surroundings.environment.get("PATH", "")
    directory = os.path.join(surroundings.user_home, ".local", "bin")
    default_root = os.path.join(surroundings.user_home, place.layout.default.removeprefix("~/"))
    custom_root = os.path.realpath(place.home) != os.path.realpath(default_root)
    wrappers = []
    for name in sorted(os.listdir(profiles)):
        root = os.path.join(profiles, name)
        if not any(os.path.isfile(os.path.join(root, proof)) for proof in ("config.yaml", ".env")):
            continue
        path = os.path.join(directory, name)
        problem = _problem(name, path, search)
        if os.path.lexists(path):
            ours = _starts_profile(path, name)
            wrappers.append(
                Wrapper(
                    name, path, "present" if ours else "skipped", "" if ours else "another file has that name"
                )
            )
        elif problem:
            wrappers.append(Wrapper(name, path, "skipped", problem))
        else:
            program = shutil.which(agent, path=search) or agent
            _write(path, name, program, place if custom_root else None)
            on_path = directory in search.split(os.pathsep)
            wrappers.append(
                Wrapper(name, path, "made", "" if on_path else f"{directory} is not on your PATH")
            )
    return wrappers


def _problem(name: str, path: str, search: str) -> str:
    if not _NAME.fullmatch(name):
        return "not a valid profile name"
    if name in _RESERVED:
        return "the name is reserved"
    elsewhere = shutil.which(name, path=search)
    if elsewhere and elsewhere != path:
        return f"`{name}` is already a command: {elsewhere}"
    return ""


def _starts_profile(path: str, name: str) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        return f"-p {name}" in file.read(4096)
    return False


def _write(path: str, name: str, program: str, place: Place | None) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # A wrapper without the root would look for the profile in the default home and not find it.
    root = f"export {place.layout.variable}={shlex.quote(place.home)}\n" if place else ""
    text = f'#!/bin/sh\n{root}exec {shlex.quote(program)} -p {name} "$@"\n'
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
