"""What has to be started after a home came to a machine, and how: safekept installs and starts none of it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.files.small import read_start
from safekept.core.owner import foreign_owner
from safekept.core.records import dataclass

from ..base.context import HomeRef, UserContext
from ..base.operations.homes import LandingFacts

if TYPE_CHECKING:
    from safekept.home.landing import LandingPlan

# Profile commands: `~/.local/bin/NAME` starts the agent with that profile. They are not part of a home, so a
# rebuild, an import and the restore of another machine's snapshot make them again, and the plan names them.
# A wrapper is only ever created, never overwritten, and a name that would hide another command is left alone
# and reported. Undoing it takes those away that it made, as long as they are unchanged, and says so. They
# are the agent's: `uninstall` names them and leaves them.


NEW = "new"


@dataclass(frozen=True, slots=True)
class Wrapper:
    """One profile command: made, already there, or not made and why."""

    profile: str
    path: str
    state: str  # "new" (in a plan), "made", "present" or "skipped"
    note: str = ""
    needs: str = ""  # the program that it starts, where that is not installed here
    failed: bool = False  # it was to be made, and could not be written

    def as_dict(self) -> dict[str, str]:
        return {"profile": self.profile, "path": self.path, "state": self.state, "note": self.note}


def planned_wrappers(place: HomeRef, context: UserContext, profiles: Iterable[str]) -> list[Wrapper]:
    """What `make_wrappers` would do for these profiles; nothing is written."""
    directory = os.path.join(context.places.user_home, place.layout.wrapper_directory)
    program = place.layout.wrapper_command
    needs = "" if shutil.which(program, path=context.caller.search_path) else program
    return [replace(_wrapper(name, directory, place, context), needs=needs) for name in profiles]


def make_wrappers(place: HomeRef, context: UserContext) -> list[Wrapper]:
    """Make the missing ones for every profile of this home that has settings of its own."""
    return [
        _made(one, place, context) if one.state == NEW else one
        for one in planned_wrappers(place, context, profiles_of(place))
    ]


def _made(one: Wrapper, place: HomeRef, context: UserContext) -> Wrapper:
    try:
        _write(one.path, one.profile, place, context)
    except OSError as error:
        return replace(one, state="skipped", note=f"it cannot be written: {error.strerror}", failed=True)
    return replace(one, state="made")


def made_before(context: UserContext) -> dict[str, str]:
    """The commands that restores, imports and rebuilds made here and that are unchanged: path and profile."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for entry in context.journal.read():
            for path in wrappers_going(LandingFacts.read(entry)):
                found[path] = os.path.basename(path)
    return found


def newly_made(wrappers: Iterable[Wrapper]) -> list[dict[str, str]]:
    """Those that were made just now, for the journal: their paths and what is in them."""
    made = ((one.path, _text(one.path)) for one in wrappers if one.state == "made")
    return [{"path": path, "text": text} for path, text in made if text]


def wrappers_going(done: LandingFacts) -> list[str]:
    """The commands that an operation made and that are unchanged: undoing it removes them."""
    return [one["path"] for one in _listed(done.wrappers) if _text(one["path"]) == one["text"]]


def take_back_wrappers(done: LandingFacts) -> dict[str, object]:
    """Remove what an operation made and make again what it removed; what was done, in the same form."""
    gone, back = [], []
    if any(foreign_owner(one["path"]) is not None for one in _listed(done.wrappers)):
        return {}
    for one in _listed(done.wrappers):
        with contextlib.suppress(OSError):
            if _text(one["path"]) == one["text"]:
                os.unlink(one["path"])
                gone.append(one)
    for one in _listed(done.wrappers_gone):
        with contextlib.suppress(OSError):
            _create(one["path"], one["text"])
            back.append(one)
    return {**({"wrappers": back} if back else {}), **({"wrappers_gone": gone} if gone else {})}


def _listed(found: Iterable[Mapping[str, object]] | None) -> list[dict[str, str]]:
    """Path and text of each; what has not both as text is none of ours."""
    given = ((one.get("path"), one.get("text")) for one in found or ())
    return [
        {"path": path, "text": text}
        for path, text in given
        if isinstance(path, str) and isinstance(text, str)
    ]


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return read_start(path, 1 << 16).decode("utf-8", "surrogateescape")
    return ""


def profiles_of(place: HomeRef) -> list[str]:
    """The names of the profiles in a home that are more than an empty directory."""
    return profiles_in(place, _proofs(place))


def profiles_after(place: HomeRef, plan: LandingPlan) -> list[str]:
    """Those that are there once a plan was carried out."""
    return profiles_in(place, (_proofs(place) - set(plan.remove)) | plan.items.keys())


