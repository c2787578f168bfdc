"""Every address of the page against every attack. The list is the application's own: none can be left out."""

from __future__ import annotations

import ast
import asyncio
import html
import inspect
import os
import re
from urllib.parse import quote

import pytest

from safekept.ui import views
from safekept.ui.admission import Admission, PageAddress
from safekept.ui.application import make_application
from safekept.ui.gate import Gate
from safekept.ui.visit import PageOffice
from safekept.ui.watching import PageWatch
from support.commands.waiting import wait_until
from support.ui.months import project
from support.ui.served import ServedPage
from support.users.states import fresh

#: What each address takes: words of its query, or fields of its form. A new one is attacked once it is here,
#: and the tests below fail until it is.
TAKES = {
    "/": (),
    "/timeline": ("home", "project", "place", "kind", "text", "path", "agent", "session", "turn", "before"),
    "/snapshot": ("home", "place", "id"),
    "/point": ("project", "place", "id"),
    "/operation": ("id",),
    "/browse": ("home", "project", "place", "id", "path", "at", "name", "page"),
    "/history": ("home", "project", "place", "path"),
    "/download": ("home", "project", "place", "id", "path", "show"),
    "/proof": (),
    "/places": (),
    "/restore": ("home", "place", "id", "path"),
    "/rollback": ("project", "place", "id", "path", "git"),
    "/undo": ("id",),
    "/work": ("id",),
    "/work/events": ("id",),
    "/static/{name}": (),
    "/do/restore": ("home", "id", "path", "plan", "typed"),
    "/do/rollback": ("project", "id", "path", "plan", "typed", "git"),
    "/do/undo": ("id", "plan"),
    "/do/snapshot": ("home",),
    "/do/drill": ("home",),
    "/do/push": ("destination",),
}
SKILL = "skills/deploy-0/SKILL.md"
#: What would be seen if something of the page came out.
SECRET = ("Do this next", ".hermes", "Timeline")
OUT = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "..",
    "%00",
    "%ff/../..",
    "<script>alert(1)</script>",
    "9" * 5000,
)


def addresses(*, allow_changes: bool = True) -> list[tuple[str, str]]:
    """Every route of the application, as it is served: its method and its path."""
    office = PageOffice(
        Admission(PageAddress("http", "127.0.0.1:1")), PageWatch(), allow_changes=allow_changes
    )
    routes = make_application(office, lambda: None)._app.routes
    return [("POST" if "POST" in one.methods else "GET", one.path) for one in routes]


EVERY = addresses()
FORMS = [path for method, path in EVERY if method == "POST"]
LOOKS = [path for method, path in EVERY if method == "GET"]


def words_asked() -> set[str]:
    """Every word that a view takes out of an address or a form, by its source."""
    found = {"home", "project"}  # `place_of` takes these by a variable
    folder = os.path.dirname(inspect.getfile(views))
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".py"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in ("asked", "all_asked", "asked_name", "number", "field", "name", "names"):
                found |= {one.value for one in call.args[:1] if isinstance(one, ast.Constant)}
            if call.func.attr == "get" and "query_params" in ast.unparse(call.func):
                found |= {one.value for one in call.args[:1] if isinstance(one, ast.Constant)}
    return {one for one in found if isinstance(one, str)} - {"_"}


def test_every_address_and_every_word_of_it_is_attacked():
    assert {path for _, path in EVERY} == set(TAKES)
    known = {word for words in TAKES.values() for word in words}
    assert words_asked() - known - {"database.deadline", "import.keep_days"} == set(), (
        "a word that nobody attacks"
    )


def test_without_permission_no_form_and_no_plan_has_an_address():
    quiet = addresses(allow_changes=False)
    assert [path for method, path in quiet if method != "GET"] == []
    assert {path for _, path in quiet} == {
        path for path in TAKES if not path.startswith(("/do/", "/restore", "/rollback", "/undo", "/work"))
    }


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    state = fresh(tmp_path_factory.mktemp("every"))
    with open(os.path.join(state.user, ".config", "safekept", "config.toml"), "a", encoding="utf-8") as file:
        file.write(f'[[destination]]\nname = "attic"\nurl = "file:{state.user}/attic"\n')
    garden = project(state)
    with ServedPage(state.user) as page:
        page.enter()
        yield page, state, garden


@pytest.fixture(scope="module")
def page(user):
    return user[0]


def at(path: str) -> str:
    return path.replace("{name}", "page.css")


def refused(answer, status=403):
    assert answer.status == status, answer.text[:300]
    assert not [word for word in SECRET if word in answer.text]
    assert "Nothing was shown or changed" in answer.text


@pytest.mark.parametrize(("method", "path"), EVERY)
def test_nobody_else_gets_an_answer(page, method, path):
    """Another host, no cookie, another port's cookie, another page's fetch, a frame: at each address."""

    def ask(**headers: str):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "POST":
            return page.post(at(path), {"token": "x"}, **headers)
        return page.ask("GET", at(path), {"Cookie": page.cookie, **named})

    port = page.authority.partition(":")[2]
    for host in ("evil.example", "localhost:" + port, "127.0.0.1", page.authority + "."):
        refused(ask(Host=host), 421)
    name, _, value = page.cookie.partition("=")
    if not path.startswith("/static/"):  # what everybody may have, and no other page either
        for cookie in ("", f"{name}=x", f"safekept-1={value}", f"x{name}={value}"):
            refused(ask(Cookie=cookie))
    for site in ("cross-site", "same-site"):
        for mode in ("cors", "no-cors"):
            refused(ask(Sec_Fetch_Site=site, Sec_Fetch_Mode=mode))
    for inside in ("iframe", "frame", "object", "embed"):
        refused(ask(Sec_Fetch_Dest=inside))


