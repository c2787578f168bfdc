"""Taking over what the real Hermes 0.19.0 kept: times, reasons and files; and nothing of Hermes's changes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time

import pytest

from safekept.checkpoints.hermes.adopt import adopt_store
from safekept.checkpoints.hermes.legacy import archive_legacy, clear_legacy, legacy_archives
from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back
from safekept.checkpoints.store.store import Store
from support.projects.checkpoints import contents_in_store, fsck, put
from support.projects.hermes_checkpoints import Hermes


@pytest.fixture
def project(tmp_path):
    place = os.path.realpath(tmp_path / "project")
    put(os.path.join(place, "pyproject.toml"), "")
    put(os.path.join(place, "src", "main.py"), "one\n")
    put(os.path.join(place, "run.sh"), "#!/bin/sh\n", 0o755)
    os.symlink("src/main.py", os.path.join(place, "link"))
    put(os.path.join(place, ".gitattributes"), "* -text\n")
    return place


@pytest.fixture
def hermes_store(hermes_python, tmp_path, project):
    """Three checkpoints of the real thing, of one project; returns Hermes's `checkpoints` directory."""
    home = str(tmp_path / "user")
    system = Hermes(hermes_python, home)
    system.take(project)
    put(os.path.join(project, "src", "main.py"), "two\n")
    put(os.path.join(project, "new.txt"), "new\n")
    system.take(project)
    time.sleep(1.1)
    put(os.path.join(project, "src", "main.py"), "three\n")
    system.take(project)
    listed = system.list(project)
    system.close()
    return os.path.join(home, ".hermes", "checkpoints"), listed


def digest(directory: str) -> dict[str, tuple[str, int]]:
    found = {}
    for place, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[path] = (hashlib.sha256(file.read()).hexdigest(), os.stat(path).st_mtime_ns)
    return found


