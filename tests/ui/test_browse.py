"""Timeline, browse, history and proof: every name hostile, every list paged, nothing large read."""

from __future__ import annotations

import html
import os
import re
from urllib.parse import quote

import pytest

from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.ui.diffs import diff_rows
from support.ui.served import ServedPage
from support.users.states import drilled, empty, settled

SCRIPT = "<script>alert(1)</script>"
#: Names that a home may hold, as bytes.
NAMES = (
    b"<script>alert(1)<_script>",
    b"\"onmouseover=alert(1) x='",
    b"esc\x1b[31mred",
    b"\xff\xfe not utf-8",
    "\u202egnp.txt".encode(),
    b"%2e%2e%2f&path=x",
    b"n" * 255,
    b"new\nline",
)
MANY = 1_050
#: Far more than a text on a screen may have; no larger file is treated otherwise.
HUGE = 200 << 20


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    state = empty(tmp_path_factory.mktemp("browse"))
    odd = os.path.join(os.fsencode(state.home), b"odd")
    os.mkdir(odd)
    for name in NAMES:
        with open(os.path.join(odd, name), "wb") as file:
            file.write(f"{SCRIPT} in a file \x1b[31m\n".encode())
    many = os.path.join(state.home, "many")
    os.mkdir(many)
    for number in range(MANY):
        with open(os.path.join(many, f"note-{number:05}.md"), "wb"):
            pass
    with open(os.path.join(state.home, "huge.txt"), "wb") as file:
        file.truncate(HUGE)
    for name, data in (
        ("page.html", f"<html><body>{SCRIPT}</body></html>"),
        ("drawing.svg", f'<svg xmlns="http://www.w3.org/2000/svg">{SCRIPT}</svg>'),
    ):
        with open(os.path.join(state.home, name), "w", encoding="utf-8") as file:
            file.write(data)
    with open(os.path.join(state.home, "photo.png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + b"\0" * 64)
    place = state.context.locate(state.home)
    one = create_snapshot(state.context, SnapshotRequest(place, label=SCRIPT)).id
    drilled(state, one)
    settled(state)
    with ServedPage(state.user) as page:
        page.enter()
        yield page, state, one


def names_in(text: str) -> list[str]:
    return [
        html.unescape(name) for name in re.findall(r'<a class="path" href="/browse[^"]*">([^<]*)</a>', text)
    ]


def links_in(text: str) -> list[str]:
    found = re.findall(r'<th scope="row"><svg.*?</svg><a class="path" href="([^"]*)">', text, re.DOTALL)
    return [html.unescape(link) for link in found]


def harmless(text: str) -> None:
    assert "<script>alert" not in text and "\x1b" not in text and "\u202e" not in text
    assert re.findall(r"<[^>]*\sonmouseover=", text) == []


def test_every_odd_name_is_shown_and_leads_to_its_own_file(user):
    page, _, _ = user
    text = page.get("/browse?path=odd").text
    harmless(text)
    links = links_in(text)
    assert len(links) == len(NAMES)
    for link in links:
        answer = page.get(link)
        assert answer.status == 200, link
        harmless(answer.text)
        assert "in a file \\x1b[31m" in answer.text, link
        history = re.search(r'href="(/history[^"]*)"', answer.text)
        assert history is not None
        answer = page.get(html.unescape(history[1]))
        assert answer.status == 200 and "1 version" in answer.text
        harmless(answer.text)
        plan = re.search(r'href="(/restore[^"]*)"', page.get(link).text)
        assert plan is not None
        answer = page.get(html.unescape(plan[1]))
        assert answer.status == 200 and "There is nothing to do" in answer.text, link
        harmless(answer.text)


def test_every_page_stays_harmless(user):
    page, _, one = user
    for address in ("/", "/timeline", f"/snapshot?id={one}", "/proof", "/browse", "/work"):
        answer = page.get(address)
        assert answer.status == 200, address
        harmless(answer.text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.get("/timeline").text


def test_what_somebody_typed_comes_back_as_text(user):
    page, _, _ = user
    for address in (f"/timeline?text={quote(SCRIPT)}", f"/browse?name={quote(SCRIPT)}"):
        harmless(page.get(address).text)
    for address in ("/nowhere", f"/browse?path={quote(SCRIPT)}", "/snapshot?id=%3Cb%3Enothing"):
        answer = page.get(address)
        assert answer.status in (400, 404), address
        harmless(answer.text)


def test_a_large_directory_comes_a_page_at_a_time(user):
    page, _, _ = user
    seen: list[str] = []
    for number in range(1, 7):
        text = page.get(f"/browse?path=many&page={number}").text
        assert len(text) < 120_000
        seen += [name for name in names_in(text) if name.startswith("note-")]
    assert len(seen) == len(set(seen)) == MANY
    found = names_in(page.get("/browse?path=many&name=note-00500").text)
    assert [name for name in found if name.startswith("note")] == ["note-00500.md"]


def test_a_huge_file_is_not_read(user):
    page, _, _ = user
    with open(f"/proc/{page.process.pid}/status", encoding="ascii") as file:
        before = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
    answer = page.get("/browse?path=huge.txt")
    assert answer.status == 200 and "so it is not shown" in answer.text and "200 MB" in answer.text
    with open(f"/proc/{page.process.pid}/status", encoding="ascii") as file:
        after = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
    assert after - before < 50_000, "KB"


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "odd/../../x", "\0", "..", "./..", ""])
@pytest.mark.parametrize("view", ["/browse", "/history", "/download", "/restore"])
def test_no_path_leads_out_of_the_snapshot(user, view, path):
    page, _, one = user
    answer = page.get(f"{view}?id={one}&path={quote(path)}")
    assert b"root:x:0:0" not in answer.body
    assert answer.status in (200, 400) and (answer.status == 400 or view != "/download")


@pytest.mark.parametrize(
    "view", ["/timeline", "/browse", "/history", "/download", "/point", "/restore", "/rollback"]
)
@pytest.mark.parametrize("kind", ["home", "project"])
def test_only_known_places_are_looked_at(user, view, kind):
    page, _, _ = user
    answer = page.get(f"{view}?{kind}=/etc&path=passwd&id=1")
    assert answer.status == 400 and "is no" in answer.text and "root:" not in answer.text


def test_a_file_is_sent_as_a_file_and_never_as_a_page(user):
    page, _, one = user
    for name in ("page.html", "drawing.svg", "odd/" + os.fsdecode(NAMES[0])):
        answer = page.get(f"/download?id={one}&show=1&path={quote(name)}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["content-security-policy"].startswith("sandbox;")
        assert SCRIPT.encode() in answer.body
    answer = page.get(f"/download?id={one}&show=1&path=photo.png")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-security-policy"].startswith("sandbox;")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_secret_is_neither_shown_nor_sent(user):
    page, state, one = user
    with open(os.path.join(state.home, ".env"), encoding="utf-8") as file:
        secret = file.read().split("=", 1)[1].strip()
    assert len(secret) > 4
    for address in (f"/browse?id={one}&path=.env", "/history?path=.env", f"/download?id={one}&path=.env"):
        assert secret not in page.get(address).text, address


def test_a_database_shows_no_bytes(user):
    page, _, one = user
    answer = page.get(f"/browse?id={one}&path=state.db")
    assert answer.status == 200 and "A database" in answer.text
    assert re.search(r'<th scope="row">messages</th><td class="number">\d+</td>', answer.text)


def test_the_timeline_is_narrowed_and_its_pages_stay_small(user):
    page, _, _ = user
    assert "Drill" in page.get("/timeline?kind=proofs").text
    assert "Manual snapshot" not in page.get("/timeline?kind=proofs").text
    assert "fits what you asked for" in page.get("/timeline?text=nosuchword").text
    for address in ("/timeline?before=nan", "/timeline?before=x", "/timeline?kind=%00", "/browse?page=-1"):
        assert page.get(address).status == 200, address


def test_words_that_differ_are_marked_and_nothing_in_them_is_markup():
    rows = diff_rows(["@@ -1 +1 @@", f"-red {SCRIPT}", "+green <b>", " same", "+++ not a head"])
    kinds = [line.kind for line in rows.lines]
    assert kinds == ["place", "del", "add", "same", "head"]
    assert "<mark>red</mark>" in rows.lines[1].text and "<script" not in rows.lines[1].text
    assert rows.lines[1].said == "removed: "
    assert diff_rows([f"+{number}" for number in range(900)]).left_out == 300


def test_many_projects_do_not_make_every_page_longer():
    """A page offers some to choose from, the one that is shown among them; the rest has a page of its own."""
    from safekept.ui.views.places import ShownPlace, choices

    class Visiting:
        def __init__(self, project: str) -> None:
            known = [ShownPlace("home", "/h"), *(ShownPlace("project", f"/p{one}") for one in range(300))]
            self.remembered = {"places": known}
            self.project = project

        def asked(self, name: str) -> str:
            return self.project if name == "project" else ""

        def asked_name(self, name: str) -> str:
            return ""

    for project in ("/p0", "/p299"):
        offered = choices(Visiting(project))
        assert len(offered["places"]) == 20 and offered["more_places"] == 281
        assert offered["place"] in offered["places"] and offered["place"].path == project
