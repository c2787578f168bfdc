"""A listing stores nothing, some directories are never a project, and no secret of a home reaches git."""

from __future__ import annotations

import os
import subprocess

import pytest

from safekept.actions.hosts.calls import read_host_calls
from safekept.checkpoints.store.store import Store
from safekept.integrations import home_paths
from safekept.integrations.calls import Call
from safekept.integrations.protect import Place, protect
from support.commands.in_process import spoken
from support.hosts.throwaway_helper import throwaway
from support.projects.checkpoints import put

SECRET = "sk-not-for-anybody-0123456789"


@pytest.fixture
def user(tmp_path):
    made = throwaway(tmp_path)
    home = os.path.join(made.home, ".hermes")
    for name in ("auth.json", ".env", "profiles/coder/auth.json", "mcp-tokens/one.json"):
        put(os.path.join(home, name), SECRET, 0o600)
    put(os.path.join(home, "config.yaml"), "model: x\n")
    put(os.path.join(home, "SOUL.md"), "kind\n")
    put(os.path.join(home, "profiles/coder/config.yaml"), "model: y\n")
    return made


@pytest.fixture
def say(user, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HERMES_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in user.environment.items():
        monkeypatch.setenv(name, value)
    return spoken(monkeypatch, user.home)


@pytest.fixture
def place(user):
    return Place.load(user.environment)


def stores(user):
    """Every file below the checkpoint directory, with its looks."""
    found = {}
    for above, _, names in os.walk(os.path.join(user.data, "checkpoints")):
        for name in names:
            path = os.path.join(above, name)
            found[path] = (os.stat(path).st_size, os.stat(path).st_mtime_ns)
    return found


def texts_in_git(user):
    """All that can be read in the checkpoint store, whatever holds it."""
    store = os.path.join(user.data, "checkpoints", "store")
    if not os.path.isdir(store):
        return b""
    listed = subprocess.run(
        ["git", "-C", store, "cat-file", "--batch-all-objects", "--batch"], capture_output=True, check=True
    )
    return listed.stdout


def before(place, directory, *paths, shell=False, session="s"):
    call = Call(
        "before", "hermes", "terminal" if shell else "write_file", tuple(paths), shell, directory, session
    )
    return protect(call, place)


# ── a listing stores nothing ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words", [(), ("--all",), ("--all-projects",), ("--json",)], ids=lambda words: " ".join(words) or "bare"
)
def test_a_list_makes_no_store(say, user, words):
    assert say("rollback", *words).code in (0, 1)
    assert say("rollback", *words, "--dir", os.path.join(user.home, "project")).code in (0, 1)
    assert not os.path.exists(user.data), "no store, no journal, nothing"


def test_the_advice_of_a_list_works_where_no_project_can_be(say):
    assert "It is never taken whole; name a project: `safekept checkpoint DIR`" in say("rollback").out


def test_a_list_and_a_difference_of_a_changed_project_store_nothing(say, user):
    project = os.path.join(user.home, "project")
    put(os.path.join(project, "package.json"), "{}")
    put(os.path.join(project, "a.txt"), "one")
    assert say("checkpoint", project).code == 0
    put(os.path.join(project, "a.txt"), "two, which is longer")
    kept = stores(user)
    for words in ((), ("--all",), ("--diff",), ("1", "--diff", "--json"), ("--all-projects",)):
        said = say("rollback", "--dir", project, *words)
        assert said.code == 0
    assert "two, which is longer" in say("rollback", "--dir", project, "--diff").out
    assert stores(user) == kept


def test_a_list_in_the_home_directory_takes_nothing_but_what_was_named(say, user, place):
    """A tool named one file there; the list then copied all of the home directory."""
    put(os.path.join(user.home, ".bashrc"), "alias a=b\n")
    put(os.path.join(user.home, "letters.txt"), "dear diary")
    assert before(place, user.home, os.path.join(user.home, ".bashrc")).checkpoints
    put(os.path.join(user.home, ".bashrc"), "alias a=c\n")
    assert say("rollback").code == 0
    assert "alias a=b" in say("rollback", "--diff").out
    said = say("rollback", "1")
    assert said.code == 0
    with open(os.path.join(user.home, ".bashrc")) as file:
        assert file.read() == "alias a=b\n"
    kept = texts_in_git(user)
    assert b"dear diary" not in kept
    assert SECRET.encode() not in kept


# ── what is never a project ────────────────────────────────────────────────────────────────────────


def never(user):
    """Directories that hold too much, each with the marker of a project in it."""
    work = os.path.join(user.home, "work")
    put(os.path.join(work, "agent", "state.db"), "")
    put(os.path.join(work, "agent", "config.yaml"), "model: z\n")
    put(os.path.join(work, "agent", "auth.json"), SECRET)
    places = [user.home, work, os.path.join(work, "agent"), os.path.dirname(user.data), user.data]
    for one in places:
        os.makedirs(os.path.join(one, ".git"), exist_ok=True)
    return places


