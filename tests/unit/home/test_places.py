"""Finding homes on disk and in archives."""

from __future__ import annotations

import os

import pytest

from safekept.core.agents import HomeUnknown, locate_home, recognise_home
from safekept.home.layout.layout import find_home, load_layouts, recognise
from safekept.home.layout.places import HomeEmpty, HomeNotDirectory, HomeNotFound, HomeUnreadable
from support.users.unprivileged import as_nobody, nobodys

__all__ = ["nobodys"]

LAYOUTS = load_layouts()
HERMES = LAYOUTS["hermes"]


def make(root: object, *paths: str) -> str:
    for path in paths:
        full = os.path.join(str(root), path)
        if path.endswith("/"):
            os.makedirs(full)
        else:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as file:
                file.write("x")
    return os.path.realpath(str(root))


def test_the_default_place_is_used_without_a_variable(tmp_path: object) -> None:
    user = make(tmp_path, ".hermes/config.yaml")
    assert find_home(HERMES, {}, user) == f"{user}/.hermes"
    assert find_home(HERMES, {"HERMES_HOME": "  "}, user) == f"{user}/.hermes"


def test_the_variable_wins(tmp_path: object) -> None:
    user = make(tmp_path, ".hermes/config.yaml", "other/config.yaml")
    assert find_home(HERMES, {"HERMES_HOME": f"{user}/other"}, user) == f"{user}/other"
    assert find_home(HERMES, {"HERMES_HOME": "~/other"}, user) == f"{user}/other"
    assert find_home(HERMES, {"HERMES_HOME": f"{user}/other/"}, user) == f"{user}/other"


def test_a_profile_means_the_home_around_it(tmp_path: object) -> None:
    user = make(tmp_path, ".hermes/profiles/coder/.env", "data/profiles/coder/.env", ".hermes/work/x")
    assert find_home(HERMES, {"HERMES_HOME": f"{user}/.hermes/profiles/coder"}, user) == f"{user}/.hermes"
    assert find_home(HERMES, {"HERMES_HOME": f"{user}/data/profiles/coder"}, user) == f"{user}/data"
    assert find_home(HERMES, {"HERMES_HOME": f"{user}/.hermes/work"}, user) == f"{user}/.hermes"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_home_behind_a_link_is_used_where_it_is(tmp_path: object) -> None:
    user = make(tmp_path, "disk/hermes/config.yaml", "user/")
    os.symlink(f"{user}/disk/hermes", f"{user}/user/.hermes")
    assert find_home(HERMES, {}, f"{user}/user") == f"{user}/disk/hermes"
    assert os.path.islink(f"{user}/user/.hermes")


def test_gemini_keeps_its_state_below_what_its_variable_names(tmp_path: object) -> None:
    user = make(tmp_path, "elsewhere/.gemini/settings.json")
    assert (
        find_home(LAYOUTS["gemini"], {"GEMINI_CLI_HOME": f"{user}/elsewhere"}, user)
        == f"{user}/elsewhere/.gemini"
    )


def test_a_missing_home_is_an_error_that_says_where(tmp_path: object) -> None:
    user = make(tmp_path)
    assert locate_home(HERMES, {}, user) == f"{user}/.hermes"
    with pytest.raises(HomeNotFound) as caught:
        find_home(HERMES, {}, user)
    assert caught.value.what == f"There is no Hermes Agent home at `{user}/.hermes`"
    assert caught.value.kept == "Nothing changed"
    assert "`safekept import FILE`" in caught.value.advice()[-1]
    with pytest.raises(HomeNotFound, match="`HERMES_HOME` says so") as named:
        find_home(HERMES, {"HERMES_HOME": f"{user}/no"}, user)
    assert "Correct `HERMES_HOME`" in named.value.advice()[0]


