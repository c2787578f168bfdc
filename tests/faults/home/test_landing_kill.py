"""kill -9 at any instant of a landing, an undo or a recovery: the old home, or the new one, exactly."""

import os
import random
import shutil

import pytest

from safekept.home.landing import landings, recover, undo
from support.home.homes import differences
from support.platforms.needs import where_the_disk_can
from support.restoring.landings import (
    database,
    database_bytes,
    directory,
    facts,
    file,
    holding,
    killed_at,
    landed,
    read,
    symlink,
    texts,
    write,
)

SAMPLE, FULL = 25, 140
OLD, NEW = 1_600_000_000_000_000_001, 1_650_000_000_000_000_002


def old_home(place):
    """A home with everything that a landing can meet."""
    home = os.path.join(place, ".hermes")
    write(f"{home}/config.yaml", "model: old\n", 0o600, OLD)
    write(f"{home}/same.md", "same\n", 0o640, NEW)
    write(f"{home}/gateway_state.json", "{}", 0o644, OLD)
    write(f"{home}/memories/MEMORY.md", "old memory", 0o644, OLD)
    write(f"{home}/file-to-directory", "was a file", 0o644, OLD)
    write(f"{home}/directory-to-file/a/deep", "deep", 0o600, OLD)
    write(f"{home}/directory-to-link/inner", "inner", 0o644, OLD)
    write(f"{home}/sealed/inside", "read-only directory", 0o444, OLD)
    write(f"{home}/only-old/one", "1", 0o644, OLD)
    write(f"{home}/only-old/two/three", "3", 0o644, OLD)
    write(f"{home}/odd\nname\udcff", "odd", 0o644, OLD)
    with where_the_disk_can():
        os.symlink("config.yaml", f"{home}/link")
    os.utime(f"{home}/link", ns=(OLD, OLD), follow_symlinks=False)
    os.symlink("/nowhere", f"{home}/link-to-file")
    database(f"{home}/state.db", 10, text="old", log=5)
    database(f"{home}/kanban.db", 10, text="old kanban")
    database(f"{home}/only-old.db", 5, text="only old", log=3)
    write(f"{home}/projects.db-wal", b"a log that lost its database", 0o600, OLD)
    write(f"{place}/.honcho/config.json", "{}", 0o600, OLD)
    for number, (path, _, _) in enumerate(sorted(os.walk(home), reverse=True)):
        os.utime(path, ns=(OLD + number, OLD + number))
    os.chmod(f"{home}/sealed", 0o555)
    return home


def new_entries(scratch):
    data = database_bytes(scratch)
    return [
        file("config.yaml", "model: new\n", 0o600, OLD),  # agrees in all but the bytes
        file("same.md", "same\n", 0o640, NEW),
        file("gateway_state.json", "{'machine': 'other'}", 0o644, NEW),
        directory("memories", 0o700, NEW),
        file("memories/MEMORY.md", "new memory", 0o644, NEW),
        directory("file-to-directory", 0o755, NEW),
        file("file-to-directory/child", "child", 0o644, NEW),
        file("directory-to-file", "now a file", 0o644, NEW),
        symlink("directory-to-link", "memories", NEW),
        directory("sealed", 0o500, NEW),
        file("sealed/inside", "new inside", 0o444, NEW),
        file("sealed/more", "more", 0o444, NEW),
        file("odd\nname\udcff", "still odd", 0o644, NEW),
        symlink("link", "same.md", NEW),
        file("link-to-file", "a file now", 0o755, NEW),
        directory("empty/in/side", 0o711, NEW),
        file("skills/new/run.sh", "#!/bin/sh\n", 0o4755, NEW),
        file("state.db", data, 0o644, NEW, database=True),
        file("kanban.db", data, 0o600, NEW, database=True),
        file("projects.db", data, 0o600, NEW, database=True),
        file("fresh.db", data, 0o600, NEW, database=True),
        file("_external/.honcho/config.json", '{"new": 1}', 0o600, NEW),
        file("_external/.honcho/more/x.json", "{}", 0o600, NEW),
    ]


class Storm:
    """One old home, kept aside and put back before every kill."""

    def __init__(self, tmp_path):
        self.scratch = str(tmp_path / "scratch")
        os.makedirs(self.scratch)
        self.pristine = str(tmp_path / "pristine")
        old_home(self.pristine)
        self.place = str(tmp_path / "user")
        self.entries = new_entries(self.scratch)
        self.count = 0

    @property
    def home(self):
        return os.path.join(self.place, ".hermes")

    def reset(self):
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.pristine, self.place, symlinks=True)
        self.count += 1

    def land(self):
        external = {"_external/.honcho": os.path.join(self.place, ".honcho")}
        return landed(self.home, self.entries, external, operation=f"op-{self.count}", exact=True)

    def state(self):
        return facts(self.home) | {
            f"honcho/{path}": fact
            for path, fact in facts(os.path.join(self.place, ".honcho")).items()
            if path  # a place outside the home keeps its own time
        }


def steps(total, count, seed):
    rng = random.Random(seed)
    return sorted({1, total, *rng.sample(range(2, total), min(count, total) - 2)})


