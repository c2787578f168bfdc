"""A repository whose configuration, attributes and hooks run programs, and one that leads elsewhere."""

from __future__ import annotations

import os
import stat

import pytest

from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back
from safekept.checkpoints.store.repositories import keeping, restoring
from safekept.checkpoints.store.repositories.locating import locate
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take
from support.projects.repositories import git, shell

HOOKS = (
    *("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "post-rewrite"),
    *("fsmonitor-watchman", "pre-auto-gc", "update", "post-update"),
)
PROGRAMS = (
    *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.alternateRefsCommand"),
    *("gpg.program", "diff.external"),
)


@pytest.fixture
def project(tmp_path):
    place = str(tmp_path / "project")
    os.mkdir(place)
    shell("git init -q -b main; echo one > a.txt; git add .; git commit -qm one; git branch gone", place)
    return place


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_nothing_that_a_repository_names_is_ever_run(project, tmp_path):
    ran = tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\n')
    trap.chmod(0o755)
    for name in HOOKS:
        os.symlink(trap, f"{project}/.git/hooks/{name}")
    for name in PROGRAMS:
        git(project, "config", name, str(trap))
    git(project, "config", "core.hooksPath", f"{project}/.git/hooks")
    for name in ("clean", "smudge", "process"):
        git(project, "config", f"filter.evil.{name}", str(trap))
    git(project, "config", "remote.far.url", f"ext::{trap}")
    git(project, "config", "remote.far.promisor", "true")
    git(project, "config", "protocol.ext.allow", "always")
    git(project, "config", "extensions.partialClone", "far")
    git(project, "config", "core.repositoryformatversion", "1")
    with open(f"{project}/.git/info/attributes", "w") as file:
        file.write("* filter=evil diff=evil\n")
    with Store.open(str(tmp_path / "store")) as store:
        point = take(store, project).checkpoint
        ran.unlink(missing_ok=True)
        # By hand: git itself would run what is set up here.
        os.unlink(f"{project}/.git/refs/heads/gone")
        with open(f"{project}/.git/HEAD", "w") as file:
            file.write("ref: refs/heads/other\n")
        plan = plan_rollback(store, project, point, git=True)
        done = roll_back(store, plan)
        assert "ref:refs/heads/gone" in done.repositories[0].done, done.repositories
    assert not ran.exists(), ran.read_text()
    assert os.path.exists(f"{project}/.git/refs/heads/gone")


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_git_file_that_leads_to_another_repository_is_not_believed(project, tmp_path):
    """Going back writes where `.git` leads: a file that anybody can write must not choose that."""
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / ".git").write_text(f"gitdir: {project}/.git\n")
    assert locate(project) is not None and locate(str(evil)) is None
    (evil / ".git").unlink()
    os.symlink(f"{project}/.git", evil / ".git")
    assert locate(str(evil)) is None


def pipe(path):
    os.mkfifo(path)


def sparse(path):
    with open(path, "wb") as file:
        file.truncate(1_200_000_000)


def link(path):
    os.symlink("/dev/zero", path)


