"""Today: the verdict of `status`, thirty days that tell overdue from unchanged, copies, and never a wait."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import time

import pytest

from safekept.actions.keeper.keeper_status import KeeperStatus
from safekept.actions.page.copies import DELETED, DISK, MACHINE, THIEF, copies_of, together
from safekept.actions.page.days import BEFORE, KEPT, OVERDUE, UNCHANGED, WAITING, last_days
from safekept.actions.page.events import ALARMS, COPIES, EventRequest, events
from safekept.actions.status.changed_since import ChangedSince
from safekept.actions.status.home_summary import TakenSnapshot
from safekept.actions.status.status import look
from safekept.keeper.history import Manifest
from support.ui.months import month
from support.ui.served import ServedPage
from support.users.states import DAY, alarmed, empty, fresh, write


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return month(tmp_path_factory.mktemp("month"))


@pytest.fixture(scope="module")
def text(kept):
    with ServedPage(kept.user, ()) as page:
        page.enter()
        return page.get("/").text


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_the_first_line_is_the_verdict_of_status(text, kept):
    found = look(kept.context.changed(destinations=_attic(kept)))
    head = found.verdict.text.partition(": ")[0]
    assert f'<h1 id="verdict">{head}</h1>' in text
    assert text.count("<h1") == 1


def test_every_day_is_told_in_the_table_behind_the_picture(text):
    rows = re.findall(r'<tr><th scope="row">(\d{4}-\d\d-\d\d)</th><td>(\w+)</td>', text)
    assert len(rows) == 30 and len({day for day, _ in rows}) == 30
    states = [state for _, state in rows]  # today first
    assert dict(rows)[time.strftime("%Y-%m-%d", time.localtime(time.time() - 3600))] == KEPT
    assert states[13:19].count(OVERDUE) >= 4
    assert states[-1] == BEFORE
    assert text.count('class="day ') - 6 == 30, "the legend has six"


def test_what_is_proven_and_copied_is_shown_with_its_day(text):
    said = words(text)
    assert "4 with a proven restore" in said and "6 with a copy elsewhere" in said
    assert "1 with an alarm" in said


def test_without_permission_no_form_is_on_the_page(text):
    assert "<form" not in text and "read-only" in text


def days_of(status, context, **changes):
    home = dataclasses.replace(status.homes[0], **changes)
    found = last_days(context, dataclasses.replace(status, homes=(home,)))
    return [day.state for day in found[home.home]]


def test_a_day_on_which_nothing_changed_is_not_overdue(kept):
    at = time.localtime()
    noon = time.mktime((at.tm_year, at.tm_mon, at.tm_mday, 12, 0, 0, 0, 0, -1))
    status = dataclasses.replace(look(kept.context), time=noon)
    gone = dataclasses.replace(kept.context.places, data_directory="/nonexistent")
    context = dataclasses.replace(kept.context, places=gone)
    old = [TakenSnapshot("a", status.time - 20 * DAY, 1, True)]
    same = TakenSnapshot("b", status.time - 10 * DAY, 0, False)
    other = dataclasses.replace(same, changed=True)
    unknown = dataclasses.replace(same, changed=None)
    nothing, something = ChangedSince(looked=40), ChangedSince(files=1, looked=40)
    states = days_of(status, context, taken=(*old, same), changed=nothing)
    assert set(states[10:]) == {UNCHANGED}
    states = days_of(status, context, taken=(*old, same), changed=something)
    assert OVERDUE in states[20:] and OVERDUE not in states[10:19]
    for one in (other, unknown):
        states = days_of(status, context, taken=(*old, one), changed=nothing)
        assert OVERDUE in states[11:19] and OVERDUE not in states[20:]
    states = days_of(status, context, taken=(TakenSnapshot("c", status.time - 0.9 * DAY, 1, True),))
    assert states[-1] == WAITING
    assert set(days_of(status, context, taken=())) == {BEFORE}


def test_what_retention_let_go_was_taken_all_the_same(kept):
    status = look(kept.context)
    states = days_of(status, kept.context, taken=())
    assert states.count(KEPT) == 16


def test_what_was_done_for_every_home_is_in_the_timeline_of_each(kept):
    """A push, a check of the vault and the end of an alarm name no home; another home's push does."""

    def titles(group):
        found = events(kept.context, EventRequest(home=kept.home, most=100, group=group)).events
        return [one.title for one in found]

    assert titles(COPIES) == ["Push"] * 6 and titles(ALARMS) == ["Alarm over", "Alarm"]
    other = events(kept.context, EventRequest(home="/somewhere/else", most=100, group=COPIES)).events
    assert other == (), "each of them took this home and no other"


def test_all_copies_together_survive_what_any_of_them_does(kept):
    status = look(kept.context.changed(destinations=_attic(kept)))
    copies = copies_of(kept.context.changed(destinations=_attic(kept)), status)
    assert {one.danger: one.holds for one in together(copies)} == {
        DISK: True,
        MACHINE: True,
        DELETED: True,
        THIEF: False,
    }


