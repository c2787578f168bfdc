"""What moved in a repository between two points, decided item by item and said in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from safekept.core.records import dataclass

from .state import DOT_GIT, FILE, HEAD, INDEX, LOG, OBJECTS, REF, STASH, RepositoryState

HEADS, TAGS = "ref:refs/heads/", "ref:refs/tags/"
_WORKTREES = FILE + "worktrees/"
#: How many of each kind are named.
NAMED = 4
#: Files of a merge, rebase or the like that is under way.
_UNDER_WAY = (
    *("MERGE_", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "AUTO_MERGE", "SQUASH_MSG", "BISECT_"),
    *("rebase-merge/", "rebase-apply/", "sequencer/"),
)

#: Why an item stays as it is.
STAYS = {
    "mine": "moved by you after the agent's last turn",
    "since": "moved after the rollback that is undone",
    "elsewhere": "checked out in another worktree",
    "not-kept": "what it stands for could not be kept first",
    "missing": "what it stood for is not in the store",
    "secret": "held a secret, which is not stored",
    "failed": "could not be written",
    "main-gone": "its main repository is gone; bring that back first",
}


@dataclass(frozen=True, slots=True)
class Move:
    """One item that is put back. `then` empty: it was not there; `now` empty: it is not there any more."""

    name: str
    then: str
    now: str


@dataclass(slots=True)
class RepositoryPlan:
    """What going back would do to one repository."""

    path: str
    then: RepositoryState
    now: RepositoryState | None  # None: it is gone, and is made again
    moves: list[Move] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)  # item, a key of STAYS
    words: str = ""  # all of it in one line
    stashes: int = 0  # that there were then

    @property
    def gone(self) -> bool:
        return self.now is None

    @property
    def git_directory(self) -> str:
        """As the project names it: `.git`, `vendor/.git`."""
        return f"{self.path}/.git" if self.path else ".git"

    def as_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "gone": self.gone,
            "words": self.words,
            "moves": [{"item": one.name, "then": one.then, "now": one.now} for one in self.moves],
            "left": [{"item": name, "reason": reason} for name, reason in self.left],
        }


def compare(
    then: RepositoryState,
    now: RepositoryState | None,
    mark: RepositoryState | None = None,
    *,
    reason: str = "mine",
    elsewhere: Iterable[str] = (),
) -> RepositoryPlan:
    """What has to move from `now` to `then`. What differs from `mark` as well was moved by a person."""
    plan = RepositoryPlan(then.path, then, now)
    if now is None:
        plan.moves = [Move(name, value, "") for name, value in then.items.items()]
        return plan
    checked_out = {REF + name for name in elsewhere}
    for name in sorted(then.items.keys() | now.items.keys()):
        before, after = then.items.get(name, ""), now.items.get(name, "")
        if name.startswith((LOG, DOT_GIT)) or _same(name, before, after) or not _of_this(name, now):
            continue
        if after and mark is not None and not _same(name, mark.items.get(name, ""), after):
            plan.left.append((name, reason))
        elif after and name in checked_out:
            plan.left.append((name, "elsewhere"))
        elif before.startswith("scrubbed "):
            plan.left.append((name, "secret"))
        else:
            plan.moves.append(Move(name, before, after))
    return plan


def _same(name: str, one: str, other: str) -> bool:
    return one.split(" ")[0] == other.split(" ")[0] if name == INDEX else one == other


def _of_this(name: str, now: RepositoryState) -> bool:
    """What another worktree does in its own directory is not this one's to take back."""
    if not name.startswith(_WORKTREES):
        return True
    return f"{_WORKTREES}{name.split('/')[1]}/gitdir" not in now.items


# In words.

#: Counts the commits of the first that the second does not have; -1 where that cannot be known.
Count = Callable[[str, str], int]


def in_words(plan: RepositoryPlan, stashes: tuple[int, int], count: Count) -> str:
    """`main was 3 commits ahead, at 1a2b3c4; 2 stashes`; empty where nothing moved."""
    where = f"{plan.path}: " if plan.path else ""
    if plan.gone:
        branches = sum(name.startswith(HEADS) for name in plan.then.items)
        words = f"{plan.git_directory} is gone; it had {many(branches, 'branch', 'branches')}"
        return words + (f", {many(stashes[0], 'stash', 'stashes')}" if stashes[0] else "")
    by_name = {move.name: move for move in plan.moves}
    said = [_branch(move, count) for move in plan.moves if move.name.startswith(HEADS)]
    if len(said) > NAMED:
        said = [*said[:NAMED], f"{len(said) - NAMED} more branches"]
    if HEAD in by_name:
        head = by_name[HEAD]
        said.append(f"HEAD was {place(head.then)}, is {place(head.now)}")
    if STASH in by_name or REF + "refs/stash" in by_name:
        then, now = stashes
        said.append(
            f"{many(then, 'stash', 'stashes')}, now {now or 'none'}" if then else f"{now} new stashes"
        )
    said += other_words(plan)
    return where + "; ".join(said) if said else ""


def _branch(move: Move, count: Count) -> str:
    name = move.name[len(HEADS) :]
    if not move.then:
        return f"{name} is new"
    if not move.now:
        return f"{name} is gone, it was at {short(move.then)}"
    ahead, behind = count(move.then, move.now), count(move.now, move.then)
    if ahead > 0 and behind == 0:
        return f"{name} was {many(ahead, 'commit', 'commits')} ahead, at {short(move.then)}"
    if ahead == 0 and behind > 0:
        return f"{name} was {many(behind, 'commit', 'commits')} behind, at {short(move.then)}"
    if ahead > 0 and behind > 0:
        gone, new = many(ahead, "commit", "commits"), behind
        return f"{name} was at {short(move.then)}: {gone} of it gone, {new} new"
    return f"{name} was at {short(move.then)}"


def other_words(plan: RepositoryPlan) -> list[str]:
    said: list[str] = []
    tags = [move for move in plan.moves if move.name.startswith(TAGS)]
    named = [move.name[len(TAGS) :] for move in tags[:NAMED]]
    if tags:
        more = f" and {len(tags) - NAMED} more" if len(tags) > NAMED else ""
        said.append(f"{'tag' if len(tags) == 1 else 'tags'} {', '.join(named)}{more}")
    known = (HEADS, TAGS, REF + "refs/stash")
    refs = [move for move in plan.moves if move.name.startswith(REF) and not move.name.startswith(known)]
    if refs:
        said.append(many(len(refs), "other ref", "other refs"))
    files = [move.name[len(FILE) :] for move in plan.moves if move.name.startswith(FILE)]
    if any(name.startswith(_UNDER_WAY) for name in files):
        said.append("a merge or rebase under way")
    settings = [name for name in files if not name.startswith((*_UNDER_WAY, "ORIG_HEAD"))]
    said += [f"`{name}`" for name in settings[:NAMED]]
    if any(move.name == INDEX for move in plan.moves):
        said.append("the index")
    if any(move.name == OBJECTS for move in plan.moves):
        said.append("objects are missing")
    return said


def short(oid: str) -> str:
    return oid[:7]


def place(head: str) -> str:
    return f"on {head.removeprefix('ref: refs/heads/')}" if head.startswith("ref: ") else f"at {short(head)}"


def many(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
