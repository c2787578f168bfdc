"""Which path a tool really opens, where a command really runs, and whether this machine can see it.

Hermes resolves a relative path against the directory of the task, which follows the `cd` of its terminal.
Its own answer is asked for where it is loaded; where it is not, the same steps are gone here. In doubt
there is more than one answer, and all of them are saved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

#: What `TERMINAL_CWD` may say without naming a directory.
MEANS_NOTHING = ("", ".", "./", "auto", "cwd")
_BACK_ENDS = {
    "docker": "a Docker container",
    "singularity": "a Singularity container",
    "modal": "a Modal sandbox",
    "daytona": "a Daytona sandbox",
    "ssh": "another machine (ssh)",
}
#: No skill has more files than this, or its directory is something else.
_MOST_FILES = 500


def home() -> str:
    """The home that Hermes works in now; of a profile, the profile's."""
    ask = getattr(sys.modules.get("hermes_constants"), "get_hermes_home", None)
    if ask is not None:
        return str(ask())
    return os.environ.get("HERMES_HOME", "").strip() or os.path.expanduser("~/.hermes")


def back_end(task: str) -> str:
    """Where the tools of this task really run, in words; empty on this machine."""
    name = ""
    ask = _of_file_tools("_terminal_env_type_for_task")
    if ask is not None:
        try:
            name = str(ask(task or "default"))
        except Exception:
            name = ""
    return in_words(name or os.environ.get("TERMINAL_ENV", ""))


def _of_file_tools(name: str) -> Callable[..., object] | None:
    """A function of Hermes's file tools, which from 0.20 on lie in two files."""
    for module in ("tools.file_tools", "tools.file_tools_paths"):
        if (found := getattr(sys.modules.get(module), name, None)) is not None:
            asked: Callable[..., object] = found
            return asked
    return None


def in_words(name: str) -> str:
    """A back end by the name that Hermes has for it; empty for this machine."""
    name = name.strip().lower() or "local"
    return "" if name == "local" else _BACK_ENDS.get(name, f"the back end `{name}`")


def directory(task: str) -> str:
    """Where the tools of this task work."""
    return _directories(task)[0]


def command_directories(task: str, workdir: str) -> list[str]:
    """Where a command of this task can run; the likeliest first."""
    bases = _directories(task)
    if not workdir:
        return bases[:1]
    asked = os.path.expanduser(workdir)
    if os.path.isabs(asked):
        return [asked]
    return list(dict.fromkeys(os.path.normpath(os.path.join(base, asked)) for base in bases))


def opened(name: str, task: str, by_shell: bool) -> list[str]:
    """The absolute paths that a tool may open for `name`; the likeliest first."""
    found = []
    ask = _of_file_tools("_resolve_path_for_task")
    if ask is not None:
        try:
            found.append(str(ask(name, task or "default")))
        except Exception:
            found.clear()
    full = os.path.expanduser(name)
    bases = _directories(task) if by_shell or not found else []
    found += [os.path.realpath(os.path.join(base, full)) for base in bases]
    return list(dict.fromkeys(found))


def skill(name: str, category: str, here: str) -> list[str]:
    """The directory of a skill, where it is and where making it would put it."""
    top = os.path.join(here, "skills")
    found = [os.path.normpath(os.path.join(top, category, name))]
    ask = getattr(sys.modules.get("tools.skill_manager_tool"), "_find_skill", None)
    if ask is not None:
        try:
            answer = ask(name)
            found += [str(answer["path"])] if answer else []
        except Exception:
            found.append(top)
    else:
        found += [inner for inner, _, _ in os.walk(top) if os.path.basename(inner) == name]
    kept: list[str] = []
    for place in dict.fromkeys(found):
        # Of a directory in the home everything is kept; elsewhere files have to be named one by one.
        kept += [place] if is_within(place, here) else _files(place)
    return kept


def is_within(path: str, place: str) -> bool:
    """Whether a path lies in a directory, links resolved."""
    return os.path.realpath(path).startswith(os.path.realpath(place) + os.sep)


def mentions_home(command: str, here: str, where: str) -> bool:
    """Whether a command works in the home, or names it."""
    real = os.path.realpath(here)
    if is_within(where, here) or os.path.realpath(where) == real:
        return True
    short = "~" + here[len(user) :] if here.startswith((user := os.path.expanduser("~")) + os.sep) else here
    return any(word in command for word in {here, real, short, "HERMES_HOME", "/.hermes"})


def _files(place: str) -> list[str]:
    found: list[str] = []
    for inner, _, files in os.walk(place):
        found += [os.path.join(inner, file) for file in files]
        if len(found) >= _MOST_FILES:
            break
    return found[:_MOST_FILES]


def _directories(task: str) -> list[str]:
    """What a relative path may be relative to: the `cd` of this task, its workspace, the shell that is
    shared by all tasks, the configured directory, and that of Hermes itself. Where the terminal is not on
    this machine, all but the last mean something there and a stranger here."""
    if back_end(task):
        return [_own_directory()]
    terminal = sys.modules.get("tools.terminal_tool")
    found: list[object] = []
    for ask in (getattr(terminal, "get_session_cwd", None), _override):
        try:
            found.append(ask(task or "default") if ask is not None else "")
        except Exception:
            found.append("")
    named = os.environ.get("TERMINAL_CWD", "").strip()
    found.append("" if named.lower() in MEANS_NOTHING else os.path.expanduser(named))
    found.append(_own_directory())
    for key in ("default", task):
        shell = getattr(terminal, "_active_environments", {}).get(key)
        found.append(getattr(shell, "cwd", ""))
    right = [place for place in found if isinstance(place, str) and os.path.isabs(place)]
    return list(dict.fromkeys(right)) or ["/"]


def _own_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted under Hermes's feet
        return os.path.expanduser("~")


def _override(task: str) -> str:
    ask = getattr(sys.modules.get("tools.terminal_tool"), "resolve_task_overrides", None)
    return str((ask(task) if ask is not None else {}).get("cwd") or "")