def test_adopted_checkpoints_keep_their_times_reasons_and_files(tmp_path, hermes_store, project):
    source, listed = hermes_store
    before = digest(source)
    with Store.open(str(tmp_path / "ours")) as store:
        found = adopt_store(store, source)
        assert [(one.project, one.taken, one.lost) for one in found] == [(project, 3, [])]
        points = store.checkpoints(project)
        assert [point.reason for point in points] == [reason for _, _, reason in listed]
        theirs = [time.mktime(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) for _, stamp, _ in listed]
        assert [point.time_ns // 10**9 for point in points] == [int(stamp) for stamp in theirs]
        contents = [contents_in_store(store, point) for point in points]
        assert [one["src/main.py"] for one in contents] == [b"three\n", b"two\n", b"one\n"]
        assert ["new.txt" in one for one in contents] == [True, True, False]
        assert contents[0][".gitattributes"] == b"* -text\n"
        state = store.state(points[0])
        assert state["run.sh"].mode & 0o111 and state["link"].kind == "symlink"
        fsck(store)
    assert digest(source) == before, "something of Hermes's was changed"


def test_adopting_twice_adds_nothing_and_later_ones_are_added(tmp_path, hermes_store, project, hermes_python):
    source, _ = hermes_store
    with Store.open(str(tmp_path / "ours")) as store:
        adopt_store(store, source)
        again = adopt_store(store, source)
        assert [(one.taken, one.known) for one in again] == [(0, 3)]
        system = Hermes(hermes_python, str(tmp_path / "user"))
        put(os.path.join(project, "src", "main.py"), "four\n")
        system.take(project)
        system.close()
        later = adopt_store(store, source)
        assert [(one.taken, one.known) for one in later] == [(1, 3)]
        assert len(store.checkpoints(project)) == 4


def test_going_back_to_an_adopted_checkpoint_removes_nothing_it_cannot_prove(tmp_path, hermes_store, project):
    """Hermes wrote down nothing of what it left out, so absence proves nothing."""
    source, _ = hermes_store
    put(os.path.join(project, "build", "only-copy.bin"), "precious")
    with Store.open(str(tmp_path / "ours")) as store:
        adopt_store(store, source)
        oldest = store.checkpoints(project)[-1]
        roll_back(store, plan_rollback(store, project, oldest))
    with open(os.path.join(project, "src", "main.py")) as file:
        assert file.read() == "one\n"
    assert os.path.exists(os.path.join(project, "build", "only-copy.bin"))
    assert os.path.exists(os.path.join(project, "new.txt"))


def test_going_back_to_an_adopted_checkpoint_opens_no_private_file_to_others(tmp_path, hermes_store, project):
    source, _ = hermes_store
    os.chmod(os.path.join(project, "src"), 0o700)
    os.chmod(os.path.join(project, "src", "main.py"), 0o600)
    with Store.open(str(tmp_path / "ours")) as store:
        adopt_store(store, source)
        roll_back(store, plan_rollback(store, project, store.checkpoints(project)[-1]))
    assert os.stat(os.path.join(project, "src")).st_mode & 0o777 == 0o700
    assert os.stat(os.path.join(project, "src", "main.py")).st_mode & 0o777 == 0o600


def test_a_gitlink_is_listed_and_a_missing_object_costs_one_checkpoint(tmp_path, hermes_store, project):
    source, _ = hermes_store
    repository = os.path.join(source, "store")

    def git(*words: str, data: bytes = b"") -> str:
        command = ["git", "--git-dir", repository, "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode().strip()

    ref = git("for-each-ref", "--format=%(refname)")
    blob = git("rev-parse", f"{ref}~1:src/main.py")
    entries = git("ls-tree", ref) + "\n160000 commit " + "1" * 40 + "\tsub\n"
    linked = git("mktree", "--missing", data=entries.encode())
    commit = git("commit-tree", linked, "-p", ref, "-m", "with a link")
    git("update-ref", ref, commit)
    os.unlink(os.path.join(repository, "objects", blob[:2], blob[2:]))
    with Store.open(str(tmp_path / "ours")) as store:
        (found,) = adopt_store(store, source)
        assert found.taken == 3
        assert len(found.lost) == 1 and blob[:8] in found.lost[0]
        newest = store.checkpoints(project)[0]
        assert newest.reason == "with a link"
        assert [one.path for one in store.skipped(newest)] == ["sub"]
        fsck(store)


def test_a_project_that_nobody_can_place_is_named_and_not_guessed(tmp_path, hermes_store):
    source, _ = hermes_store
    for name in os.listdir(os.path.join(source, "store", "projects")):
        put(os.path.join(source, "store", "projects", name), '{"workdir": 3}')
    with Store.open(str(tmp_path / "ours")) as store:
        (found,) = adopt_store(store, source)
        assert (found.taken, found.lost) == (0, ["nothing says which directory it was kept for"])
        assert store.projects() == []


# ── the older layout ──────────────────────────────────────────────────────────────────────────────


def older_repository(base: str, name: str, workdir: str, commits: int) -> None:
    """One repository per directory, as Hermes kept them before version 2."""
    place = os.path.join(base, name)
    environment = {"PATH": os.environ["PATH"], "GIT_DIR": place, "GIT_WORK_TREE": workdir}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    git = ["git", "-c", "user.name=Hermes", "-c", "user.email=h@h"]
    os.makedirs(workdir, exist_ok=True)
    os.makedirs(base, exist_ok=True)
    subprocess.run([*git, "init", "-q"], env=environment, check=True)
    for number in range(commits):
        put(os.path.join(workdir, "a.txt"), f"{number}\n")
        subprocess.run([*git, "add", "-A"], env=environment, check=True)
        subprocess.run(
            [*git, "commit", "-q", "-m", f"before write_file {number}"], env=environment, check=True
        )
    put(os.path.join(place, "HERMES_WORKDIR"), workdir + "\n")


def test_older_repositories_are_archived_with_their_history_and_stay_where_they_are(tmp_path):
    base, ours = str(tmp_path / "checkpoints"), str(tmp_path / "ours")
    older_repository(base, "0123456789abcdef", str(tmp_path / "one"), 3)
    older_repository(
        os.path.join(base, "legacy-20260101-000000"), "fedcba9876543210", str(tmp_path / "two"), 1
    )
    before = digest(base)
    archive = archive_legacy(ours, base)
    assert archive is not None and os.path.basename(archive.path).startswith("legacy-")
    assert {one.workdir: len(one.history) for one in archive.repositories} == {
        str(tmp_path / "one"): 3,
        str(tmp_path / "two"): 1,
    }
    first = next(one for one in archive.repositories if len(one.history) == 3)
    assert [entry["reason"] for entry in first.history] == [f"before write_file {n}" for n in (2, 1, 0)]
    shown = subprocess.run(
        ["git", "--git-dir", os.path.join(archive.path, first.name), "show", f"{first.head}:a.txt"],
        capture_output=True,
        check=True,
    )
    assert shown.stdout == b"2\n"
    assert archive_legacy(ours, base) is None, "archived twice"
    assert digest(base) == before


def test_clear_legacy_removes_only_what_safekept_archived(tmp_path):
    base, ours = str(tmp_path / "checkpoints"), str(tmp_path / "ours")
    older_repository(base, "0123456789abcdef", str(tmp_path / "one"), 1)
    archive = archive_legacy(ours, base)
    foreign = put(os.path.join(ours, "legacy-20200101-000000", "somebody", "HEAD"), "ref: x\n")
    os.symlink(base, os.path.join(ours, "legacy-link"))
    before = digest(base)
    assert clear_legacy(ours)[0] == 1
    assert archive is not None and not os.path.exists(archive.path)
    assert os.path.exists(foreign) and digest(base) == before
    assert legacy_archives(ours) == []


def test_an_interrupted_archive_has_no_name(tmp_path, monkeypatch):
    base, ours = str(tmp_path / "checkpoints"), str(tmp_path / "ours")
    older_repository(base, "0123456789abcdef", str(tmp_path / "one"), 1)

    def fail(*words, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safekept.checkpoints.hermes.legacy.shutil.copytree", fail)
    with pytest.raises(OSError, match="No space"):
        archive_legacy(ours, base)
    assert os.listdir(ours) == []


def test_the_command_adopts_and_says_what_it_did(safekept, hermes_store, project, tmp_path):
    home = str(tmp_path / "user" / ".hermes")
    put(os.path.join(home, "config.yaml"), "model: x\n")
    done = safekept("checkpoint", "adopt", "--home", home, "--layout", "hermes")
    assert done.returncode == 0, done.stderr
    assert "Adopted 3 checkpoints" in done.stdout and "Nothing of Hermes's was changed" in done.stdout
    again = safekept("checkpoint", "adopt", "--home", home, "--layout", "hermes", "--json")
    assert json.loads(again.stdout)["projects"][0]["known"] == 3
    listed = safekept("rollback", "--dir", project)
    assert "before write_file" in listed.stdout