def landing_storm(tmp_path, count, seed):
    storm = Storm(tmp_path)
    storm.reset()
    old = storm.state()
    storm.land()
    new = storm.state()
    assert new != old
    storm.reset()
    total = killed_at(0, storm.land)
    assert total > 120
    rng = random.Random(seed)
    outcomes = {"old": 0, "new": 0}
    for step in steps(total, count, seed):
        storm.reset()
        assert killed_at(step, storm.land) == -1
        if rng.random() < 0.5:  # and the recovery is killed as well
            killed_at(rng.randrange(1, 60), lambda: recover(storm.home))
        recover(storm.home)
        now = storm.state()
        assert without_times(now) in (without_times(old), without_times(new)), (
            f"step {step} of {total}: {closer(now, old, new)}"
        )
        outcomes["old" if without_times(now) == without_times(old) else "new"] += 1
        if without_times(now) == without_times(old):
            assert now == old, f"step {step}: {differences(old, now)}"
        assert recover(storm.home) == []
        assert_nothing_left(storm.home)
    assert outcomes["old"] > 0.8 * sum(outcomes.values()), "the storm hardly killed anything"
    return outcomes


def closer(now, old, new):
    """How it differs from the state that it is nearer to."""
    return min(differences(old, now), differences(new, now), key=len)


def without_times(state):
    """Directories that the source does not list get the time of the landing itself."""
    return {path: fact[:2] if fact[0] == "directory" else fact for path, fact in state.items()}


def assert_nothing_left(home):
    area = home + ".safekept"
    for operation in os.listdir(f"{area}/landings") if os.path.isdir(f"{area}/landings") else []:
        assert sorted(os.listdir(f"{area}/landings/{operation}")) == ["landed.jsonl", "replaced"]
    for place, names, files in os.walk(os.path.dirname(home)):
        strays = [name for name in names + files if name.startswith(".safekept-tmp-")]
        assert not strays, (place, strays)


def undo_storm(tmp_path, count, seed):
    storm = Storm(tmp_path)
    storm.reset()
    old = storm.state()
    storm.land()
    total = killed_at(0, lambda: undo(storm.home))
    assert storm.state() == old
    assert total > 80
    rng = random.Random(seed)
    for step in steps(total, count, seed):
        storm.reset()
        storm.land()
        new = storm.state()
        assert killed_at(step, lambda: undo(storm.home)) == -1
        if rng.random() < 0.5:
            killed_at(rng.randrange(1, 60), lambda: recover(storm.home))
        recover(storm.home)
        now = storm.state()
        assert now in (old, new), f"step {step} of {total}: {closer(now, old, new)}"
        if now == new:  # not undone: it still can be
            undo(storm.home)
            assert storm.state() == old, f"step {step} of {total}"
        assert len([past for past in landings(storm.home) if not past.undone_by]) == 1
        undo(storm.home)
        assert storm.state() == new, f"undo of the undo after step {step}"


def held_storm(tmp_path, count, seed):
    """The database is open in another process all the time: old rows or new rows, never a mix."""
    os.makedirs(tmp_path / "scratch")
    data = database_bytes(str(tmp_path / "scratch"))
    entries = [file("config.yaml", "new"), file("state.db", data), file("kanban.db", data)]
    old, new = [f"old {n}" for n in range(10)], [f"new {n}" for n in range(20)]

    def round_of(step):
        home = str(tmp_path / f"home-{step}" / ".hermes")
        write(f"{home}/config.yaml", "old")
        database(f"{home}/state.db", 10)
        database(f"{home}/kanban.db", 10, journal="delete")
        inodes = [os.stat(f"{home}/{name}.db").st_ino for name in ("state", "kanban")]
        with holding(f"{home}/state.db"), holding(f"{home}/kanban.db"):
            changes = killed_at(step, lambda: landed(home, entries))
            recover(home)
            committed = landings(home) != []
            assert read(f"{home}/config.yaml") == (b"new" if committed else b"old"), f"step {step}"
            for name, inode in zip(("state", "kanban"), inodes, strict=True):
                assert texts(f"{home}/{name}.db") == (new if committed else old), f"{name}.db, step {step}"
                assert os.stat(f"{home}/{name}.db").st_ino == inode
        return changes

    total = round_of(0)
    for step in steps(total, count, seed):
        assert round_of(step) == -1


def test_killed_landing_into_databases_that_are_open_leaves_old_rows_or_new_ones(tmp_path):
    held_storm(tmp_path, 8, seed=24)


@pytest.mark.soak("archive")
def test_killed_landing_into_databases_that_are_open_at_every_point(tmp_path):
    held_storm(tmp_path, FULL, seed=25)


@pytest.mark.needs("proc or programs", "it asks who has a database open")
@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_killed_landing_leaves_the_old_home_or_the_new_one(tmp_path):
    landing_storm(tmp_path, SAMPLE, seed=20)


@pytest.mark.needs("proc or programs", "it asks who has a database open")
@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_killed_undo_leaves_the_new_home_or_the_old_one(tmp_path):
    undo_storm(tmp_path, SAMPLE - 10, seed=21)


@pytest.mark.soak("archive")
def test_killed_landing_leaves_the_old_home_or_the_new_one_at_every_point(tmp_path):
    landing_storm(tmp_path, FULL, seed=22)


@pytest.mark.soak("archive")
def test_killed_undo_leaves_the_new_home_or_the_old_one_at_every_point(tmp_path):
    undo_storm(tmp_path, FULL, seed=23)
