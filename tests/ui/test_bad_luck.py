"""No vault, no home, a vault that does not open, a destination that hangs, two tabs, a browser that goes."""

from __future__ import annotations

import contextlib
import html
import os
import re
import socket
import time
from urllib.parse import urlencode

import pytest

from safekept.actions.vault.opening import open_vault
from support.commands.waiting import wait_until
from support.ui.months import month
from support.ui.served import ServedPage
from support.users.troubles import shut

SKILL = "skills/deploy-0/SKILL.md"
VIEWS = ("/", "/timeline", "/browse", "/history?path=SOUL.md", "/proof", "/places", f"/restore?path={SKILL}")


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return month(tmp_path_factory.mktemp("luck"), kept=(1, 0), copied=False)


@pytest.fixture(scope="module")
def silent():
    """A server that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one.getsockname()[1]


@pytest.fixture(scope="module")
def page(state, silent):
    config = os.path.join(state.user, ".config", "safekept", "config.toml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'[[destination]]\nname = "far"\nurl = "sftp://me@127.0.0.1:{silent}/there"\n')
    with ServedPage(state.user) as served:
        served.enter()
        yield served


def words(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def fields_of(text: str, address: str) -> dict[str, str]:
    form = re.search(rf'<form[^>]*action="{address}".*?</form>', text, re.DOTALL)
    assert form is not None, words(text)
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form[0])
    return {name: html.unescape(value) for name, value in found}


def answered(page: ServedPage) -> dict[str, str]:
    """What each view says; none of them breaks, and a refusal says what was kept and what to do."""
    found = {}
    for view in VIEWS:
        answer = page.get(view)
        assert answer.status in (200, 400), (view, words(answer.text))
        assert "page-broke" not in answer.text and "did not expect" not in answer.text, view
        assert answer.status == 200 or 'class="kept"' in answer.text, view
        found[view] = words(answer.text)
    return found


def test_a_vault_that_does_not_open_says_so_and_takes_nothing_else_away(page, state):
    back = shut(state)
    try:
        said = answered(page)
    finally:
        back()
    assert "key" in said["/"] and "Protected if" not in said["/"]
    assert "could not be read" in said["/timeline"] and "Drill" in said["/timeline"], "the journal is there"
    assert "Restores that were tried" in said["/proof"]
    assert "Find a file" in words(page.get("/").text), "and once it opens again, the page has it"


def test_a_vault_that_somebody_has_to_himself_is_no_error(page, state):
    """As a prune has it. What only looks goes on or says why; nothing waits for ever."""
    began = time.monotonic()
    with open_vault(state.context) as repository, repository.lock(exclusive=True):
        said = answered(page)
    assert "rotected" in said["/"] and "Manual snapshot" in said["/timeline"]
    assert "is locked for everybody else" in said["/browse"] and "Nothing" in said["/browse"], said["/browse"]
    assert time.monotonic() - began < 60, "three views wait a moment each; half a minute each was too long"


def test_a_destination_that_hangs_keeps_nothing_away(page, state):
    text = page.get("/").text
    assert "far" in words(text) and "nothing was pushed there yet" in words(text)
    begun = page.post("/do/push", fields_of(text, "/do/push"))
    assert begun.status == 303
    work = page.get(begun.headers["location"])
    assert "refresh" in work.headers and "You can close this page" in work.text
    began = time.monotonic()
    for view in ("/", "/timeline", "/browse", "/proof"):
        assert "Push to far" in words(page.get(view).text), "every page says that it goes on"
    assert time.monotonic() - began < 60, "as long as a busy machine needs"


def test_no_vault_and_no_home_are_answers(tmp_path):
    user = tmp_path / "nobody"
    user.mkdir()
    with ServedPage(str(user)) as page:
        page.enter()
        said = answered(page)
    assert "Not protected" in said["/"] and "setup" in said["/"]
    assert "no vault yet" in said["/browse"] and "setup" in said["/browse"]
    assert (
        "Nothing has happened here yet" in said["/timeline"] and "could not be read" not in said["/timeline"]
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Without a destination: nothing else has its turn."""
    kept = month(tmp_path_factory.mktemp("tabs"), kept=(1, 0), copied=False)
    with ServedPage(kept.user) as served:
        served.enter()
        yield served, kept


def ended(page: ServedPage, address: str) -> str:
    wait_until(lambda: "refresh" not in page.get(address).headers, "the work to end")
    return words(page.get(address).text)


def test_two_tabs_with_one_plan_each_restore_once(alone):
    page, kept = alone
    path = os.path.join(kept.home, SKILL)
    os.unlink(path)
    first, second = (fields_of(page.get(f"/restore?path={SKILL}").text, "/do/restore") for _ in range(2))
    assert first["plan"] != second["plan"]
    assert "1 new" in ended(page, page.post("/do/restore", first).headers["location"])
    assert "cannot be carried out any more" in ended(
        page, page.post("/do/restore", second).headers["location"]
    )
    assert os.path.exists(path)


def test_a_browser_that_goes_in_the_middle_finds_its_restore_when_it_comes_back(alone):
    """The wire is cut as soon as the form was sent; nobody ever reads an answer."""
    page, kept = alone
    path = os.path.join(kept.home, SKILL)
    os.unlink(path)
    fields = urlencode(fields_of(page.get(f"/restore?path={SKILL}").text, "/do/restore"))
    host, port = page.authority.split(":")
    with socket.create_connection((host, int(port))) as wire:
        head = f"POST /do/restore HTTP/1.1\r\nHost: {page.authority}\r\nCookie: {page.cookie}\r\n"
        head += f"Origin: {page.origin}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        wire.sendall(f"{head}Content-Length: {len(fields)}\r\n\r\n{fields}".encode())
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # cut off, not ended
        with contextlib.suppress(OSError):
            wire.shutdown(socket.SHUT_WR)
    wait_until(lambda: os.path.exists(path), "the restore that nobody waits for")
    wait_until(lambda: page.get("/work").text.count("done, ") == 2, "the page to say so")
    assert words(page.get("/work").text).count(f"Restore {SKILL}") == 3, (
        "the one that was refused is listed, too"
    )
