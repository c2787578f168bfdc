"""Which project a path belongs to.

A project is the nearest directory above a file that holds a marker. Directories that hold everything
(the root, a home, a shared temporary directory, an agent's home) are never one, marker or not: whoever
puts a `package.json` into `/tmp` does not make a project of it. All of it is judged on resolved paths,
so a link cannot lead around the rule.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass

MARKERS = (
    ".git pyproject.toml setup.py package.json Cargo.toml go.mod Makefile CMakeLists.txt pom.xml "
    "build.gradle build.gradle.kts .hg .svn Gemfile composer.json mix.exs deno.json Package.swift "
    "pubspec.yaml flake.nix requirements.txt"
).split()
#: Never a project, on any machine.
SHARED = (
    "/ /tmp /var/tmp /dev/shm /home /root /usr /etc /var /opt /srv /mnt /media /run /Users /private/tmp "
    "/private/var/tmp"
).split()


@dataclass(frozen=True, slots=True)
class Root:
    """A project's directory, and what was found in it. Without a marker only named files are taken."""

    path: str  # resolved
    marker: str  # "" where there is none

    @property
    def walked(self) -> bool:
        return bool(self.marker)


def project_id(path: str) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the resolved path, as Hermes has it."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def find_root(path: str, *, forbidden: Collection[str] = ()) -> Root | None:
    """The project of a file or directory, which need not exist. None where nothing may be taken at all.

    `forbidden`: homes and other directories that are never a project; what lies below them may be.
    """
    never = {os.path.realpath(place) for place in (*SHARED, *forbidden) if place}
    start = os.path.realpath(path)
    if not os.path.isdir(start):  # a file, or a link to one: it belongs where it lies
        start = os.path.realpath(os.path.dirname(path) or ".")
    while not os.path.isdir(start):  # a file in a directory that is yet to be made
        start = os.path.dirname(start)
        if start in never:
            return None  # nothing of it is on this machine: a path of a container, say
    current = start
    while True:
        if current not in never:
            for marker in MARKERS:
                if os.path.lexists(os.path.join(current, marker)):
                    return Root(current, marker)
        above = os.path.dirname(current)
        if above == current:
            break
        current = above
    return Root(start, "")
