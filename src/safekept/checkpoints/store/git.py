"""The one place that runs git, and the only environment it is run in.

No configuration of the user or the system, no hooks, no filesystem monitor, no filters, no signing, no
prompts, and never a repository that git looked for by itself: the project may be hostile.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.attributesFile=/dev/null",
    "core.pager=cat",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "protocol.allow=never",
    "safe.directory=*",
)
#: Seconds that git may take for anything at all; a caller that can wait less says so.
LONGEST = 3600.0
MOST_MEMORY = 1 << 30
_PLACES = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/opt/local/bin"


def find_git() -> str | None:
    """The git program, or None. The search path is the process's own, then the usual places."""
    import shutil

    return shutil.which("git") or shutil.which("git", path=_PLACES)


def git_environment(git_directory: str, work_tree: str = "", index: str = "") -> dict[str, str]:
    """Everything git gets to see of the world."""
    environment = {
        "PATH": _PLACES,
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": "/nonexistent",
        "GIT_DIR": git_directory,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ADVICE": "0",
    }
    if work_tree:
        environment["GIT_WORK_TREE"] = work_tree
    if index:
        environment["GIT_INDEX_FILE"] = index
    return environment


def git_command(git: str, *words: str, settings: tuple[str, ...] = ()) -> list[str]:
    """A command line with every setting that must hold."""
    command = [git]
    for setting in (*_SETTINGS, *settings):
        command += ["-c", setting]
    return [*command, *words]


def run_git(
    git: str,
    git_directory: str,
    *words: str,
    data: bytes = b"",
    settings: tuple[str, ...] = (),
    timeout: float = LONGEST,
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end, with what it printed. Never raises for what git thinks of it; TimeoutExpired."""
    import subprocess

    return subprocess.run(
        git_command(git, *words, settings=settings),
        env=git_environment(git_directory),
        cwd=git_directory,
        input=data,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
