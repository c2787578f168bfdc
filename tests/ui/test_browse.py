"""Timeline, browse, history and proof: every name hostile, every list paged, nothing large read."""

from __future__ import annotations

import html
import os
import re
from urllib.parse import quote

import pytest

from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.ui.diffs import backwards, diff_rows
from support.commands.waiting import wait_until
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


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    state = empty(tmp_path_factory.mktemp("browse"))
    odd = os.path.join(os.fsencode(state.home), b"odd")
    os.mkdir(odd)
    for name in NAMES:
        with open(os.path.join(odd, name), "wb") as file:
            file.write(f"{SCRIPT} in a file \x1b[31m\n".encode())
    for name, data in (
        ("page.html", f"<html><body>{SCRIPT}</body></html>"),
        ("drawing.svg", f'<svg xmlns="http://www.w3.org/2000/svg">{SCRIPT}</svg>'),
    ):
        with open(os.path.join(state.home, name), "w", encoding="utf-8") as file:
            file.write(data)
    with open(os.path.join(state.home, "photo.png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + b"\0" * 64)
    project = os.path.join(state.user, "code", SCRIPT.replace("/", "_"))
    os.makedirs(os.path.join(project, ".git"))
    for name in NAMES[:5]:
        with open(os.path.join(os.fsencode(project), name), "wb") as file:
            file.write(f"{SCRIPT} \x1b[31m\n".encode())
    take_checkpoint(state.context, project, CheckpointPolicy(), reason=SCRIPT, session=SCRIPT)
    with open(os.path.join(os.fsencode(project), NAMES[0]), "wb") as file:
        file.write(f"{SCRIPT} changed".encode())
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


def test_a_project_whose_names_and_files_are_hostile_is_harmless(user):
    page, state, _ = user
    about = f"project={quote(os.path.join(state.user, 'code', SCRIPT.replace('/', '_')))}"
    timeline = page.get(f"/timeline?{about}").text
    point = html.unescape(re.search(r'href="/point\?([^"]*)"', timeline)[1])
    for view in ("/point", "/rollback", "/browse"):
        answer = page.get(f"{view}?{point}")
        assert answer.status == 200, (view, words_of(answer.text))
        harmless(answer.text)
    links = links_in(answer.text)
    assert len(links) >= 4
    for link in [*links, f"/timeline?{about}", "/", "/places"]:
        found = page.get(link)
        assert found.status == 200, link
        harmless(found.text)
        if link.startswith("/browse?"):
            name = link.partition("path=")[2].partition("&")[0]
            harmless(page.get(f"/history?{about}&path={name}").text)
            answer = page.get(link.replace("/browse?", "/download?", 1))
            assert answer.headers["content-type"] == "application/octet-stream", words_of(answer.text)


def words_of(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


EVERY = ("/timeline", "/browse", "/history", "/download", "/rollback", "/restore", "/point", "/snapshot")


@pytest.mark.parametrize("field", ["path", "id", "at", "place", "name", "text", "agent", "session", "before"])
def test_no_word_of_an_address_leads_out(user, field):
    page, state, one = user
    project = quote(os.path.join(state.user, "code", SCRIPT.replace("/", "_")))
    for view in EVERY if field in ("path", "id") else EVERY[:2]:
        for wrong in ("../../../../etc/passwd", "%00%ff"):
            for about in (f"id={one}" if field != "id" else "path=SOUL.md", f"project={project}"):
                answer = page.get(f"{view}?{field}={wrong}&{about}")
                assert answer.status in (200, 400) and b"root:x:0:0" not in answer.body, (view, about, wrong)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "odd/../../passwd", "..", "\0"])
def test_no_path_of_a_form_leads_out(user, path):
    """A form that the page made, with another path put into it: neither read, nor made, nor removed."""
    page, state, one = user
    made = os.path.join(state.home, "page.html")
    if os.path.exists(made):
        os.unlink(made)
    project = quote(os.path.join(state.user, "code", SCRIPT.replace("/", "_")))
    points = re.findall(r'href="/point\?([^"]*)"', page.get(f"/timeline?project={project}").text)
    before = sorted(os.listdir(state.user))
    for plan, address in (
        (f"/restore?id={one}&path=page.html", "/do/restore"),
        (f"/rollback?{html.unescape(points[-1])}", "/do/rollback"),
    ):
        shown = page.get(plan).text
        form = re.search(rf"<form[^>]*action=\"{address}\".*?</form>", shown, re.DOTALL)
        assert form is not None, words_of(shown)
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form[0]))
        sent = {name: html.unescape(value) for name, value in fields.items()}
        answer = page.post(address, {**sent, "path": quote(path), "typed": address.removeprefix("/do/")})
        assert answer.status in (303, 400)
        if answer.status == 303:
            wait_until(lambda at=answer.headers["location"]: "refresh" not in page.get(at).headers, "its end")
            text = page.get(answer.headers["location"]).text
            assert 'class="card trouble"' in text and "root:" not in text
    assert sorted(os.listdir(state.user)) == before and not os.path.exists(made)


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
    assert kinds == ["place", "del", "add", "same", "add"]
    assert "<mark>red</mark>" in rows.lines[1].text and "<script" not in rows.lines[1].text
    assert rows.lines[1].said == "removed: "
    assert diff_rows([f"+{number}" for number in range(900)]).left_out == 300


def test_a_line_that_looks_like_the_name_of_a_file_is_a_line():
    """A comment of SQL that went: `-- x` with a minus before it."""
    lines = ["--- a/x.sql", "+++ b/x.sql", "@@ -1,2 +1,1 @@", "--- first", " select 1"]
    rows = diff_rows(lines, one_file=True)
    assert [line.kind for line in rows.lines] == ["place", "del", "same"] and rows.removed == 1
    assert [line.kind for line in diff_rows(lines).lines][:4] == ["head", "head", "place", "del"]


def test_a_plan_to_go_back_tells_what_goes_and_what_comes():
    since = ["--- a/x", "+++ b/x", "@@ -1,3 +1,4 @@", " top", "-old", "+new", "+more", " end"]
    since += ["--- /dev/null", "+++ b/y", "@@ -0,0 +1 @@", "+y", "# z: file 0644 -> file 0755"]
    since += ["# big: not shown as text (12 -> 14 bytes)", "k: 3 bytes then, 4 bytes now (hidden)"]
    back = ["--- b/x", "+++ a/x", "@@ -1,4 +1,3 @@", " top", "-new", "-more", "+old", " end"]
    back += ["--- b/y", "+++ /dev/null", "@@ -1 +0,0 @@", "-y", "# z: file 0755 -> file 0644"]
    back += ["# big: not shown as text (14 -> 12 bytes)", "k: 3 bytes then, 4 bytes now (hidden)"]
    assert backwards(since) == back and backwards(back) == since


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
