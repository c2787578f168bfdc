"""A skill was deleted: find it, see the diff, restore it, undo; and every way to do that wrongly."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from urllib.parse import quote

import pytest

from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from support.commands.waiting import wait_until
from support.projects.checkpoints import put
from support.projects.turns import Agent as TurnAgent
from support.ui.months import month, project
from support.ui.served import SOURCE, ServedPage
from support.users.states import alarmed

SKILL = "skills/deploy-0/SKILL.md"


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    state = month(tmp_path_factory.mktemp("back"), kept=(3, 2, 1, 0), copied=False)
    garden = project(state)
    with ServedPage(state.user) as page:
        page.enter()
        yield page, state, garden


def fields_of(text: str, address: str) -> dict[str, str]:
    """The hidden fields of the form that goes to an address."""
    form = re.search(rf'<form[^>]*action="{address}".*?</form>', text, re.DOTALL)
    assert form is not None, text[-2000:]
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form[0])
    return {name: html.unescape(value) for name, value in found}


def finished(page: ServedPage, address: str) -> str:
    """What a piece of work came to, by loading its page again, as a browser without scripts does."""
    found: list[str] = []

    def over() -> bool:
        answer = page.get(address)
        assert answer.status == 200, answer.text
        found[:] = [answer.text]
        return "refresh" not in answer.headers

    wait_until(over, "the work to end")
    return found[0]


def words(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_a_deleted_skill_is_found_compared_restored_and_taken_back(user):
    page, state, _ = user
    path = os.path.join(state.home, SKILL)
    with open(path, encoding="utf-8") as file:
        before = file.read()
    os.unlink(path)
    tree = page.get("/browse?path=" + os.path.dirname(SKILL)).text
    assert "SKILL.md" in tree
    versions = page.get(f"/history?path={SKILL}").text
    assert "not in the home any more" in versions
    address = re.search(r'href="(/restore\?[^"]*)"', versions)
    assert address is not None
    plan = page.get(html.unescape(address[1])).text
    assert "Would be made: 1 path" in words(plan) and f"+{before.splitlines()[0]}" in html.unescape(plan)
    assert not os.path.exists(path), "a plan changes nothing"
    begun = page.post("/do/restore", fields_of(plan, "/do/restore"))
    assert begun.status == 303
    done = finished(page, begun.headers["location"])
    assert "Restored" in words(done) and "1 new" in words(done)
    with open(path, encoding="utf-8") as file:
        assert file.read() == before
    undo = re.search(r'href="(/undo\?[^"]*)"', done)
    assert undo is not None
    back = page.get(html.unescape(undo[1])).text
    begun = page.post("/do/undo", fields_of(back, "/do/undo"))
    assert "Taken back" in finished(page, begun.headers["location"])
    assert not os.path.exists(path)
    shown = words(page.get("/timeline?kind=changes").text)
    assert "Undo" in shown and "Restore" in shown


def test_what_replaces_needs_the_word_and_a_plan_is_good_once(user):
    page, state, _ = user
    path = os.path.join(state.home, "SOUL.md")
    with open(path, encoding="utf-8") as file:
        stored = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write("I am somebody else\n")
    plan = page.get("/restore?path=SOUL.md").text
    form = fields_of(plan, "/do/restore")
    assert "Would be replaced: 1 path" in words(plan) and "<strong>restore</strong>" in plan
    wrong = finished(page, page.post("/do/restore", {**form, "typed": "yes"}).headers["location"])
    assert "the word restore was not typed" in words(wrong).lower() and "Nothing was changed" in wrong
    forged = {**form, "typed": "restore", "plan": "x" + form["plan"][1:]}
    assert "cannot be carried out" in finished(page, page.post("/do/restore", forged).headers["location"])
    other = {**form, "typed": "restore", "path": "config.yaml"}
    assert "cannot be carried out" in finished(page, page.post("/do/restore", other).headers["location"])
    with open(path, encoding="utf-8") as file:
        assert file.read() == "I am somebody else\n"
    good = {**form, "typed": " Restore "}
    assert "1 replaced" in words(finished(page, page.post("/do/restore", good).headers["location"]))
    with open(path, encoding="utf-8") as file:
        assert file.read() == stored
    again = finished(page, page.post("/do/restore", good).headers["location"])
    assert "it was used already" in words(again) or "changed since" in words(again)


def test_a_plan_is_worth_nothing_once_the_file_changed(user):
    page, state, _ = user
    path = os.path.join(state.home, "config.yaml")
    with open(path, "a", encoding="utf-8") as file:
        file.write("# one\n")
    form = fields_of(page.get("/restore?path=config.yaml").text, "/do/restore")
    with open(path, "a", encoding="utf-8") as file:
        file.write("# two\n")
    done = finished(page, page.post("/do/restore", {**form, "typed": "restore"}).headers["location"])
    assert "changed since" in words(done)
    with open(path, encoding="utf-8") as file:
        assert file.read().endswith("# one\n# two\n")


def test_a_project_goes_back_to_a_checkpoint_and_forward_again(user):
    page, _, garden = user
    plan_file = os.path.join(garden, "plan.md")
    timeline = page.get(f"/timeline?project={quote(garden)}").text
    assert words(timeline).count("before edit") == 3
    point = re.search(r'href="(/point\?[^"]*)"', timeline)
    assert point is not None
    since = page.get(html.unescape(point[1])).text
    assert "Water nothing" in words(since) and "<mark>" in since
    plan = page.get(html.unescape(point[1]).replace("/point", "/rollback")).text
    form = fields_of(plan, "/do/rollback")
    wrong = finished(page, page.post("/do/rollback", form).headers["location"])
    assert "the word rollback was not typed" in words(wrong).lower()
    done = finished(page, page.post("/do/rollback", {**form, "typed": "rollback"}).headers["location"])
    with open(plan_file, encoding="utf-8") as file:
        assert "herbs" in file.read()
    undo = re.search(r'href="(/undo\?[^"]*)"', done)
    assert undo is not None, words(done)
    back = fields_of(page.get(html.unescape(undo[1])).text, "/do/undo")
    assert "Taken back" in finished(page, page.post("/do/undo", back).headers["location"])
    with open(plan_file, encoding="utf-8") as file:
        assert "Water nothing" in file.read()


def test_a_whole_turn_goes_back_and_forward_again(user, tmp_path):
    page, state, garden = user
    other = os.path.realpath(tmp_path / "shed")
    put(os.path.join(other, "pyproject.toml"), "")
    put(os.path.join(other, "tools.md"), "spade\n")
    was = open_text(garden, "plan.md")
    agent = TurnAgent(state.context, "page-session")
    agent.turn("page-turn", {garden: {"plan.md": "weeds\n"}, other: {"tools.md": "rake\n"}})
    timeline = page.get(f"/timeline?project={quote(garden)}").text
    points = re.findall(r'href="(/point\?[^"]*)"', timeline)
    found = [html.unescape(address) for address in points]
    shown = next(text for one in found if "Take the whole turn back" in (text := page.get(one).text))
    address = re.search(r'href="(/rollback\?[^"]*turn=[^"]*)"', shown)
    assert address is not None
    plan = page.get(html.unescape(address[1])).text
    assert f"{other}/tools.md: put back as it was" in words(plan)
    form = fields_of(plan, "/do/rollback")
    done = finished(page, page.post("/do/rollback", {**form, "typed": "rollback"}).headers["location"])
    assert open_text(garden, "plan.md") == was and open_text(other, "tools.md") == "spade\n"
    undo = re.search(r'href="(/undo\?[^"]*)"', done)
    assert undo is not None, words(done)
    back = fields_of(page.get(html.unescape(undo[1])).text, "/do/undo")
    assert "Taken back" in finished(page, page.post("/do/undo", back).headers["location"])
    assert open_text(garden, "plan.md") == "weeds\n" and open_text(other, "tools.md") == "rake\n"


def open_text(*parts: str) -> str:
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def git(project: str, *words: str) -> str:
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.invalid"]
    done = subprocess.run(["git", *who, *words], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_git_repository_goes_back_where_that_was_asked_for(user):
    page, state, _ = user
    place = os.path.join(state.user, "code", "ledger")
    os.makedirs(place)
    git(place, "init", "-q")
    for number in (1, 2):
        with open(os.path.join(place, "sums.txt"), "w", encoding="utf-8") as file:
            file.write(f"{number}\n")
        git(place, "add", ".")
        git(place, "commit", "-qm", f"sum {number}")
    before = git(place, "rev-parse", "HEAD")
    take_checkpoint(state.context, place, CheckpointPolicy(), reason="before a reset")
    git(place, "reset", "-q", "--hard", "HEAD~1")
    timeline = page.get(f"/timeline?project={quote(place)}").text
    point = re.search(r'href="(/point\?[^"]*)"', timeline)
    plan = page.get(html.unescape(point[1]).replace("/point", "/rollback")).text
    assert "The git repository moved since, too" in words(plan)
    more = re.search(r'href="(/rollback\?[^"]*git=1[^"]*)"', plan)
    plan = page.get(html.unescape(more[1])).text
    assert "Would go back in the git repository" in words(plan)
    form = fields_of(plan, "/do/rollback")
    without = {name: value for name, value in form.items() if name != "git"} | {"typed": "rollback"}
    assert "cannot be carried out" in finished(page, page.post("/do/rollback", without).headers["location"])
    done = finished(page, page.post("/do/rollback", {**form, "typed": "rollback"}).headers["location"])
    assert "Went back to" in words(done) and git(place, "rev-parse", "HEAD") == before, words(done)


def test_another_time_of_a_project_is_chosen_where_it_is_browsed(user):
    page, _, garden = user
    tree = page.get(f"/browse?project={quote(garden)}").text
    times = re.findall(r'<option value="(\w{12})"', tree)
    assert len(times) >= 3
    chosen = f"/browse?place=project:{quote(garden)}&id={times[-1]}&at=plan.md"
    assert "roses" in page.get(chosen).text
    other = page.get(f"/browse?place=home:{quote(os.path.join(garden, '..'))}&id={times[-1]}")
    assert other.status == 400


def test_what_an_alarm_misses_comes_back_by_its_button(tmp_path):
    """The first thing that a frightened person sees is a button, and it leads to the plan of all of it."""
    state = alarmed(tmp_path)
    with ServedPage(state.user) as page:
        page.enter()
        today = page.get("/").text
        link = re.search(r'href="(/restore\?[^"]*)">See what comes back', today)
        assert link is not None, words(today)[:600]
        plan = page.get(html.unescape(link[1])).text
        form = fields_of(plan, "/do/restore")
        paths = re.findall(r'name="path" value="([^"]*)"', plan)
        assert sorted(paths) == ["cron/jobs.json", "memories"]
        sent = [*((name, value) for name, value in form.items() if name != "path"), ("typed", "restore")]
        begun = page.post("/do/restore", [*sent, *(("path", path) for path in paths)])
        done = words(finished(page, begun.headers["location"]))
        assert "Restored" in done, done
        with open(os.path.join(state.home, "cron", "jobs.json"), encoding="utf-8") as file:
            assert len(file.read()) > 100


def test_a_snapshot_and_a_drill_are_begun_by_a_button(user):
    page, _, _ = user
    form = fields_of(page.get("/timeline").text, "/do/snapshot")
    done = finished(page, page.post("/do/snapshot", form).headers["location"])
    assert re.search(r"Snapshot [0-9a-f]{8} taken", words(done))
    form = fields_of(page.get("/proof").text, "/do/drill")
    begun = page.post("/do/drill", form).headers["location"]
    stream = page.get(begun.replace("/work?", "/work/events?"))
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert '"over": true' in stream.text.splitlines()[-2]
    assert "Proven" in words(page.get(begun).text)


def test_read_only_has_no_changing_address(tmp_path):
    state = month(tmp_path, kept=(1, 0), copied=False)
    with ServedPage(state.user, ("--read-only",)) as page:
        page.enter()
        text = page.get(f"/browse?path={SKILL}").text
        assert "safekept snapshot restore" in text and "/restore?" not in text
        for address in ("/restore", "/rollback", "/undo", "/work", "/do/restore", "/do/snapshot"):
            assert page.get(address).status in (404, 405), address
        form = {"token": "0" * 64}
        assert page.post("/do/snapshot", form).status == 403
        for address in ("/timeline", "/browse", f"/history?path={SKILL}", "/proof"):
            answer = page.get(address)
            assert answer.status == 200 and 'method="post"' not in answer.text, address


def test_the_work_goes_on_when_the_browser_and_the_server_go(tmp_path):
    """Told to end in the middle of a snapshot, the server finishes it first."""
    state = month(tmp_path, kept=(1, 0), copied=False)
    shutil.copytree(os.path.join(state.home, "skills"), os.path.join(state.home, "skills-again"))
    with ServedPage(state.user) as page:
        page.enter()
        page.post("/do/snapshot", fields_of(page.get("/timeline").text, "/do/snapshot"))
    from safekept.actions.snapshots.listing import list_home
    from safekept.actions.vault.opening import open_vault

    with open_vault(state.context) as repository:
        assert len(list_home(repository, state.home).shown) == 3


def test_a_server_killed_in_the_middle_of_a_restore_leaves_the_old_home_or_the_new(tmp_path):
    state = month(tmp_path, kept=(1, 0), copied=False)
    soul, user_file = (os.path.join(state.home, name) for name in ("SOUL.md", "memories/USER.md"))
    before = {}
    for path in (soul, user_file):
        with open(path, encoding="utf-8") as file:
            before[path] = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write("lost\n")
    with ServedPage(state.user) as page:
        page.enter()
        form = fields_of(page.get("/restore").text, "/do/restore")
        page.post("/do/restore", {**form, "typed": "restore"})
        page.process.kill()
    places = {"HOME": state.user, "HERMES_HOME": state.home, "PYTHONPATH": os.path.abspath(SOURCE)}
    environment = {**places, "PATH": os.environ["PATH"]}
    words = [sys.executable, "-m", "safekept", "undo", "--dry-run"]
    subprocess.run(words, env=environment, cwd=state.user, capture_output=True)
    found = {}
    for path in (soul, user_file):
        with open(path, encoding="utf-8") as file:
            found[path] = file.read()
    assert found in (before, dict.fromkeys(before, "lost\n")), "never half of it"
