"""Which checkpoint, and which files, a person means.

Numbers count from the newest (1 undoes the last change); anything else is an id or the beginning of
one, at least four characters, and only ever of this project. A file is meant relative to where the
person stands if that is inside the project, else relative to the project.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.spelling import near_names

from ..checkpoint import (
    ID_LENGTH,
    REASONS,
    SHORTEST_PREFIX,
    Checkpoint,
    CheckpointDamaged,
    FileState,
    NoSuchCheckpoint,
    is_checkpoint_id,
)
from ..store.store import Store
from ..store.tree_state import TreeState
from .reconstructed_state import LeftOut, numbered

_KEPT = "Nothing was changed"
_LIST = NextStep("rollback", before="See what there is:")
_SEARCHED = 200
_VERBS = ("could", "holds", "belongs", "has", "kept", "vanished", "lies")
_IS = {code: text if text.startswith(_VERBS) else f"is {text}" for code, text in REASONS.items()}


class FileOutsideProject(SafekeptError):
    code = "file-outside-project"


class FileNotInCheckpoint(SafekeptError):
    code = "file-not-in-checkpoint"


def find_checkpoint(
    store: Store, project: str, word: str, live: Checkpoint | None, git: bool = False
) -> Checkpoint:
    """The checkpoint that a word means. Raises NoSuchCheckpoint, which says why and what there is.

    `git`: what only moved the project's repository has a number, too.
    """
    word = word.strip()
    if word.startswith("-"):
        raise _unknown(f"`{word}` looks like an option, and is not the id of a checkpoint", project, word)
    if is_checkpoint_id(word.lower()) and (exact := store.called(project, word.lower())) is not None:
        return exact
    points = store.checkpoints(project)
    for point in points:
        if point.id == word.lower():
            return point
    digits = word.isascii() and word.isdigit()
    if digits and len(word) < SHORTEST_PREFIX:
        return _by_number(store, project, points, int(word), live, git)
    if not is_checkpoint_id(word.lower(), 1):
        what = f"`{word}` is neither a number nor the id of a checkpoint"
        last = numbered(store, points, live, most=1, git=git) if word and ".." not in word else []
        steps = [NextStep("rollback", (one.id, word), before="If a file is meant:") for one in last]
        raise _unknown(what, project, word, *steps)
    if len(word) < SHORTEST_PREFIX:
        raise _unknown(
            f"`{word}` is too short for an id: give at least {SHORTEST_PREFIX} of its {ID_LENGTH} letters",
            project,
            word,
        )
    found = [point for point in points if point.id.startswith(word.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(point.id for point in found[:5]) + (" …" if len(found) > 5 else "")
        raise _unknown(f"`{word}` is the beginning of {len(found)} ids: {named}", project, word)
    if digits and int(word) <= len(points):
        return _by_number(store, project, points, int(word), live, git)
    raise _elsewhere(store, project, word)


def _by_number(
    store: Store,
    project: str,
    points: Sequence[Checkpoint],
    number: int,
    live: Checkpoint | None,
    git: bool = False,
) -> Checkpoint:
    if (unread := store.refs.unread) is not None:  # the number would mean another one
        raise CheckpointDamaged(
            f"The checkpoints of `{project}` cannot be counted: one of them cannot be read: {unread}",
            kept=_KEPT,
            next_steps=("Run the command again, or give the id of the checkpoint", _LIST),
            project=project,
        )
    found = numbered(store, points, live, most=number, git=git)
    if 1 <= number <= len(found):
        return found[number - 1]
    if not found:
        what = "no change of an agent's is left to undo in" if points else "there are no checkpoints of"
        raise _unknown(f"There is no checkpoint {number}: {what} `{project}`", project, str(number))
    raise _unknown(
        f"There is no checkpoint {number}: they are numbered from 1 to {len(found)}", project, str(number)
    )


def _elsewhere(store: Store, project: str, word: str) -> NoSuchCheckpoint:
    for other in store.projects():
        if other != project and any(point.id.startswith(word.lower()) for point in store.checkpoints(other)):
            return NoSuchCheckpoint(
                f"Checkpoint `{word}` belongs to another project, `{other}`, and can only be restored there",
                kept=_KEPT,
                next_steps=(NextStep("rollback", (word, "--dir", other), before="Go back there:"), _LIST),
                project=project,
                other=other,
                id=word,
            )
    return _unknown(
        f"`{project}` has no checkpoint `{word}`; it never had one, or it was dropped since", project, word
    )


def _unknown(what: str, project: str, word: str, *steps: NextStep) -> NoSuchCheckpoint:
    return NoSuchCheckpoint(what, kept=_KEPT, next_steps=(*steps, _LIST), project=project, id=word)


def find_files(
    store: Store,
    project: str,
    checkpoint: Checkpoint,
    files: Sequence[str],
    cwd: str,
    then: Mapping[str, FileState],
    now: Mapping[str, FileState],
    hidden: Callable[[str], bool] | None = None,
) -> tuple[str, ...]:
    """The paths, below the project, of files or directories that were asked for.

    `hidden` says whether the hidden half may know a path. Raises FileOutsideProject, and FileNotInCheckpoint
    for an unknown one.
    """
    found = []
    for word in files:
        if not word.strip():
            raise FileNotInCheckpoint(
                "An empty name means no file",
                kept=_KEPT,
                next_steps=(
                    NextStep(
                        "rollback", ("--help",), before="Name the file; without a name everything goes back:"
                    ),
                ),
                file=word,
            )
        candidates = [path for path in _candidates(project, word, cwd) if path is not None]
        if not candidates:
            raise FileOutsideProject(
                f"`{word}` lies outside the project `{project}`",
                kept=_KEPT,
                next_steps=("Name files of the project only, or choose another one with --dir",),
                file=word,
                project=project,
            )
        known = [path for path in candidates if _known(path, then) or _known(path, now)]
        known = known or [path for path in candidates if hidden is not None and hidden(path)]
        if not known:
            near = near_names([*then, *now], candidates[-1])
            raise _not_there(store, project, checkpoint, word, candidates, near)
        found.append(known[0])
    return tuple(dict.fromkeys(found))


def hidden_below(*states: TreeState) -> Callable[[str], bool]:
    """Whether a path may be in the hidden half: something at or above it is not in the visible one."""
    left_out = [LeftOut(state) for state in states]
    return lambda path: any(one.find(path) is not None for one in left_out)


def _candidates(project: str, word: str, cwd: str) -> list[str | None]:
    places = [word] if os.path.isabs(word) else []
    if not places:
        if cwd and _below(project, cwd) is not None:
            places.append(os.path.join(cwd, word))
        places.append(os.path.join(project, word))
    return [_below(project, place) for place in places]


def _below(project: str, place: str) -> str | None:
    """The path below the project; None outside. Links above the last name are resolved, the last is not."""
    place = os.path.normpath(place)
    for candidate in (place, os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))):
        if candidate == project:
            return ""
        if candidate.startswith(project.rstrip("/") + "/"):
            return candidate[len(project.rstrip("/")) + 1 :]
    return None


def _known(path: str, state: Mapping[str, FileState] | Collection[str]) -> bool:
    return not path or path in state or any(other.startswith(path + "/") for other in state)


def _not_there(
    store: Store,
    project: str,
    checkpoint: Checkpoint,
    word: str,
    candidates: Sequence[str],
    near: Sequence[str],
) -> FileNotInCheckpoint:
    def holds(point: Checkpoint) -> bool:
        with contextlib.suppress(CheckpointDamaged):
            state = store.state(point, candidates)
            return any(_known(path, state) for path in candidates)
        return False

    points = store.checkpoints(project)[:_SEARCHED]
    holding = [point for point in points if point.id != checkpoint.id and holds(point)]
    if holding:
        ids = ", ".join(point.id for point in holding[:5]) + (" …" if len(holding) > 5 else "")
        steps = [NextStep("rollback", (holding[0].id, candidates[0]), before=f"It is in {ids}:")]
    else:
        steps = [NextStep("rollback", (checkpoint.id, path), before="Did you mean:") for path in near]
        none = "No checkpoint of this project holds it; see what there is:"
        steps.append(NextStep("rollback", before=none))
    left_out = LeftOut(store.state(checkpoint))
    why = next((found for path in candidates if (found := left_out.find(path))), None)
    return FileNotInCheckpoint(
        f"Checkpoint {checkpoint.id} knows nothing of `{word}`"
        + (f": it was not saved, since it {_IS[why.reason]}" if why else ""),
        kept=_KEPT,
        next_steps=tuple(steps),
        file=word,
        holding=[point.id for point in holding[:20]],
    )