def test_a_directory_that_holds_a_home_or_our_stores_is_never_a_project(say, user, monkeypatch):
    places = never(user)
    monkeypatch.setenv("HERMES_HOME", os.path.join(user.home, "work", "agent"))
    for one in [*places, "/"]:
        said = say("checkpoint", one)
        assert said.code == 1, one
        assert "not-a-project" in said.err
        assert "safekept checkpoint DIR" in said.err
    assert SECRET.encode() not in texts_in_git(user)


def test_a_command_in_such_a_directory_is_told_once_and_counts_as_not_kept(user):
    places = never(user)
    environment = {**user.environment, "HERMES_HOME": os.path.join(user.home, "work", "agent")}
    place = Place.load(environment)
    for one in (places[0], places[1]):
        put(os.path.join(one, "plain.txt"), "plain")
        first = before(place, one, shell=True)
        assert [item.reason for item in first.skipped] == ["too-much"]
        assert len(first.notices) == 1
        assert "only files that a tool names are kept" in first.notices[0]
        assert before(place, one, shell=True).notices == ()
    (host,) = read_host_calls(place.context)
    assert "holds" in host.unkept
    assert b"plain" not in texts_in_git(user)


def test_a_file_that_is_named_there_is_kept_all_the_same(user, place):
    never(user)
    named = os.path.join(user.home, "notes.txt")
    put(named, "a note")
    assert before(place, user.home, named).checkpoints
    assert b"a note" in texts_in_git(user)


def test_a_store_of_an_earlier_version_with_a_home_in_it_is_not_filled_further(say, user, place):
    """It took whole passes of the home directory; a rollback there brings a file back, and adds no more."""
    from safekept.checkpoints.take import take

    put(os.path.join(user.home, "a.txt"), "one")
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        point = take(store, user.home, reason="before write_file").checkpoint.id
    put(os.path.join(user.home, "a.txt"), "two")
    put(os.path.join(user.home, "private.txt"), "dear diary")
    assert say("rollback").code == 0
    assert say("rollback", point, "a.txt").code == 0
    with open(os.path.join(user.home, "a.txt")) as file:
        assert file.read() == "one"
    assert b"dear diary" not in texts_in_git(user)


# ── secrets of homes ───────────────────────────────────────────────────────────────────────────────


def test_a_secret_of_a_home_that_is_named_never_enters_the_store(say, user, place, monkeypatch):
    monkeypatch.setattr(
        home_paths,
        "keep_home_paths",
        lambda call, place, at_home: home_paths.HomeKept(
            unkept=tuple(path for paths in at_home.values() for path in paths)
        ),
    )  # the vault cannot be written
    home = os.path.join(user.home, ".hermes")
    names = [
        os.path.join(home, name) for name in ("auth.json", "profiles/coder/auth.json", "mcp-tokens/one.json")
    ]
    found = before(place, home, *names, os.path.join(home, "SOUL.md"))
    assert {one.reason for one in found.skipped} == {"secret"}
    for name in names:
        assert say("checkpoint", home, name).code == 3
        assert say("checkpoint", os.path.dirname(name), os.path.basename(name)).code == 3
    kept = texts_in_git(user)
    assert b"kind" in kept
    assert SECRET.encode() not in kept


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_secret_behind_a_link_never_enters_the_store(say, user, place):
    home, project = os.path.join(user.home, ".hermes"), os.path.join(user.home, "project")
    put(os.path.join(project, "package.json"), "{}")
    os.symlink(home, os.path.join(project, "agent"))
    os.symlink(os.path.join(home, "auth.json"), os.path.join(project, "keys.json"))
    os.link(os.path.join(home, "auth.json"), os.path.join(project, "twin.txt"))
    before(place, project, "agent/auth.json", "keys.json", "twin.txt", shell=True)
    assert say("checkpoint", project, "keys.json", "agent/auth.json", "twin.txt").code == 3
    assert say("checkpoint", project).code in (0, 3)
    assert SECRET.encode() not in texts_in_git(user)


def test_a_secret_of_a_profile_that_looks_like_a_project_never_enters_the_store(say, user):
    profile = os.path.join(user.home, ".hermes", "profiles", "coder")
    put(os.path.join(profile, "requirements.txt"), "x\n")
    say("checkpoint", profile)
    assert SECRET.encode() not in texts_in_git(user)


def test_a_secret_of_a_home_that_nobody_named_never_enters_the_store(say, user):
    """A copy of a home in a project: no setting leads to it, what lies in it does."""
    project = os.path.join(user.home, "project")
    put(os.path.join(project, "package.json"), "{}")
    for name in ("state.db", "auth.json", "auth/google_oauth.json", ".anthropic_oauth.json"):
        put(os.path.join(project, "old-home", name), SECRET if "." in name[1:] and name != "state.db" else "")
    put(os.path.join(project, "codex", "auth.json"), SECRET)
    put(os.path.join(project, "codex", "session_index.jsonl"), "")
    put(os.path.join(project, "claude", ".credentials.json"), SECRET)
    put(os.path.join(project, "gemini", "oauth_creds.json"), SECRET)
    put(os.path.join(project, "locales", "auth.json"), '{"login": "Log in, please"}')
    assert say("checkpoint", project).code in (0, 3)
    kept = texts_in_git(user)
    assert SECRET.encode() not in kept
    assert b"Log in, please" in kept, "a file of that name that is no secret"
