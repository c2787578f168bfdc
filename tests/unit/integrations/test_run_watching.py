"""When a watch takes a checkpoint, what counts as a change, and what it does without notifications."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading

import pytest

from conftest import missing_part
from safekept.checkpoints.checkpoints import Checkpoints
from safekept.checkpoints.store.store import Store
from safekept.integrations.run import changes as sources
from safekept.integrations.run.changes import CannotWatch, Notifications, PollingWatch, Relevance, best_source
from safekept.integrations.run.watching import PauseDetector, Watch
from support.projects.checkpoints import put

# ── the rhythm ─────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_due_before_something_changed():
    rhythm = PauseDetector(2.0)
    assert rhythm.due_at() is None and not rhythm.due(1e9) and not rhythm.waiting


def test_a_quiet_moment_after_changes_is_due_and_each_change_puts_it_off():
    rhythm = PauseDetector(2.0)
    rhythm.changed(10.0)
    rhythm.changed(11.5)
    assert (rhythm.due(13.4), rhythm.due(13.5)) == (False, True)
    assert rhythm.in_a_burst(13.4) and not rhythm.in_a_burst(13.5)
    rhythm.taking()
    assert rhythm.due_at() is None


def test_changes_without_end_are_kept_all_the_same():
    rhythm = PauseDetector(2.0)
    for tenth in range(299):
        rhythm.changed(tenth / 10)
        assert not rhythm.due(tenth / 10)
    rhythm.changed(30.0)
    assert rhythm.due(30.0) and rhythm.in_a_burst(30.0)


def test_checkpoints_take_no_more_than_their_share_of_a_processor():
    rhythm, now, spent = PauseDetector(0.1, share=0.1), 0.0, 0.0
    while now < 1000:
        rhythm.changed(now)
        due = rhythm.due_at()
        assert due is not None
        now = max(now, due)
        rhythm.taking()
        now, spent = now + 3.0, spent + 3.0
        rhythm.took(now, 3.0)
    assert (spent - 3.0) / now <= 0.1  # the rest after the last one is still to come


def test_a_checkpoint_that_failed_is_tried_again_after_a_while_that_grows():
    rhythm, now, waits = PauseDetector(2.0), 0.0, []
    rhythm.changed(now)
    for _ in range(8):
        due = rhythm.due_at()
        assert due is not None
        waits.append(due - now)
        now = due
        rhythm.taking()
        rhythm.failed(now, 0.0)
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    rhythm.taking()
    rhythm.took(now, 0.0)
    rhythm.changed(now)
    assert rhythm.due_at() == now + 2.0


# ── what counts ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def place(tmp_path):
    project = os.path.realpath(os.path.join(str(tmp_path), "project"))
    put(os.path.join(project, "package.json"), "{}")
    return project


@pytest.fixture
def store(tmp_path):
    directory = os.path.join(str(tmp_path), "data", "checkpoints")
    with Store.open(directory):
        return directory


@pytest.fixture
def relevance(place, store):
    made = Relevance(place, os.path.join(store, "store"), ("*.tmp",), (os.path.join(place, "ours"),))
    yield made
    made.forget()


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("a", True),
        ("deep/er/a", True),
        ("builder/a", True),
        ("", True),  # the project itself: gone, or another
        ("node_modules/x/index.js", False),
        ("deep/node_modules", False),
        (".git/index", False),
        ("deep/.git/HEAD", False),
        ("a.pyc", False),
        (".env", False),
        ("a.tmp", False),
        ("ours/checkpoints/store/objects/pack/p", False),
        ("ignored/by/git", False),
        ("ignored-not", True),
        ("../elsewhere", False),
    ],
)
def test_only_what_a_checkpoint_would_hold_counts_as_a_change(relevance, place, path, counts):
    put(os.path.join(place, ".gitignore"), "ignored/\n*.cache\n")
    path = os.path.normpath(os.path.join(place, path))
    assert relevance.counts({path}) is counts


def test_one_change_that_counts_is_enough_and_a_flood_is_not_asked_about(relevance, place):
    put(os.path.join(place, ".gitignore"), "*.cache\n")
    hidden = {os.path.join(place, f"{number}.cache") for number in range(50)}
    assert not relevance.counts(hidden)
    assert relevance.counts({*hidden, os.path.join(place, "a")})
    assert relevance.counts({os.path.join(place, f"{number}.cache") for number in range(1000)})


def test_new_rules_hold_at_once(relevance, place):
    name, rules = os.path.join(place, "x.cache"), os.path.join(place, ".gitignore")
    assert relevance.counts({name})
    put(rules, "*.cache\n")
    assert relevance.counts({rules}) and not relevance.counts({name})


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_only_directories_that_count_are_watched(relevance, place):
    put(os.path.join(place, ".gitignore"), "ignored/\n")
    for name in ("src/deep/a", "node_modules/x/y/z", ".git/objects/a", "ignored/x/y", "ours/x", "build/o"):
        put(os.path.join(place, name))
    os.symlink("/", os.path.join(place, "link"))
    found = {os.path.relpath(directory, place) for directory, _ in relevance.walk()}
    assert found == {".", "src", "src/deep"}


# ── where the news come from ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def stop():
    return threading.Event()


def changed(source, path, tries=200):
    """Whether the news of this path come; other news do not count."""
    return any(path in source.wait(0.3) for _ in range(tries))


def test_notifications_tell_of_files_and_of_new_directories(relevance, place, stop):
    source = Notifications(relevance, stop)
    try:
        put(os.path.join(place, "a"), "1")
        assert changed(source, os.path.join(place, "a"))
        assert not source.stale
        put(os.path.join(place, "new", "folder", "b"))
        assert changed(source, os.path.join(place, "new"))
        assert source.stale
        source.again()
        put(os.path.join(place, "new", "folder", "b"), "2")
        assert changed(source, os.path.join(place, "new", "folder", "b"))
    finally:
        source.close()


def test_a_directory_that_is_made_while_watches_are_set_up_is_watched_too(
    relevance, place, stop, monkeypatch
):
    import watchfiles._rust_notify as real

    made, watching = [], real.RustNotify

    def late(*words):
        if not made:
            made.append(put(os.path.join(place, "late", "a")))
        return watching(*words)

    monkeypatch.setattr(real, "RustNotify", late)
    source = Notifications(relevance, stop)
    try:
        put(made[0], "changed")
        assert changed(source, made[0])
    finally:
        source.close()


def test_notifications_that_break_off_are_set_up_anew(relevance, place, stop):
    source = Notifications(relevance, stop)
    try:
        source._notify.close()  # what is asked now answers with an error
        assert source.wait(0.1) == {place} and source.stale
        source.again()
        put(os.path.join(place, "a"), "1")
        assert changed(source, os.path.join(place, "a")) and not source.stale
    finally:
        source.close()


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_a_file_whose_name_is_no_text_is_news_of_the_project(relevance, place, stop):
    source = Notifications(relevance, stop)
    try:
        put(os.path.join(place, os.fsdecode(b"not \xff text")), "1")
        assert changed(source, place) and source.stale
        source.again()
        put(os.path.join(place, "a"), "1")
        assert changed(source, os.path.join(place, "a"))
    finally:
        source.close()


@pytest.mark.needs("times", "it looks at times finer than a second")
def test_where_the_system_gives_no_notifications_the_project_is_looked_at(
    relevance, place, stop, monkeypatch
):
    def refused(*_):
        raise OSError('OS file watch limit reached. about ["/x"]')

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", refused)
    source, why = best_source(relevance, stop, 0.01)
    assert isinstance(source, PollingWatch) and not source.native
    assert why == "the system's limit for file notifications is reached (fs.inotify)"
    assert source.wait(0.01) == set()
    for change in (
        lambda: put(os.path.join(place, "a"), "1"),
        lambda: put(os.path.join(place, "new", "b")),
        lambda: os.chmod(os.path.join(place, "a"), 0o600),
        lambda: os.unlink(os.path.join(place, "a")),
    ):
        change()
        assert source.wait(0.01) == {place}
        assert source.wait(0.01) == set()
    put(os.path.join(place, "node_modules", "x"), "1")
    assert source.wait(0.01) == set()


def test_a_network_filesystem_is_looked_at(relevance, stop, monkeypatch):
    monkeypatch.setattr(sources, "kind_of_filesystem", lambda device: "nfs4")
    source, why = best_source(relevance, stop, 0.01)
    assert isinstance(source, PollingWatch) and why == "the project lies on a network filesystem (nfs4)"


def test_the_real_limit_of_the_system_is_noticed(relevance, place, stop, tmp_path):
    """In a user namespace of its own, where the limit can be lowered without harm to anybody."""
    script = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "import threading\n"
        "from safekept.integrations.run.changes import Relevance\n"
        "from safekept.integrations.run.changes import best_source\n"
        "print(best_source(Relevance(sys.argv[1], sys.argv[2]), threading.Event(), 0.1)[1])\n"
    )
    import sys

    for number in range(5):
        put(os.path.join(place, f"d{number}", "a"))
    words = [sys.executable, "-c", script, place, os.path.join(str(tmp_path), "none"), *sys.path]
    if shutil.which("unshare") is None:
        missing_part("there is no unshare")
    lowered = 'echo 3 > /proc/sys/user/max_inotify_watches && exec "$@"'
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", lowered, "sh", *words], capture_output=True, text=True
    )
    if "unshare" in done.stderr or "max_inotify" in done.stderr:
        missing_part(f"no namespace can be made here: {done.stderr.strip()}")
    assert done.stdout.strip() == "the system's limit for file notifications is reached (fs.inotify)"


# ── the watch ──────────────────────────────────────────────────────────────────────────────────────


class Playing:
    """A source that plays what a test gives it, and a clock that runs as far as is waited."""

    native, stale = True, False

    def __init__(self, stop, news):
        self.now, self.news, self.stop, self.again_called = 0.0, list(news), stop, 0

    def clock(self):
        return self.now

    def again(self):
        self.again_called += 1
        self.stale = False

    def close(self):
        return

    def wait(self, seconds):
        if not self.news:
            self.stop.set()
            return set()
        at, action = self.news[0]
        if at > self.now + seconds:
            self.now += seconds
            return set()
        self.now = max(self.now, at)
        self.news.pop(0)
        return action()


@pytest.fixture
def watch(relevance, place, store, stop, monkeypatch):
    def make(*news):
        playing = Playing(stop, news)
        monkeypatch.setattr("safekept.integrations.run.watching.best_source", lambda *_: (playing, ""))
        monkeypatch.setattr("safekept.integrations.run.watching._processor_seconds", lambda: 0.0)
        checkpoints = Checkpoints(store, chosen=(place,))
        made = Watch(
            checkpoints, relevance, session="s", agent="robot", quiet=2.0, stop=stop, clock=playing.clock
        )
        return made, playing

    return make


def points(store, place):
    with Store.open(store) as opened:
        return [(one.kind, one.reason, one.turn) for one in reversed(opened.checkpoints(place))]


def test_a_watch_takes_one_point_for_each_burst_and_a_mark_at_the_end(watch, place, store):
    def write(name):
        return lambda: {put(os.path.join(place, name), os.urandom(4))}

    made, _ = watch((1, write("a")), (2, write("b")), (2.5, write("a")), (9, write("c")), (20, set))
    assert made.begin()
    made.follow()
    made.end()
    made.close()
    assert points(store, place) == [
        ("before", "before robot", "1"),
        ("before", "robot was quiet", "2"),
        ("before", "robot was quiet", "3"),
        ("after", "after robot", "3"),
    ]
    assert len(made.account.points) == 3 and made.account.passes == 3 and made.account.after


def test_a_watch_goes_on_when_the_project_goes_and_comes_back(watch, place, store):
    aside = place + "-aside"

    def go():
        os.rename(place, aside)
        return {place}

    def come():
        os.makedirs(place)
        put(os.path.join(place, "other"), "1")
        return set()

    made, playing = watch((1, go), (9, come), (10, set), (30, set))
    assert made.begin()
    made.follow()
    made.end()
    made.close()
    assert made.account.gone >= 1 and playing.again_called >= 1
    assert [one["code"] for one in made.account.failures] == ["project-gone"]
    with Store.open(store) as opened:
        newest = opened.checkpoints(place)[0]
        assert "other" in opened.state(newest) and "package.json" not in opened.state(newest)


def test_a_change_that_could_not_be_kept_is_kept_later(watch, place, store):
    def spoil():
        os.rename(store, store + "-away")
        put(store, "in the way")
        return {put(os.path.join(place, "a"), "kept after all")}

    def mend():
        os.unlink(store)
        os.rename(store + "-away", store)
        return set()

    made, _ = watch((1, spoil), (20, mend), (60, set))
    assert made.begin()
    made.follow()
    made.close()
    assert made.account.failures and int(made.account.failures[0]["times"]) > 1
    with Store.open(store) as opened:
        assert "a" in opened.state(opened.checkpoints(place)[0])


def test_a_watch_looks_for_itself_once_the_limit_is_reached(watch, place, relevance, monkeypatch):
    made, playing = watch((1, lambda: {put(os.path.join(place, "a"), "1")}), (9, set))

    def refuse():
        raise CannotWatch("no more")

    assert made.begin()
    playing.again = refuse
    playing.stale = True
    looked = []

    class Blind(Playing):
        native = False

        def __init__(self, *_):
            super().__init__(playing.stop, [])
            looked.append(self)

    monkeypatch.setattr("safekept.integrations.run.watching.PollingWatch", Blind)
    made.follow()
    made.close()
    assert looked and not made.account.native and made.account.why == "no more"
