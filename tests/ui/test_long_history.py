"""100,000 checkpoints, 50,000 files in a directory, 2 GB in one, a long journal: a page is a page."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import time
from urllib.parse import quote

import pytest

from safekept.actions.page.events import EventRequest, events
from safekept.actions.page.listings import Listings
from safekept.actions.projects.project import checkpoint_directory
from safekept.checkpoints.checkpoint import new_checkpoint_id
from safekept.checkpoints.project import project_id
from safekept.checkpoints.store import Store
from safekept.core.journal import Record, new_id
from support.ui.months import project as make_project
from support.ui.served import ServedPage
from support.users.states import _snapshot, empty, write

MANY = 100_000
LINES = 20_000
FILES = 50_000
HUGE = 2 << 30  # a hole, so that it costs no disk


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    state = empty(tmp_path_factory.mktemp("long"))
    many = os.path.join(state.home, "many")
    os.mkdir(many)
    for number in range(FILES):
        os.close(os.open(f"{many}/note-{number:05}.md", os.O_CREAT | os.O_WRONLY, 0o600))
    with open(os.path.join(state.home, "huge.txt"), "wb") as file:
        file.truncate(HUGE)
    _snapshot(state)
    os.unlink(os.path.join(state.home, "huge.txt"))
    garden = make_project(state)
    _make_points(state, garden)
    _make_lines(state)
    with ServedPage(state.user) as page:
        page.enter()
        yield page, state, garden


def _make_points(state, garden: str) -> None:
    """Older ones, a minute apart, as maintenance leaves them: packed refs, and notes of each."""
    with Store.open(checkpoint_directory(state.context)) as store:
        newest, identity = store.checkpoints(garden)[0], project_id(garden)
        begin = newest.time_ns - 10**12
        names = [new_checkpoint_id(begin - back * 60 * 10**9) for back in range(MANY)][::-1]
        ledger = os.path.join(store.project_directory(garden), "ledger")
        with open(ledger, "rb") as file:
            own = file.read()
        facts = newest.as_dict() | {"id": "@", "time_ns": 0, "reason": "before edit @"}
        line = json.dumps(facts)
        with open(ledger, "wb") as file:
            for number, name in enumerate(names):
                when = begin - (MANY - 1 - number) * 60 * 10**9
                text = line.replace('"@"', f'"{name}"', 1).replace('"time_ns": 0', f'"time_ns": {when}')
                file.write(text.replace("edit @", f"edit {number}").encode() + b"\n")
            file.write(own)
        refs = "\n".join(f"{newest.commit} refs/safekept/{identity}/{name}" for name in sorted(names))
        with open(os.path.join(store.repository, "packed-refs"), "w", encoding="ascii") as file:
            file.write("# pack-refs with: peeled fully-peeled sorted \n" + refs + "\n")


def _make_lines(state) -> None:
    path = os.path.join(state.context.places.data_directory, "journal.jsonl")
    with open(path, "rb") as file:
        own = file.read()
    facts = {"home": state.home, "ok": True, "subject": "snapshot"}
    with open(path, "wb") as file:
        for number in range(LINES):
            one = Record(new_id(), "drill", "done", time.time() - 86_400 - (LINES - number) * 60, facts)
            file.write(json.dumps(dataclasses.asdict(one)).encode() + b"\n")
        file.write(own)


def read_by(page: ServedPage) -> int:
    with open(f"/proc/{page.process.pid}/io", encoding="ascii") as file:
        return int(re.search(r"rchar: (\d+)", file.read())[1])


def test_100_000_checkpoints_come_a_page_at_a_time(user):
    page, _, garden = user
    here = f"/timeline?project={quote(garden)}"
    page.get(here)
    before = read_by(page)
    text = page.get(here).text
    read = read_by(page) - before
    assert text.count("<time ") == 50 and len(text) < 60_000 and 'rel="next"' in text
    assert read < 15_000_000, "names and commits are looked at; the notes of all, some 40 MB, are not"
    older = re.search(r'href="(/timeline\?[^"]*before=[^"]*)"', text)
    second = page.get(html.unescape(older[1])).text
    assert second.count("<time ") == 50
    seen = re.findall(r"before edit (\d+)", text + second)
    wanted = [str(one) for one in range(MANY - 1, 0, -1)]
    assert len(seen) > 90 and seen[3:] == wanted[: len(seen) - 3], "none twice, none left out"
    point = re.search(r'href="(/point\?[^"]*)"', text)
    assert page.get(html.unescape(point[1])).status == 200
    assert "plan.md" in page.get(f"/browse?project={quote(garden)}").text


def test_a_long_journal_is_read_from_its_end(user):
    page, _, _ = user
    page.get("/timeline")
    before = read_by(page)
    text = page.get("/timeline").text
    assert text.count("<time ") == 50 and "Drill" in text
    assert read_by(page) - before < 2_000_000, "the journal has some 4 MB"


def test_a_directory_of_50_000_files_comes_a_page_at_a_time(user):
    page, _, _ = user
    pages = FILES // 200
    for number in (1, pages):
        text = page.get(f"/browse?path=many&page={number}").text
        assert len(text) < 120_000
        names = re.findall(r">(note-[^<]*)</a>", text)
        assert names == [f"note-{one:05}.md" for one in range((number - 1) * 200, number * 200)]
        assert ('rel="next"' in text) is (number < pages) and f"page {number} of {pages}" in text
    text = page.get("/browse?path=many&name=note-00500").text
    assert re.findall(r">(note-[^<]*)</a>", text) == ["note-00500.md"]


def test_a_huge_file_is_not_read(user):
    page, _, _ = user
    with open(f"/proc/{page.process.pid}/status", encoding="ascii") as file:
        before = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
    answer = page.get("/browse?path=huge.txt")
    assert answer.status == 200 and "so it is not shown" in answer.text and "2.0 GB" in answer.text
    with open(f"/proc/{page.process.pid}/status", encoding="ascii") as file:
        after = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
    assert after - before < 50_000, "KB"


def test_what_is_remembered_of_a_vault_is_the_same_as_what_is_read(user):
    _, state, _ = user
    listings = Listings()
    first = listings.of_home(state.context, state.home)
    assert listings.of_home(state.context, state.home) is first, "nothing new: not taken apart again"
    write(state, "SOUL.md", "somebody else")
    new = _snapshot(state)
    second = listings.of_home(state.context, state.home)
    assert [one.id for one in second] == [new, *(one.id for one in first)]
    request = EventRequest(home=state.home, most=20)
    assert events(state.context, request, listings) == events(state.context, request)
