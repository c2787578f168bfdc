"""What a rollback brought back in a repository, in one line: where things are now, not what was missing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .moves import HEADS, NAMED, TAGS, Move, RepositoryPlan, many, other_words, place, short
from .state import HEAD, OBJECTS, REF, STASH

_STASHES = (STASH, REF + "refs/stash")


def returned_in_words(plan: RepositoryPlan, done: Collection[str]) -> str:
    """`brought back: feature at 1a2b3c4; HEAD on main; taken away: try`; empty where nothing was done.

    `done`: the items of the plan that were put back.
    """
    moves = [move for move in plan.moves if move.name in done]
    if plan.gone:
        branches = sum(move.name.startswith(HEADS) for move in moves)
        held = many(branches, "branch", "branches")
        if plan.stashes and any(move.name in _STASHES for move in moves):
            held += f", {many(plan.stashes, 'stash', 'stashes')}"
        return _said("", [f"{plan.git_directory} with {held}"] if moves else [], [])
    back = _named([f"{_name(one)} at {short(one.then)}" for one in moves if one.then and _is_branch(one)])
    back += [f"HEAD {place(one.then)}" for one in moves if one.name == HEAD and one.then]
    if any(one.name in _STASHES for one in moves):
        back.append("the stashes")
    rest = [one for one in moves if one.name != OBJECTS and (one.then or not one.name.startswith(TAGS))]
    back += other_words(replace(plan, moves=rest))
    if any(one.name == OBJECTS for one in moves):
        back.append("the objects that were missing")
    away = [_name(one) for one in moves if not one.then and _is_branch(one)]
    away += [f"tag {_name(one)}" for one in moves if not one.then and one.name.startswith(TAGS)]
    return _said(f"{plan.path}: " if plan.path else "", back, _named(away))


def _said(where: str, back: list[str], away: list[str]) -> str:
    parts = [f"brought back: {'; '.join(back)}"] if back else []
    parts += [f"taken away: {', '.join(away)}"] if away else []
    return where + "; ".join(parts) if parts else ""


def _named(names: list[str]) -> list[str]:
    return [*names[:NAMED], f"{len(names) - NAMED} more"] if len(names) > NAMED else names


def _is_branch(move: Move) -> bool:
    return move.name.startswith(HEADS)


def _name(move: Move) -> str:
    return move.name.removeprefix(HEADS).removeprefix(TAGS)
