"""A project with everything that git can lose, and a picture of it that two moments can be compared by."""

from __future__ import annotations

import os
import subprocess

from support.projects.checkpoints import tree_on_disk

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@localhost",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@localhost",
    "LC_ALL": "C",
}

_MAKE = r"""
set -e
git init -q -b main --bare origin.git
git init -q -b main library && cd library
printf 'int old;\n' > code.c && git add . && git commit -qm library && cd ..
git init -q -b main project && cd project
mkdir src data
printf 'one\n' > src/app.py; printf 'keep\n' > README.md; printf '/local/\n' > .gitignore
git add . && git commit -qm first
git -c protocol.file.allow=always submodule --quiet add ../library vendor && git commit -qm second
git remote add origin ../origin.git && git push -q origin main && git fetch -q
printf 'two\n' >> src/app.py && git commit -qam 'never pushed'
git tag -a v1 -m 'a tag with words' && git tag light HEAD~1
git branch feature && git checkout -q feature
printf 'feature\n' > src/feature.py && git add . && git commit -qm 'feature 1'
printf 'more\n' >> src/feature.py && git commit -qam 'feature 2'
git checkout -q main
printf 'first stash\n' > src/app.py && git stash push -qm older
printf 'second stash\n' > src/app.py && printf 'u\n' > new.txt && git stash push -qum newer
git worktree add -q -b side ../side && cd ../side
printf 'side\n' > side.txt && git add . && git commit -qm side
printf 'dirty side\n' > side.txt
cd ../project
printf 'staged\n' > src/staged.py && git add src/staged.py
printf 'dirty, and nowhere else\n' >> README.md
printf 'untracked\n' > notes.txt
printf 'local work\n' >> vendor/code.c && git -C vendor commit -qam 'in the submodule'
"""


def shell(command: str, directory: str) -> subprocess.CompletedProcess[str]:
    """A command as an agent's shell runs it: whatever it answers, it happened."""
    environment = {**ENVIRONMENT, "PATH": os.environ["PATH"], "HOME": os.path.dirname(directory)}
    return subprocess.run(
        ["bash", "-c", command], cwd=directory, env=environment, capture_output=True, text=True
    )


def asked(directory: str, *words: str) -> tuple[str, int]:
    """What git answers, and how it ended; nothing is refreshed for that."""
    environment = {**ENVIRONMENT, "PATH": os.environ["PATH"], "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(["git", *words], cwd=directory, env=environment, capture_output=True, text=True)
    return done.stdout, done.returncode


def git(directory: str, *words: str) -> str:
    said, code = asked(directory, *words)
    assert code == 0, words
    return said


def make_repository(place: str) -> str:
    """A remote, a library, and a project with unpushed commits, tags, stashes, an index, a submodule and a
    linked worktree (`side`); returns the project."""
    os.makedirs(place, exist_ok=True)
    made = shell(_MAKE, place)
    assert made.returncode == 0, made.stderr
    return os.path.join(place, "project")


def picture(work: str) -> dict[str, object]:
    """Everything that a person would miss: files, refs, HEAD, index, stashes with their content, settings."""
    if not os.path.isdir(work):
        return {}
    files = {path: facts[:2] + facts[3:] for path, facts in tree_on_disk(work).items()}
    seen: dict[str, object] = {"files": files}
    if asked(work, "rev-parse", "--show-toplevel")[0].strip() != os.path.realpath(work):
        return seen
    stashes = asked(work, "stash", "list")
    seen |= {
        "refs": asked(work, "for-each-ref", "--format=%(refname) %(objectname) %(symref)"),
        "head": (asked(work, "rev-parse", "HEAD"), asked(work, "symbolic-ref", "-q", "HEAD")),
        "index": asked(work, "ls-files", "--stage", "-v"),
        "status": asked(work, "status", "--porcelain=v1"),
        "stashes": stashes,
        "in stashes": [
            asked(work, "stash", "show", "-p", "-u", str(at)) for at in range(stashes[0].count("\n"))
        ],
        "settings": asked(work, "config", "--local", "--list"),
        "worktrees": asked(work, "worktree", "list"),
        "whole": asked(work, "fsck", "--connectivity-only", "--no-dangling"),
    }
    return seen
