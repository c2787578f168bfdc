"""Every version of a file: entry by entry for a memory, who made it, Markdown that runs nothing; sizes."""

from __future__ import annotations

import html
import os
import re
import time
from urllib.parse import quote

import pytest

from safekept.actions.page.sections import section_changes
from safekept.actions.projects.home_points.take import before_home_change
from safekept.actions.projects.project import checkpoint_directory
from safekept.checkpoints.store import Store
from safekept.checkpoints.take.taking import take
from safekept.ui.markdown import markdown
from support.commands.waiting import wait_until
from support.ui.months import month, project
from support.ui.served import ServedPage
from support.users.states import _snapshot, write

MEMORY = "memories/MEMORY.md"
SCRIPT = "<script>alert(1)</script>"
NOTE = f"""---
name: deploy <b>
---
# Deploy {SCRIPT}

Run `make` and **wait**. See [the docs](javascript:alert(1)) and ![x](http://evil.example/x.png).

- one <img src=x onerror=alert(1)>
  - two
> quoted \x1b[31m

```
{SCRIPT}
```
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    state = month(tmp_path_factory.mktemp("versions"), kept=(2, 1, 0), copied=False)
    write(state, "skills/deploy.md", NOTE)
    write(state, "one-line.json", '{"a": [1, 2]}')
    before_home_change(
        state.context,
        state.home,
        "hermes",
        [MEMORY],
        reason="memory",
        session="s-1",
        turn="t-1",
        host="hermes",
    )
    write(state, MEMORY, "On day 0 we spoke of the <b>balcony</b>.\n§\nOn day 1 we spoke of the garden.\n")
    _snapshot(state)
    garden = project(state)
    with Store.open(checkpoint_directory(state.context)) as store:
        take(store, garden, kind="after", reason="edit 3", session="s-2", always=True)
        with open(os.path.join(garden, "plan.md"), "w", encoding="utf-8") as file:
            file.write("# Garden\n\nMy own words.\n")
        take(store, garden, kind="before", reason="edit 4", session="s-3")
    with ServedPage(state.user) as page:
        page.enter()
        yield page, state, garden


def words(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def versions(text: str) -> list[str]:
    return re.findall(r'<section class="card" aria-labelledby="version-.*?</section>', text, re.DOTALL)


def test_a_memory_is_told_entry_by_entry_and_by_whom(user):
    page, _, _ = user
    newest, *older = versions(page.get(f"/history?path={MEMORY}").text)
    said = words(newest)
    assert "Made by Hermes, session s-1: memory" in said
    hows = set(re.findall(r'<span class="chip \w+">(added|removed|changed)</span>', newest))
    assert hows == {"changed", "removed"}
    assert "<mark>" in newest and "<b>balcony" not in newest and "&lt;b&gt;" in newest.replace("<mark>", "")
    assert "On day 2 we spoke of" in said and "As lines" in said
    assert "Made by you, or by a program that is not connected" in words(older[0])
    assert "Already there when it was first kept" in words(older[-1])


def test_entries_of_a_memory_are_shown_one_by_one(user):
    page, _, _ = user
    text = page.get(f"/browse?path={MEMORY}").text
    assert "2 entries" in text and text.count("<li><p>") == 2 and "&lt;b&gt;balcony" in text


def test_what_came_and_what_went_of_entries():
    changes = section_changes("a\n§\nb\n§\nc", "a\n§\nB\n§\nc\n§\nd\n§\n", "\n§\n")
    assert changes is not None
    assert [(one.how, one.before, one.after) for one in changes] == [
        ("changed", "b", "B"),
        ("added", "", "d"),
    ]
    assert section_changes("x\n§\n" * 3000, "y", "\n§\n") is None


def test_markdown_has_structure_and_nothing_in_it_runs(user):
    page, _, _ = user
    text = page.get("/browse?path=skills/deploy.md").text
    assert '<pre class="text">name: deploy &lt;b&gt;</pre>' in text
    assert (
        "<h2>Deploy &lt;script&gt;" in text
        and "<code>make</code>" in text
        and "<strong>wait</strong>" in text
    )
    assert "<script>alert" not in text and "<img" not in text and 'href="javascript' not in text
    assert "(javascript:alert(1))" in html.unescape(text) or "javascript:alert(1" in html.unescape(text)
    assert "\x1b" not in text and "\\x1b[31m" in text and '<li class="in-1">two</li>' in text
    assert re.findall(r"<[^>]*\son\w+=", text) == []


def test_markdown_of_any_size_and_shape_takes_no_longer_than_its_length():
    began = time.process_time()
    for line in ("[" * 150_000, "`" * 150_000, "**" * 75_000, "# " * 75_000, "> " * 75_000, "- " * 75_000):
        assert "<script" not in markdown(line + SCRIPT)
        markdown("\n".join([line[:1_900]] * 75))
    assert time.process_time() - began < 20, "seconds of processor, where a square would take minutes"


def test_json_on_one_line_is_spread_out(user):
    page, _, _ = user
    assert '"a": [\n    1,' in html.unescape(page.get("/browse?path=one-line.json").text)


def test_a_file_of_a_project_has_versions_with_their_makers_and_comes_back(user):
    page, _, garden = user
    about = f"project={quote(garden)}&path=plan.md"
    found = versions(page.get(f"/history?{about}").text)
    said = [words(one) for one in found]
    assert "My own words" in said[0] and "Made by you, or by a program" in said[0]
    assert "Water nothing" in said[1] and "Made by an agent, session s-2: edit 3" in said[1]
    assert len(found) == 5 and "Already there" in said[-1]
    plan = re.search(r'href="(/rollback\?[^"]*)">Restore this version', found[1])
    text = page.get(html.unescape(plan[1])).text
    assert "Restore plan.md" in words(text)
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text))
    begun = page.post("/do/rollback", {**fields, "typed": "rollback"})
    wait_until(lambda: "refresh" not in page.get(begun.headers["location"]).headers, "the rollback to end")
    with open(os.path.join(garden, "plan.md"), encoding="utf-8") as file:
        assert "Water nothing" in file.read()
    assert page.get(f"/history?project={quote(garden)}&path=../../etc/passwd").status == 400


def test_the_timeline_is_narrowed_to_a_path_a_session_and_an_agent(user):
    page, state, garden = user
    text = page.get(f"/timeline?path={MEMORY}&kind=snapshots").text
    assert text.count("<time ") == 4, "each of the four changed it"
    assert page.get("/timeline?path=skills/deploy.md&kind=snapshots").text.count("<time ") == 1
    whole = page.get("/timeline").text
    session = re.search(r'href="(/timeline\?[^"]*session=s-1[^"]*)"', whole)
    agent = re.search(r'href="(/timeline\?[^"]*agent=hermes[^"]*)"', whole)
    for link in (session, agent):
        text = page.get(html.unescape(link[1])).text
        assert text.count("<time ") == 1 and "Home point" in text
    text = page.get(f"/timeline?project={quote(garden)}&path=plan.md").text
    assert "edit 4" in text and page.get("/timeline?path=nothing.md").status == 400
    assert state.home


def test_today_shows_sizes_by_class_and_how_long_snapshots_took(user):
    page, _, _ = user
    text = page.get("/").text
    said = words(text)
    holds = said.partition("What it holds")[2]
    assert "Conversations" in holds and "Skills" in holds and "Memories" in holds
    assert "SOUL" not in holds.partition("Where the copies are")[0].upper()
    assert text.count('class="share"') >= 5 and 'class="durations"' in text
    assert "under 1 s" in said or " s, the longest" in said
    assert "Took" in said and "Stands for" in said