def test_a_copy_is_said_to_survive_only_what_it_does(kept, tmp_path):
    status = look(kept.context)
    vault, *none = copies_of(kept.context, status)
    assert none == []
    assert [one.danger for one in vault.survives if one.holds] in ([], [DELETED]), "the seat belt may hold"
    away = look(kept.context.changed(destinations=_attic(kept)))
    _, attic = copies_of(kept.context.changed(destinations=_attic(kept)), away)
    survives = {one.danger: one.holds for one in attic.survives}
    assert survives == {DISK: True, MACHINE: True, DELETED: True, THIEF: False}
    no_way_in = dataclasses.replace(away, vault=dataclasses.replace(away.vault, recovery_access=""))
    _, attic = copies_of(kept.context.changed(destinations=_attic(kept)), no_way_in)
    assert not any(one.holds for one in attic.survives)
    assert "what opens it is on this machine only" in attic.survives[0].why


def test_the_keeper_is_among_the_copies_and_says_what_it_survives(kept):
    """Its own answers are made up here; a real keeper is asked in tests/hostile and tests/e2e."""
    status = look(kept.context)
    newest = Manifest(number=3, time=1.0, root="r", files=9, bytes=9, points=1)
    good = KeeperStatus("/run/keeper.sock", newest=newest, confirmed=status.time - 60)

    def survives(keeper):
        _, copy = copies_of(kept.context, dataclasses.replace(status, keeper=keeper))
        assert copy.name == "The keeper"
        return {one.danger: one.holds for one in copy.survives}, copy

    found, copy = survives(good)
    assert found == {DISK: False, MACHINE: False, DELETED: True, THIEF: False} and not copy.trouble
    found, copy = survives(dataclasses.replace(good, why_not="this user can become root"))
    assert found[DELETED] is False and "become root" in copy.trouble
    found, copy = survives(KeeperStatus("/run/keeper.sock", wrong="The keeper does not answer"))
    assert found[DELETED] is None and copy.trouble == "The keeper does not answer"
    found, copy = survives(dataclasses.replace(good, newest=None))
    assert not any(found.values()) and copy.newest == 0.0
    assert "full" in survives(dataclasses.replace(good, full=1.0))[1].trouble


def _attic(kept):
    from safekept.actions.offsite.destination import DestinationSetting

    place = os.path.abspath(os.path.join(kept.user, "..", "attic"))
    return (DestinationSetting("attic", f"file:{place}", elsewhere=True),)


def test_nothing_yet_names_the_one_command_that_begins(tmp_path):
    with ServedPage(empty(tmp_path).user, ()) as page:
        page.enter()
        said = words(page.get("/").text)
    assert "Not protected" in said and "setup" in said and "nothing was ever kept" in said


def test_an_alarm_comes_first(tmp_path):
    with ServedPage(alarmed(tmp_path).user, ()) as page:
        page.enter()
        text = page.get("/").text
    assert re.search(r'<section class="hero bad".*?<h1 id="verdict">ALARM', text, re.DOTALL)
    assert "restore" in words(text).partition("Do this next")[2][:300]


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\"'&"


def test_names_of_a_home_are_escaped_and_their_control_characters_shown(tmp_path):
    state = fresh(tmp_path)
    home = os.path.join(state.user, HOSTILE.replace("/", "_"))
    os.rename(state.home, home)
    environment = {"HERMES_HOME": home}
    write(dataclasses.replace(state, home=home), "SOUL.md", "x")
    with ServedPage(state.user, (), environment=environment) as page:
        page.enter()
        text = page.get("/").text
    assert "<script>alert" not in text and "\x1b" not in text and "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;_script&gt;\\x1b[31m\\xe2\\x80\\xae" in text


def test_a_vault_that_hangs_does_not_keep_the_page_away(tmp_path):
    """A server that takes the connection and never says a word."""
    state = fresh(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"sftp://someone@127.0.0.1:{silent.getsockname()[1]}/vault"
        with ServedPage(state.user, (), environment={"SAFEKEPT_VAULT_PATH": place}) as page:
            page.enter()
            began = time.monotonic()
            answer = page.get("/")
            waited = time.monotonic() - began
    assert answer.status == 200 and "The vault has not answered yet" in answer.text
    assert answer.headers["refresh"] == "4"
    assert waited < 30, "as long as a busy machine needs, and not as long as a server that hangs"


def test_a_home_of_nobody_is_an_answer_and_no_error(tmp_path):
    user = tmp_path / "user"
    user.mkdir()
    with ServedPage(str(user), ()) as page:
        page.enter()
        answer = page.get("/")
    assert answer.status == 200 and "Not protected" in words(answer.text)
