"""A plain `hermes update` between a snapshot and a check: a small script where the shell finds `hermes`.

Hermes has no hook for its own update, and loads no plugins for it. So the command in the user's own
directory of programs is put aside, and a script takes its place that hands everything on as it is, but
runs `update` under `safekept guard`. Where `hermes` lies elsewhere, the script goes before it on the PATH.
Taking it away renames the command back: the same file, or the same link, as it was.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace

from safekept.actions.base.context import UserContext
from safekept.core.agents import PUT_ASIDE
from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write
from safekept.core.files.small import read_document, read_start, write_document
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

NAME = "hermes"
_MARK = b"# Written by safekept:"


class UpdateNotGuarded(SafekeptError):
    code = "update-not-guarded"


@dataclass(frozen=True, slots=True)
class UpdateWrapper:
    """Where the script is or would be, and what it hands on to."""

    path: str
    program: str  # what it starts
    aside: str = ""  # where the command that was there went; "": there was none
    installed: bool = False
    reason: str = ""  # why it cannot be there
    mend: str = ""  # the shell's command that changes that
    left: str = ""  # of a script that was replaced since: the command that was put aside for it


def look_at_wrapper(context: UserContext) -> UpdateWrapper | None:
    """How it stands; None where there is no `hermes` to wrap."""
    search = _search(context)
    found = shutil.which(NAME, path=search)
    if not found:
        return None
    found = os.path.abspath(found)
    aside = found + PUT_ASIDE
    if _is_ours(found) and _below(found, context.places.user_home):  # not that of another HOME
        kept = aside if os.path.lexists(aside) else ""
        return UpdateWrapper(found, "", kept, installed=True)
    own = os.path.join(context.places.user_home, ".local", "bin")
    left = aside if os.path.lexists(aside) else ""
    if _below(found, context.places.user_home) and _may_change(found):
        program = os.path.join(os.path.dirname(found), os.readlink(found)) if os.path.islink(found) else aside
        return UpdateWrapper(found, os.path.normpath(program), aside, left=left)
    path = os.path.join(own, NAME)
    whose = "lies outside your home directory" if _may_change(found) else "is not yours to change"
    theirs = f"{found} {whose}"
    if not _comes_first(own, os.path.dirname(found), search):
        reason = f"{theirs}, and {own} does not come before it on your PATH"
        return UpdateWrapper("", found, reason=reason, mend=_path_first(context))
    if os.path.lexists(path):
        reason = f"{theirs}, and {path} is in its place, and does not run"
        return UpdateWrapper("", found, reason=reason, mend="mv ~/.local/bin/hermes ~/.local/bin/hermes.old")
    return UpdateWrapper(path, found)


def not_guarded(wrapper: UpdateWrapper | None) -> UpdateNotGuarded:
    """Why updates run without a snapshot first, the command that mends it, and what to do until then."""
    instead = NextStep("guard", ("--", NAME, "update"), before="Update with:")
    if wrapper is None:
        return UpdateNotGuarded(
            "`hermes update` is not guarded: there is no `hermes`",
            kept="Nothing was changed",
            next_steps=(instead,),
        )
    mend = NextStep("setup", before=f"Mend it: `{wrapper.mend}`, then in a new terminal")
    return UpdateNotGuarded(
        f"`hermes update` takes no snapshot first: {wrapper.reason}",
        kept="Nothing was changed",
        next_steps=(mend, replace(instead, before="Until then update with:")),
    )


def guard_updates(context: UserContext, words: tuple[str, ...]) -> str:
    """Put the script in place; where it is, in words. `words`: how safekept is called."""
    wrapper = look_at_wrapper(context)
    if wrapper is None or wrapper.reason:
        raise not_guarded(wrapper)
    made = _remembered(context)[1]
    if not wrapper.installed:
        made = _missing_above(wrapper.path) or made
        _install(wrapper, words)
    with contextlib.suppress(OSError):  # where that is not remembered, only the next setup looks again
        write_document(_memory(context), {"version": 1, "path": wrapper.path, "made": made})
    return f"`hermes update` takes a snapshot first and looks for losses after (by {wrapper.path})"


def replaced_wrapper(context: UserContext) -> str:
    """Where our script stood, and Hermes's own installer put its command since; "" where it still is."""
    path = _remembered(context)[0]
    if path:
        return "" if _is_ours(path) or shutil.which(NAME, path=_search(context)) is None else path
    wrapper = look_at_wrapper(context)  # one that was put there before that was remembered
    return wrapper.path if wrapper is not None and wrapper.left else ""


