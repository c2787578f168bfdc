"""`rollback` of an agent's own files: in one list with a project's points, by id, and by number at home."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from safekept.actions.projects.home_points.rollback import HomeRollbackRequest, roll_back_home
from safekept.actions.projects.home_points.take import before_home_change
from safekept.actions.projects.home_points.timeline import home_points
from safekept.integrations.chat.chat import Conversation, dispatch
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home, tree_facts
from support.projects.checkpoints import put
from support.restoring.landings import killed_at
from support.users.contexts import throwaway


@pytest.fixture
def user(tmp_path):
    here = throwaway(os.path.realpath(tmp_path))
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    return here, home


@pytest.fixture
def say(user, monkeypatch):
    for name in ("HERMES_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return spoken(monkeypatch, user[0].places.user_home)


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read()


def points_of(text):
    """The lines of a list, without those that name a turn."""
    return [line for line in text.splitlines() if not line.startswith("  turn ")]


def worked(user, say, monkeypatch):
    """A project and a home that an agent changed by turns, and both home points, the first one first."""
    here, home = user
    project = os.path.join(here.places.user_home, "project")
    put(os.path.join(project, "pyproject.toml"), "")
    put(os.path.join(project, "main.py"), "one\n")
    monkeypatch.chdir(project)
    first = before_home_change(
        here, home, "hermes", ["cron/jobs.json"], reason="before cronjob: remove", session="s1", turn="t1"
    )
    put(os.path.join(home, "cron/jobs.json"), '{"jobs": []}')
    assert say("checkpoint", "--reason", "before write_file").code == 0
    put(os.path.join(project, "main.py"), "two\n")
    second = before_home_change(
        here, home, "hermes", ["skills/new"], reason="before skill_manage: create", session="s2", turn="t2"
    )
    put(os.path.join(home, "skills/new/SKILL.md"), "---\nname: new\n---\n")
    return project, first, second


def test_one_list_has_both_in_order_and_number_one_stays_the_projects(user, say, monkeypatch):
    _, home = user
    project, first, second = worked(user, say, monkeypatch)
    said = say("rollback")
    lines = points_of(said.out)
    assert said.code == 0 and lines[0] == f"Checkpoints of {project}"
    assert f"  {second.short}  " in lines[2] and "agent's skills/new, before skill_manage: create" in lines[2]
    assert lines[3].startswith("  1  ") and "before write_file" in lines[3]
    assert f"Bring files of the agent's home back by the id: `safekept rollback {second.short}`" in lines
    # The other one is older than anything of the project: it is shown to whoever asks for all.
    assert first.short not in said.out and first.short in say("rollback", "--all").out
    found = json.loads(say("rollback", "--json", "--all").out)
    assert [one["id"] for one in found["home_points"]] == [second.id, first.id]
    assert found["home_points"][1] == {
        "id": first.id,
        "kind": "home",
        "home": home,
        "paths": ["cron/jobs.json"],
        "absent": [],
        "time_ns": first.time_ns,
        "reason": "before cronjob: remove",
        "session": "s1",
        "turn": "t1",
        "host": "",
        "undo": False,
    }
    found = json.loads(say("rollback", "--json", "--all", "--session", "s1").out)
    assert [one["id"] for one in found["home_points"]] == [first.id]
    everything = say("rollback", "--all-projects").out
    assert (
        everything.index(second.short) < everything.index("before write_file") < everything.index(first.short)
    )
    assert say("rollback", "1").code == 0
    assert read(project, "main.py") == "one\n" and os.path.exists(os.path.join(home, "skills/new/SKILL.md"))


def test_an_id_brings_the_files_of_the_home_back_from_anywhere_and_undo_takes_it_back(user, say, monkeypatch):
    _, home = user
    project, first, second = worked(user, say, monkeypatch)
    before = tree_facts(home)
    planned = say("rollback", second.short, "--dry-run")
    assert planned.code == 0 and "Removes    skills/new/SKILL.md" in planned.out
    assert "Nothing was changed" in planned.out and tree_facts(home) == before
    shown = say("rollback", second.short, "--diff")
    assert "--- before/skills/new/SKILL.md" in shown.out and "+name: new" in shown.out
    done = say("rollback", second.short)
    assert done.code == 0, done.err
    assert done.out.startswith(f"Went back to home point {second.short} of {home}\n")
    assert "Restart the agent to use what came back" in done.out
    assert not os.path.lexists(os.path.join(home, "skills/new"))
    assert read(project, "main.py") == "two\n" and read(home, "cron/jobs.json") == '{"jobs": []}'
    again = say("rollback", second.short)
    assert again.code == 0 and "Nothing differs: no file had to be changed" in again.out
    undone = say("rollback", "--undo")
    assert undone.code == 0, undone.err
    assert read(home, "skills/new/SKILL.md") == "---\nname: new\n---\n"
    other = say("rollback", first.short)
    command = other.out.rsplit("`", 2)[1].split()
    assert command[:2] == ["safekept", "undo"] and json.loads(read(home, "cron/jobs.json"))["jobs"]
    assert say(*command[1:]).code == 0 and read(home, "cron/jobs.json") == '{"jobs": []}'
    after = {path: fact for path, fact in tree_facts(home).items() if before.get(path) != fact}
    assert set(after) <= {"skills", "cron"}  # directories that got an entry back


@pytest.mark.parametrize("words", [("1", "--dry-run"), ("1", "--diff"), ("1",), ("--undo",)])
def test_a_number_in_a_project_asks_no_vault(user, say, monkeypatch, words):
    """A vault on a server that does not answer would hold every rollback up."""
    project, _, _ = worked(user, say, monkeypatch)
    if words == ("--undo",):
        assert say("rollback", "1").code == 0

    def asked(*_: object, **__: object) -> None:
        pytest.fail("the vault was opened")

    monkeypatch.setattr("safekept.actions.vault.opening.open_vault", asked)
    monkeypatch.setattr("safekept.vault.repo.Repository.open", asked)
    done = say("rollback", *words)
    assert done.code == 0, done.err
    assert read(project, "main.py") == ("one\n" if words == ("1",) else "two\n")


def test_the_undo_of_a_project_is_not_mistaken_for_that_of_the_home(user, say, monkeypatch):
    _, home = user
    project, _, second = worked(user, say, monkeypatch)
    assert say("rollback", second.short).code == 0
    assert say("rollback", "1").code == 0 and read(project, "main.py") == "one\n"
    assert say("rollback", "--undo").code == 0 and read(project, "main.py") == "two\n"
    assert not os.path.lexists(os.path.join(home, "skills/new"))


def test_standing_in_the_home_the_list_is_the_homes_and_has_numbers(user, say, monkeypatch):
    _, home = user
    _, first, second = worked(user, say, monkeypatch)
    monkeypatch.chdir(os.path.join(home, "skills"))
    said = say("rollback")
    lines = points_of(said.out)
    assert said.code == 0 and lines[0] == f"Home points of {home}"
    assert lines[2].startswith(f"  1  {second.short}  ") and "1 file" in lines[2]
    assert lines[3].startswith(f"  2  {first.short}  ")
    assert f"Bring the files of one of them back: `safekept rollback {second.short}`" in lines
    assert [one["number"] for one in json.loads(say("rollback", "--json").out)["home_points"]] == [1, 2]
    assert say("rollback", "2", "../cron/jobs.json").code == 0
    assert json.loads(read(home, "cron/jobs.json"))["jobs"]
    assert say("rollback", "1").code == 0 and not os.path.lexists(os.path.join(home, "skills/new"))
    again = points_of(say("rollback").out)
    assert again[2].startswith(f"  1  {second.short}  "), "going back moves no number"
    missing = say("rollback", "3")
    assert missing.code == 1
    assert "There is no home point 3: they are numbered from 1 to 2" in missing.err
    assert "Nothing was changed" in missing.err


def test_a_chat_has_the_same_words(user, say, monkeypatch):
    here, home = user
    project, _, second = worked(user, say, monkeypatch)
    chat = Conversation(here, project, session="s9")
    listed = dispatch(chat, "/rollback")
    assert f"{second.short}  " in listed.text and "skills/new" in listed.text
    assert dispatch(chat, f"/rollback diff {second.short}").text.startswith(
        f"1 file changed since home point {second.short}:"
    )
    assert "remove: skills/new/SKILL.md" in dispatch(chat, f"/rollback {second.short} --dry-run").text
    done = dispatch(chat, f"/rollback {second.short}")
    assert done.ok and "1 removed: " in done.text
    assert dispatch(chat, "/rollback undo").text == "✅ The last rollback was taken back."
    assert os.path.exists(os.path.join(home, "skills/new/SKILL.md"))
    at_home = Conversation(here, home)
    assert f"1.  {second.short}" in dispatch(at_home, "/rollback").text
    assert dispatch(at_home, "/rollback 2").ok and json.loads(read(home, "cron/jobs.json"))["jobs"]


def test_where_no_project_is_the_points_of_homes_are_shown_all_the_same(user, say):
    here, home = user
    point = before_home_change(here, home, "hermes", ["cron/jobs.json"], reason="before cronjob")
    said = say("rollback")
    assert said.code == 0 and said.out.startswith(f"There are no checkpoints of {here.places.user_home}\n")
    assert "agent's cron/jobs.json, before cronjob" in said.out
    assert f"Bring them back by the id: `safekept rollback {point.short}`" in said.out
    chat = dispatch(Conversation(here, here.places.user_home), "/rollback").text
    assert f"  {point.short}  " in chat and "/rollback <id>            bring those files back" in chat


def test_the_text_of_a_secret_is_never_shown(user, say, monkeypatch):
    here, home = user
    point = before_home_change(here, home, "hermes", [".env"])
    put(os.path.join(home, ".env"), "OPENROUTER_API_KEY=another-secret\n")
    shown = say("rollback", point.short, "--diff")
    assert "another-secret" not in shown.out and "not-a-key" not in shown.out
    assert ".env: (a secret: its text is not shown)" in shown.out


def test_status_counts_a_home_with_points_only_as_not_protected(user, say):
    here, home = user
    before_home_change(here, home, "hermes", ["cron/jobs.json"])
    found = json.loads(say("status", "--json").out)
    (one,) = [entry for entry in found["homes"] if entry["home"] == home]
    assert one["last_snapshot"] is None and one["last_whole"] is None
    assert say("status", "--check").code != 0
    assert say("snapshot").code == 0
    before_home_change(here, home, "hermes", ["skills/keeper"], reason="before skill_manage")
    found = json.loads(say("status", "--json").out)
    (one,) = [entry for entry in found["homes"] if entry["home"] == home]
    assert one["last_snapshot"]["kind"] == "manual"
    listed = say("snapshot", "list").out
    assert "pre-change" in listed and "before skill_manage" in listed
    assert "pre-change" not in say("snapshot", "show", "latest").out
    # Numbers are of real snapshots: what an agent does meanwhile moves none of them.
    assert "manual" in say("snapshot", "show", "1").out


def test_points_go_by_the_policy_of_their_kind(user, say):
    here, home = user
    for number in range(6):
        put(os.path.join(home, "cron/jobs.json"), str(number))
        before_home_change(here, home, "hermes", ["cron/jobs.json"])
    assert say("snapshot").code == 0
    assert say("snapshot", "forget", "--kind", "pre-change", "--keep-last", "2", "--yes").code == 0
    assert len(home_points(here)) == 2 and say("snapshot", "show", "1").code == 0


def test_a_point_that_was_forgotten_is_named_with_the_way_back(user, say):
    here, home = user
    point = before_home_change(here, home, "hermes", ["cron/jobs.json"])
    put(os.path.join(home, "cron/jobs.json"), "{}")
    assert say("snapshot", "forget", point.short, "--yes").code == 0
    said = say("rollback", point.short)
    assert said.code != 0 and f"Home point {point.short} was forgotten" in said.err
    assert say("snapshot", "forget", "--undo", point.short).code == 0
    assert say("rollback", point.short).code == 0 and json.loads(read(home, "cron/jobs.json"))["jobs"]


def test_a_home_that_no_setting_names_is_known_by_its_points(user, say, monkeypatch, tmp_path):
    here, _ = user
    home = make_hermes_home(os.path.join(os.path.realpath(tmp_path), "other"), profiles=(), awkward=False)
    before_home_change(here, home, "hermes", ["cron/jobs.json"])
    put(os.path.join(home, "cron/jobs.json"), "{}")
    monkeypatch.chdir(os.path.join(home, "cron"))
    assert say("rollback").out.startswith(f"Home points of {home}\n")
    assert say("rollback", "1").code == 0 and json.loads(read(home, "cron/jobs.json"))["jobs"]


def test_a_point_can_be_drilled_read_and_restored_like_any_snapshot(user, say):
    here, home = user
    point = before_home_change(here, home, "hermes", ["skills/keeper", "skills/later"])
    done = say("drill", point.short)
    assert done.code == 0, done.out
    assert "SKILL.md" in say("snapshot", "show", point.short, "skills/keeper").out
    assert point.short in say("history", "skills/keeper/SKILL.md").out
    shutil.rmtree(os.path.join(home, "skills/keeper"))
    before = tree_facts(home)
    restored = say("snapshot", "restore", point.short, "--yes")
    assert restored.code == 0, restored.err
    assert os.path.exists(os.path.join(home, "skills/keeper/SKILL.md"))
    gone = {path for path in before if path not in tree_facts(home)}
    assert not gone


# ── bad luck ───────────────────────────────────────────────────────────────────────────────────────


def test_a_rollback_that_is_killed_leaves_the_old_or_the_new_state(user, say):
    here, home = user
    point = before_home_change(here, home, "hermes", ["skills/keeper", "skills/new", "cron/jobs.json"])
    then = tree_facts(home)
    shutil.rmtree(os.path.join(home, "skills/keeper"))
    put(os.path.join(home, "skills/new/SKILL.md"), "new\n")
    put(os.path.join(home, "cron/jobs.json"), "{}")
    now = tree_facts(home)

    def go_back():
        roll_back_home(here, HomeRollbackRequest(point.id))

    def differing(facts):
        found = tree_facts(home)
        names = {path for path in facts.keys() | found.keys() if facts.get(path) != found.get(path)}
        return names - {".", "skills", "cron", "memories"}  # directories whose own time moved

    rng = random.Random(7)
    steps, done = 0, 0
    for step in sorted(rng.sample(range(1, 170), 14)):
        if killed_at(step, go_back) != -1:
            done += 1
            break
        assert say("rollback", "--dir", home).code == 0  # whatever was begun is made right
        left = differing(now)
        if left:
            assert not differing(then), (step, sorted(left)[:5])
            break
        steps += 1
    assert steps >= 5
    assert say("rollback", point.short).code == 0
    assert not differing(then)


def test_a_point_whose_taking_was_killed_is_there_or_is_not(user, say):
    here, home = user
    before_home_change(here, home, "hermes", ["cron/jobs.json"])
    rng = random.Random(3)
    for step in sorted(rng.sample(range(1, 40), 8)):
        put(os.path.join(home, "skills/new/SKILL.md"), f"{step}\n")
        known = len(home_points(here))

        def take():
            before_home_change(here, home, "hermes", ["skills/new"])

        killed_at(step, take)
        assert len(home_points(here)) in (known, known + 1)
        after = before_home_change(here, home, "hermes", ["skills/new"])  # nothing is wedged
        put(os.path.join(home, "skills/new/SKILL.md"), "other\n")
        assert say("rollback", after.short).code == 0
        assert read(home, "skills/new/SKILL.md") == f"{step}\n"
    assert say("vault", "check").code == 0


def test_many_at_once_all_keep_their_own(user, launcher_environment, say):
    """Parallel tool calls, the first use of the vault among them."""
    here, home = user
    code = (
        "import os, sys\n"
        "from safekept.settings import load_settings\n"
        "from safekept.settings.context import context_of\n"
        "from safekept.actions.projects.home_points.take import before_home_change\n"
        "here = context_of(load_settings(dict(os.environ)))\n"
        "print(before_home_change(here, sys.argv[1], 'hermes', [sys.argv[2]]).id)\n"
    )
    names = [f"skills/skill-{number}" for number in range(6)]
    for name in names:
        put(os.path.join(home, name, "SKILL.md"), name)
    environment = {**os.environ, "HOME": here.places.user_home}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, home, name],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    ids = []
    for process in running:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        ids.append(out.strip())
    assert len(set(ids)) == len(names)
    assert {one.id: one.paths for one in home_points(here)} == {
        point: (name,) for point, name in zip(ids, names, strict=True)
    }
    assert say("vault", "check", "--read-data").code == 0