def profiles_in(place: HomeRef, paths: Iterable[str]) -> list[str]:
    """Those that these paths of a home prove."""
    layout = place.layout
    if not layout.profiles or not layout.wrapper_command or foreign_owner(place.home) is not None:
        return []  # root makes no commands for others
    parts = (path.split("/") for path in paths)
    return sorted(
        {
            part[1]
            for part in parts
            if len(part) == 3 and part[0] == layout.profiles and part[2] in layout.profile_proof
        }
    )


def _proofs(place: HomeRef) -> set[str]:
    """The files in a home that make a directory of it a profile."""
    layout = place.layout
    if foreign_owner(place.home) is not None:
        return set()  # root looks into no home of others
    folder = os.path.join(place.home, layout.profiles)
    if not layout.profiles or not os.path.isdir(folder):
        return set()
    return {
        f"{layout.profiles}/{name}/{proof}"
        for name in os.listdir(folder)
        for proof in layout.profile_proof
        if os.path.isfile(os.path.join(folder, name, proof))
    }


def _wrapper(name: str, directory: str, place: HomeRef, context: UserContext) -> Wrapper:
    path = os.path.join(directory, name)
    search = context.caller.search_path
    if not place.layout.valid_profile(name):
        return Wrapper(name, path, "skipped", "not a name that can become a command")
    if os.path.lexists(path):
        if _starts_profile(path, name):
            return Wrapper(name, path, "present")
        return Wrapper(name, path, "skipped", "another file has that name")
    elsewhere = shutil.which(name, path=search)
    if elsewhere:
        return Wrapper(name, path, "skipped", f"`{name}` is already a command: {elsewhere}")
    on_path = directory in search.split(os.pathsep)
    return Wrapper(name, path, NEW, "" if on_path else f"{directory} is not on your PATH")


def _starts_profile(path: str, name: str) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return f"-p {name}" in read_start(path, 4096).decode("utf-8")
    return False


def _write(path: str, name: str, place: HomeRef, context: UserContext) -> None:
    layout = place.layout
    command = shutil.which(layout.wrapper_command, path=context.caller.search_path)
    text = layout.wrapper_text.format(command=shlex.quote(command or layout.wrapper_command), profile=name)
    usual = os.path.join(context.places.user_home, layout.default)
    if os.path.realpath(place.home) != os.path.realpath(usual):
        # Without the root, the wrapper would look for the profile in the default home.
        first, rest = text.split("\n", 1)
        text = f"{first}\nexport {layout.variable}={shlex.quote(place.home)}\n{rest}"
    _create(path, text)


def _create(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def starting_hints(place: HomeRef, context: UserContext) -> list[str]:
    """What a backup does not hold, and the commands that bring it."""
    layout, hints = place.layout, []
    if foreign_owner(place.home) is not None:
        return []
    if install := program_gone(place, context):
        hints.append(install)
    if layout.service_hint:
        hints.append(f"No service was installed; if you want one: `{layout.service_hint}`")
    if layout.profile_service_hint:
        hints += [
            f"For profile {name}: `{layout.profile_service_hint.format(profile=name)}`"
            for name in profiles_of(place)
        ]
    return hints


def program_gone(place: HomeRef, context: UserContext) -> str:
    """What to do where no command starts the agent: none is there, or it leads to code that this home had."""
    layout = place.layout
    code = os.path.join(place.home, layout.code_path)
    if not layout.code_hint or os.path.isdir(code) or foreign_owner(place.home) is not None:
        return ""
    search = context.caller.search_path
    command = shutil.which(layout.code_hint.split()[0], path=search)
    if command is not None and code + "/" not in _text(command):
        return ""
    return f"The program {layout.title} itself is in no backup. Install it on this machine"


def without_command(place: HomeRef, context: UserContext, profiles: Iterable[str]) -> list[str]:
    """Profiles that came back, and that no command of their own starts: what does."""
    return [
        f"Profile {one.profile} has no command of its own: `{place.layout.wrapper_command} -p {one.profile}`"
        for one in planned_wrappers(place, context, profiles)
        if one.state == NEW
    ]


def start_command(place: HomeRef, context: UserContext) -> str:
    """The command that starts the agent with this home; "" where the layout knows none."""
    layout = place.layout
    if not layout.wrapper_command:
        return ""
    usual = os.path.join(context.places.user_home, layout.default)
    if not layout.variable or os.path.realpath(usual) == os.path.realpath(place.home):
        return layout.wrapper_command
    return f"{layout.variable}={shlex.quote(place.home)} {layout.wrapper_command}"