def remove_wrapper(context: UserContext) -> list[str]:
    """Take it away and put back what was there; the paths that changed."""
    made = _remembered(context)[1]
    with contextlib.suppress(OSError):
        os.unlink(_memory(context))
    wrapper = look_at_wrapper(context)
    if wrapper is None or not (wrapper.installed or wrapper.left):
        return []
    try:
        if wrapper.left:
            os.unlink(wrapper.left)
        elif wrapper.aside:
            os.rename(wrapper.aside, wrapper.path)
        else:
            os.unlink(wrapper.path)
            _remove_empty(made)
    except OSError as error:
        raise UpdateNotGuarded(
            f"`{wrapper.path}` could not be put back: {error.strerror or error}",
            kept=f"The command that was there is in `{wrapper.aside or wrapper.left}`",
            next_steps=("See that you may write there, then run it again",),
            path=wrapper.path,
        ) from error
    return [wrapper.path]


def _install(wrapper: UpdateWrapper, words: tuple[str, ...]) -> None:
    text = _script(wrapper.program, words)
    try:
        if not wrapper.aside:
            os.makedirs(os.path.dirname(wrapper.path), exist_ok=True)
            durable_write(wrapper.path, text, 0o755)
            return
        new = wrapper.path + ".new-by-safekept"
        durable_write(new, text, 0o755)
        # A second name first: at every moment there is a `hermes` to call.
        if os.path.lexists(wrapper.aside):
            os.unlink(wrapper.aside)
        os.link(wrapper.path, wrapper.aside, follow_symlinks=False)
        os.rename(new, wrapper.path)
    except OSError as error:
        raise UpdateNotGuarded(
            f"`{wrapper.path}` could not be written: {error.strerror or error}",
            kept="The command `hermes` is as it was",
            next_steps=(NextStep("guard", ("--", NAME, "update"), before="Update with:"),),
            path=wrapper.path,
        ) from error


def _script(program: str, words: tuple[str, ...]) -> bytes:
    start, call = shlex.quote(program), shlex.join(words)
    return (
        "#!/bin/sh\n"
        f"{_MARK.decode()} `hermes update` runs between a snapshot and a check. `safekept uninstall` takes\n"
        "# this away; everything else goes to Hermes as it is.\n"
        'case "$1" in -p|--profile) word=$3 ;; *) word=$1 ;; esac\n'
        f'if [ "$word" = update ] && [ -z "$SAFEKEPT_GUARDS" ] && [ -x {shlex.quote(words[0])} ]; then\n'
        '  case " $* " in\n'
        '    *" --check "*|*" --help "*|*" -h "*) ;;\n'
        f'    *) SAFEKEPT_GUARDS=1; export SAFEKEPT_GUARDS; exec {call} guard -- {start} "$@" ;;\n'
        "  esac\n"
        "fi\n"
        f'exec {start} "$@"\n'
    ).encode("utf-8", "surrogateescape")


def _memory(context: UserContext) -> str:
    """The file that says where the script was put."""
    return os.path.join(context.places.data_directory, "update-wrapper.json")


def _remembered(context: UserContext) -> tuple[str, list[str]]:
    """Where the script was put, and the directories that were made for it, the deepest first."""

    def parse(found: Mapping[str, object]) -> tuple[str, list[str]]:
        made = found.get("made")
        return str(found["path"]), [str(one) for one in made] if isinstance(made, list) else []

    nothing: tuple[str, list[str]] = ("", [])
    return read_document(_memory(context), parse, nothing)


def _missing_above(path: str) -> list[str]:
    """Directories above it that are not there."""
    found = []
    while not os.path.lexists(path := os.path.dirname(path)):
        found.append(path)
    return found


def _remove_empty(directories: list[str]) -> None:
    """Those that were made for the script and hold nothing else by now."""
    for path in directories:
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _path_first(context: UserContext) -> str:
    """How the user's own programs come first, in the file that their shell reads."""
    shell = os.path.basename(context.caller.environment.get("SHELL", ""))
    if shell == "fish":
        return "fish_add_path ~/.local/bin"
    file = {"bash": ".bashrc", "zsh": ".zshrc"}.get(shell, ".profile")
    return f"echo 'PATH=~/.local/bin:$PATH' >> ~/{file}"


def _search(context: UserContext) -> str | None:
    return context.caller.search_path or None


def _is_ours(path: str) -> bool:
    try:
        return _MARK in read_start(path, 4096)
    except OSError:
        return False


def _below(path: str, directory: str) -> bool:
    return os.path.realpath(os.path.dirname(path)).startswith(os.path.realpath(directory).rstrip("/") + "/")


def _may_change(path: str) -> bool:
    return os.lstat(path).st_uid == os.geteuid() and os.access(os.path.dirname(path), os.W_OK)


def _comes_first(one: str, other: str, search: str | None) -> bool:
    places = [os.path.abspath(place) for place in (search or os.defpath).split(os.pathsep) if place]
    return one in places and other in places and places.index(one) < places.index(other)
