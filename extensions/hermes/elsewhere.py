"""Projects that a command or a piece of code names although it does not work in them.

`cd ../other && rm -rf src` changes another project than the one around it. What is named in the text and
lies in a project is given to the pass before, too. This is a help and no promise: a path that a program
makes up as it runs is not seen.
"""

from __future__ import annotations

import os
import re

_PATH = re.compile(r"(?<![\w.~/-])(?:~|\.\.)?/[^\s'\"`;|&<>()$*?\[\]{},:\\]+|(?<![\w.~/-])\.\.(?![\w.])")
#: The same as safekept's own, which cannot be imported here.
MARKERS = (
    ".git pyproject.toml setup.py package.json Cargo.toml go.mod Makefile CMakeLists.txt pom.xml "
    "build.gradle build.gradle.kts .hg .svn Gemfile composer.json mix.exs deno.json Package.swift "
    "pubspec.yaml flake.nix requirements.txt"
).split()
_OF_THE_SYSTEM = tuple(f"/{name}/" for name in "usr bin sbin lib lib64 dev proc sys run nix snap".split())
_MOST = 10
#: Names that are looked at: each costs a look at every directory above it, and a tool waits.
_LOOKED = 200
_LONGEST = 100_000


def named_projects(command: str, directory: str) -> list[str]:
    """What a text names in other projects than the one around `directory`: files, and directories."""
    found: dict[str, None] = {}
    here = project_of(directory)
    names = dict.fromkeys(match[0] for match in _PATH.finditer(command[:_LONGEST]))
    for name in list(names)[:_LOOKED]:
        path = os.path.normpath(os.path.join(directory, os.path.expanduser(name)))
        if of_the_system(path):
            continue
        project = project_of(path)
        if project and project != here:
            found[path if os.path.lexists(path) else project] = None
        if len(found) >= _MOST:
            break
    return list(found)


def of_the_system(path: str) -> bool:
    """Whether a path is the machine's own; `/dev/shm` is scratch for every user."""
    return f"{path}/".startswith(_OF_THE_SYSTEM) and not path.startswith("/dev/shm/")  # noqa: S108


def project_of(path: str) -> str:
    """The nearest directory at or above a path that is marked as a project; empty where none is."""
    user = os.path.expanduser("~")
    while path not in ("/", "", user):
        if any(os.path.lexists(os.path.join(path, marker)) for marker in MARKERS):
            return path
        path = os.path.dirname(path)
    return ""