@pytest.mark.parametrize("path", FORMS)
def test_no_form_but_our_own_is_taken(page, path):
    token = re.search(
        r'action="/do/snapshot"><input type="hidden" name="token" value="(\w+)"', page.get("/").text
    )
    for origin in ("http://evil.example", "null", "", f"http://localhost:{page.authority.split(':')[1]}"):
        refused(page.post(path, {"token": "x"}, Origin=origin))
    refused(page.post(path, {}, Content_Type="application/json"), 415)
    refused(page.post(path, {"x": "y" * 300_000}), 413)
    for fields in (
        {},
        {"token": ""},
        {"token": "0" * 64},
        {"token": token[1]} if path != "/do/snapshot" else {},
    ):
        answer = page.post(path, fields)
        assert answer.status == 403 and "This form is old" in answer.text, "a token is good for one address"
    assert page.get(path).status == 405, "and it is no page to look at"


def test_a_form_that_was_cut_off_is_none():
    """What came of it may name less than was meant: a snapshot of another home, a restore of everything."""
    admission, reached, answers = Admission(PageAddress("http", "127.0.0.1:1")), [], []
    cookie = admission.cookie_header.partition(";")[0]
    headers = {
        "host": "127.0.0.1:1",
        "cookie": cookie,
        "origin": "http://127.0.0.1:1",
        "content-type": "application/x-www-form-urlencoded",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/do/snapshot",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    token = admission.form_token("/do/snapshot").encode()

    def answered(*messages) -> int:
        coming = iter(messages)

        async def receive():
            return next(coming)

        async def send(message):
            answers.append(message)

        async def app(*_):
            reached.append(True)

        answers.clear()
        asyncio.run(Gate(app, admission, lambda: None)(dict(scope), receive, send))
        return answers[0]["status"] if answers else 0

    part = {"type": "http.request", "body": b"token=" + token, "more_body": True}
    assert answered(part, {"type": "http.disconnect"}) == 400 and reached == []
    answered(part, {"type": "http.request", "body": b"&home=x"})
    assert reached == [True], "the same form, whole, is taken"


@pytest.mark.parametrize("path", LOOKS)
def test_what_is_only_looked_at_takes_no_form_and_is_closed_to_other_pages(page, path):
    answer = page.post(at(path), {"token": "x"})
    assert answer.status == 403 and not [word for word in SECRET if word in answer.text]
    headers = page.get(at(path)).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"] and headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", [path for path in LOOKS if TAKES[path]])
def test_no_word_of_an_address_leads_out_or_becomes_markup(user, path):
    page, _, garden = user
    for about in ("", f"&project={quote(garden)}&id=1"):
        for word in TAKES[path]:
            for wrong in OUT:
                sent = wrong if wrong.startswith("%") else quote(wrong)
                answer = page.get(f"{path}?{word}={sent}{about}")
                assert answer.status in (200, 400), (path, word, wrong, answer.status)
                assert b"root:x:0:0" not in answer.body and b"<script>alert" not in answer.body, (path, word)
                assert b"page-broke" not in answer.body, (path, word, wrong)


@pytest.fixture(scope="module")
def tokens(user):
    """The token of each form, from the pages that have them; one restore is done for that."""
    page, state, garden = user
    os.unlink(os.path.join(state.home, SKILL))
    plan = page.get(f"/restore?path={SKILL}").text
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', plan))
    place = page.post("/do/restore", fields).headers["location"]
    wait_until(lambda: "refresh" not in page.get(place).headers, "the restore to end")
    undo = re.search(r'href="(/undo\?[^"]*)"', page.get(place).text)[1]
    point = re.search(r'href="/point\?([^"]*)"', page.get(f"/timeline?project={quote(garden)}").text)[1]
    shown = [page.get(html.unescape(one)).text for one in ("/", undo, f"/rollback?{point}")]
    found = re.findall(
        r'action="(/do/\w+)">\s*<input type="hidden" name="token" value="(\w+)"', "".join([plan, *shown])
    )
    assert set(FORMS) == set(dict(found))
    return dict(found)


@pytest.mark.parametrize("path", FORMS)
def test_no_field_of_a_form_leads_out(user, tokens, path):
    """With the right token, as if somebody else had put the name into the page."""
    page, state, _ = user
    before = sorted(os.listdir(state.user))
    for word in TAKES[path]:
        for wrong in OUT[:5]:
            answer = page.post(path, {"token": tokens[path], word: wrong})
            assert answer.status in (303, 400), (path, word, wrong)
            if answer.status == 303:  # it was begun, and is refused there
                place = answer.headers["location"]
                wait_until(lambda place=place: "refresh" not in page.get(place).headers, "its end")
                answer = page.get(place)
                assert 'class="card trouble"' in answer.text, (path, word, wrong)
            assert b"root:x:0:0" not in answer.body
    assert sorted(os.listdir(state.user)) == before