def test_a_file_or_an_empty_directory_is_no_home(tmp_path: object) -> None:
    user = make(tmp_path, "file", "empty/")
    with pytest.raises(HomeNotDirectory, match="is not a directory"):
        find_home(HERMES, {"HERMES_HOME": f"{user}/file"}, user)
    with pytest.raises(HomeEmpty, match="is empty") as caught:
        find_home(HERMES, {"HERMES_HOME": f"{user}/empty"}, user)
    assert "disk is mounted" in caught.value.advice()[0]


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_home_that_may_not_be_read_is_said_so_to_its_user(nobodys: str) -> None:
    make(nobodys, "locked/config.yaml")
    os.chmod(f"{nobodys}/locked", 0)

    def attempt() -> tuple[str, str, tuple[str, ...]]:
        try:
            find_home(HERMES, {"HERMES_HOME": f"{nobodys}/locked"}, "/")
        except HomeUnreadable as error:
            return error.what, error.kept, error.advice()
        return "found", "", ()

    what, kept, next_steps = as_nobody(attempt)
    said = f"The Hermes Agent home `{nobodys}/locked` (`HERMES_HOME` says so)"
    assert what == said + " cannot be read: Permission denied"
    assert kept == "Nothing changed"
    assert next_steps[0] == "Run safekept as the user who owns the home"


def test_generic_must_be_named() -> None:
    with pytest.raises(HomeUnknown, match="no usual place") as caught:
        locate_home(LAYOUTS["generic"], {}, "/home/u")
    assert "`--home PATH`" in caught.value.advice()[0]


HOME = [
    "config.yaml",
    ".env",
    "state.db",
    "skills/a/SKILL.md",
    "profiles/coder/state.db",
    "profiles/coder/.env",
]


@pytest.mark.parametrize("wrapper", ["", ".hermes", "hermes", "home/user/.hermes", "backup 1/my/.hermes"])
@pytest.mark.parametrize("dotted", ["", "./"])
def test_a_home_in_an_archive_is_found_with_its_wrapper(wrapper: str, dotted: str) -> None:
    members = [dotted + os.path.join(wrapper, path) for path in HOME]
    assert recognise(reversed(members)) == ("hermes", wrapper)


def test_one_common_name_is_no_home() -> None:
    # V-12: any zip with a `config.yaml` anywhere was once taken for a backup.
    assert recognise(["config.yaml"]) is None
    assert recognise(["project/config.yaml", "other/.env", "docs/skills/x"]) is None
    assert recognise([]) is None
    assert recognise(["a/state.db.bak", "b/mystate.db"]) is None
    assert recognise(["state.db/x"]) is None  # a directory of that name is not the file


def test_two_weak_signs_at_one_place_are_enough() -> None:
    assert recognise(["h/config.yaml", "h/.env"]) == ("hermes", "h")
    assert recognise(["h/memories/", "h/SOUL.md"]) == ("hermes", "h")


def test_the_outermost_home_wins_over_what_is_inside_it() -> None:
    assert recognise(["x/profiles/coder/state.db", "x/state.db"]) == ("hermes", "x")
    assert recognise(["x/profiles/coder/state.db", "x/profiles/coder/.env"]) == ("hermes", "x")
    assert recognise([".hermes/config.yaml", ".hermes/.env", ".hermes/skills/s/state.db"]) == (
        "hermes",
        ".hermes",
    )


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ([".openclaw/openclaw.json", ".openclaw/workspace/SOUL.md", ".openclaw/agents/main/x"], "openclaw"),
        ([".codex/config.toml", ".codex/auth.json", ".codex/sessions/2026/x.jsonl"], "codex"),
        ([".claude/settings.json", ".claude/projects/p/s.jsonl", ".claude/CLAUDE.md"], "claude-code"),
        ([".gemini/settings.json", ".gemini/oauth_creds.json"], "gemini"),
    ],
)
def test_other_agents_are_told_apart(members: list[str], name: str, tmp_path: object) -> None:
    wrapper = members[0].split("/")[0]
    assert recognise(members) == (name, wrapper)
    root = make(tmp_path, *members)
    assert recognise_home(os.path.join(root, wrapper), LAYOUTS) == name


def test_an_unknown_directory_has_no_layout(tmp_path: object) -> None:
    assert recognise_home(make(tmp_path, "config.yaml"), LAYOUTS) == ""