@pytest.mark.parametrize("trap", [pipe, sparse, link], ids=lambda trap: trap.__name__)
@pytest.mark.parametrize(
    "name", ["packed-refs", "refs/heads/x", "index", "config", "logs/HEAD", "MERGE_HEAD"]
)
@pytest.mark.needs(
    "pipes",
    "it makes a pipe or a socket",
    only={
        "MERGE_HEAD-pipe",
        "refs/heads/x-pipe",
        "packed-refs-pipe",
        "index-pipe",
        "config-pipe",
        "logs/HEAD-pipe",
    },
)
@pytest.mark.needs(
    "symlinks",
    "it makes symbolic links",
    only={
        "config-link",
        "MERGE_HEAD-link",
        "packed-refs-link",
        "refs/heads/x-link",
        "index-link",
        "logs/HEAD-link",
    },
)
def test_a_trap_in_a_repository_costs_what_it_hides_and_no_more(name, trap, project, tmp_path):
    """Neither the point nor the way back waits for it, reads it whole or follows it."""
    with Store.open(str(tmp_path / "store")) as store:
        point = take(store, project, session="s").checkpoint
        git(project, "branch", "-D", "gone")
        path = f"{project}/.git/{name}"
        if os.path.lexists(path):
            os.unlink(path)
        trap(path)
        later = take(store, project, session="t")
        assert later.checkpoint is not None
        done = roll_back(store, plan_rollback(store, project, point, git=True))
        restored = done.repositories[0]
        if name in ("config", "packed-refs", "refs/heads/x"):  # git itself cannot work there
            assert restored.left or "ref:refs/heads/gone" in restored.done
        else:
            assert "ref:refs/heads/gone" in restored.done, restored
            assert name != "index" or stat.S_ISREG(os.lstat(path).st_mode)


def log_of_a_branch(git_directory):
    pipe(f"{git_directory}/logs/refs/heads/gone")


def alternates(git_directory):
    pipe(f"{git_directory}/objects/info/alternates")


def index_of_a_pack(git_directory):
    os.makedirs(f"{git_directory}/objects/pack", exist_ok=True)
    pipe(f"{git_directory}/objects/pack/pack-{'ab' * 20}.idx")
    open(f"{git_directory}/objects/pack/pack-{'ab' * 20}.pack", "w").close()


def included_settings(git_directory):
    pipe(f"{git_directory}/pipe")


@pytest.mark.parametrize("trap", [log_of_a_branch, alternates, index_of_a_pack, included_settings])
@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_git_is_not_let_near_a_pipe_that_it_would_wait_for(trap, project, tmp_path, monkeypatch):
    """It is named, and what git has nothing to do with comes back all the same."""
    git(project, "config", "include.path", "more")
    with open(f"{project}/.git/more", "w") as file:
        file.write("[include]\n\tpath = pipe\n")
    shell("git branch other", project)
    waited = []
    for module in (keeping, restoring):
        real = module.run_bounded
        monkeypatch.setattr(
            module,
            "run_bounded",
            lambda *words, real=real, until, **more: ended(real(*words, until=until, **more), words, waited),
        )
    with Store.open(str(tmp_path / "store")) as store:
        point = take(store, project, session="s").checkpoint
        shell("git branch -D gone; git branch -D other", project)
        with open(f"{project}/.git/description", "w") as file:
            file.write("changed\n")
        trap(f"{project}/.git")
        waited.clear()
        done = roll_back(store, plan_rollback(store, project, point, git=True))
    restored = done.repositories[0]
    left = {name: detail for name, _, detail in restored.left}
    assert "no file that git could" in left["ref:refs/heads/gone"], restored
    assert trap is not log_of_a_branch or "ref:refs/heads/other" in restored.done
    assert trap in (alternates, index_of_a_pack) or "file:description" in restored.done
    assert not waited, "git waited until its time was over"


def ended(done, words, waited):
    if done is None:
        waited.append(words)
    return done


def test_a_repository_counts_as_kept_only_where_it_is_written_down_who_needs_it(project, tmp_path):
    """Two projects may share one: whoever is not on the list would lose it with the other's last point."""
    with Store.open(str(tmp_path / "store")) as store:
        take(store, project)
        (users,) = (tmp_path / "store" / "repositories").glob("*/users")
        names = users.read_text()
        users.unlink()
        users.mkdir()  # nothing can be written there now
        shell("echo two > a.txt; git commit -qam two", project)
        taken = take(store, project, kind="manual")
        assert taken.remarks == ("the git history is not kept whole yet: not a regular file",)
        users.rmdir()
        shell("echo three > a.txt", project)
        assert take(store, project, kind="manual").remarks == ()
        assert users.read_text().split() == names.split()
