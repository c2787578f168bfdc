"""The page in a real Chromium: the whole journey by mouse, without scripts and by keyboard; for all eyes.

`PAGE_PICTURES=$PWD/docs/pictures` writes the pictures of the README anew.
"""

from __future__ import annotations

import http.server
import os
import sqlite3
import threading
import time
from functools import partial

import pytest

from support.ui.browser import chromium, tab
from support.ui.months import month, project
from support.ui.served import ServedPage

pytestmark = pytest.mark.real
SKILL = "skills/deploy-0/SKILL.md"
NARROW = {"viewport": {"width": 360, "height": 740}}


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    kept = month(tmp_path_factory.mktemp("browser"))
    project(kept)
    return kept


@pytest.fixture(scope="module")
def calm(state):
    """The page while no agent is at work yet: for pictures, which should be the same tomorrow."""
    with ServedPage(state.user) as served:
        served.enter()
        yield served


@pytest.fixture(scope="module")
def page(calm, writer):
    return calm


@pytest.fixture(scope="module")
def writer(state):
    """An agent at work beside every test here: messages into its database, lines into its log."""
    over, written = threading.Event(), []

    def work() -> None:
        database = sqlite3.connect(os.path.join(state.home, "state.db"), timeout=30)
        columns = [row[1] for row in database.execute("PRAGMA table_info(messages)")]
        with open(os.path.join(state.home, "logs", "live.log"), "a", encoding="utf-8") as log:
            while not over.wait(0.05):
                row = database.execute("SELECT * FROM messages ORDER BY rowid DESC LIMIT 1").fetchone()
                values = [None if name == "id" else value for name, value in zip(columns, row, strict=True)]
                with database:
                    database.execute(f"INSERT INTO messages VALUES ({', '.join('?' * len(values))})", values)
                log.write("still at work\n")
                log.flush()
                written.append(time.time())
        database.close()

    os.makedirs(os.path.join(state.home, "logs"), exist_ok=True)
    thread = threading.Thread(target=work)
    thread.start()
    yield written
    over.set()
    thread.join()
    assert len(written) > 20, "it was at work all the time"


def views(state) -> dict[str, str]:
    garden = os.path.join(state.user, "code", "garden")
    return {
        "today": "/",
        "timeline": "/timeline",
        "project": f"/timeline?project={garden}",
        "snapshot": f"/snapshot?id={state.snapshots[-2]}",
        "browse": "/browse",
        "memory": "/browse?path=memories/MEMORY.md",
        "file": f"/browse?path={SKILL}",
        "history": "/history?path=memories/MEMORY.md",
        "project-file": f"/history?project={garden}&path=plan.md",
        "proof": "/proof",
        "places": "/places",
        "plan": f"/restore?path=memories/MEMORY.md&id={state.snapshots[-3]}",
        "work": "/work",
        "nothing": "/nowhere",
    }


#: Name: address, colours, width, what is clicked first.
PICTURES = {
    "today": ("today", "light", 1280),
    "today-dark": ("today", "dark", 1280),
    "today-phone": ("today", "light", 360),
    "timeline": ("timeline", "light", 1280),
    "diff": ("snapshot", "light", 1280),
    "restore-plan": ("plan", "light", 1280),
}


def test_pictures_of_every_view_can_be_taken(browser, calm, state, tmp_path):
    place = os.environ.get("PAGE_PICTURES") or str(tmp_path)
    for name, (view, scheme, width) in PICTURES.items():
        tall = 780 if width < 500 else 900
        size = {"width": width, "height": tall}
        with tab(browser, calm, color_scheme=scheme, viewport=size, device_scale_factor=1.5) as one:
            one.goto(calm.origin + views(state)[view])
            one.screenshot(path=os.path.join(place, f"{name}.png"))
        assert os.path.getsize(os.path.join(place, f"{name}.png")) > 10_000


def deleted(state) -> tuple[str, bytes]:
    path = os.path.join(state.home, SKILL)
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return path, data


def is_back(path: str, data: bytes) -> bool:
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        return file.read() == data


@pytest.mark.parametrize("script", [True, False], ids=["scripts", "no-scripts"])
def test_a_deleted_skill_comes_back_by_clicking_and_goes_again(browser, page, state, script):
    path, data = deleted(state)
    with tab(browser, page, java_script_enabled=script) as one:
        one.goto(page.origin)
        one.get_by_role("link", name="Find a file").click()
        for name in ("skills/", "deploy-0/", "SKILL.md"):
            one.get_by_role("link", name=name, exact=True).click()
        one.get_by_role("link", name="Every version").click()
        assert one.get_by_text("not in the home any more").is_visible()
        one.get_by_role("link", name="Restore this version").first.click()
        assert one.get_by_text("Would be made: 1 path").is_visible()
        assert one.locator(".diff .add").count() >= 1
        one.get_by_role("button", name="Restore").click()
        one.get_by_role("heading", name="Restored").wait_for()
        assert is_back(path, data)
        one.get_by_role("link", name="Undo").click()
        one.get_by_role("button", name="Take it back").click()
        one.get_by_role("heading", name="Taken back").wait_for()
        assert not os.path.exists(path)
        one.get_by_role("link", name="Undo").click()  # and once more: it is needed by the next test
        one.get_by_role("button", name="Take it back").click()
        one.get_by_role("heading", name="Taken back").wait_for()
    assert is_back(path, data)


def follow(one, name: str, role: str = "link", most: int = 60) -> None:
    """Tab until something of this name has the focus, and press Enter."""
    for _ in range(most):
        one.keyboard.press("Tab")
        found = one.evaluate(
            "() => { const e = document.activeElement;"
            " return [e.tagName === 'BUTTON' ? 'button' : e.tagName === 'A' ? 'link' : e.tagName,"
            " e.textContent.trim(), getComputedStyle(e).outlineStyle]; }"
        )
        if found[0] == role and found[1].startswith(name):
            assert found[2] != "none", f"nobody sees that {name} has the focus"
            with one.expect_navigation():
                one.keyboard.press("Enter")
            return
    raise AssertionError(f"{name} cannot be reached with the Tab key")


def test_the_same_with_the_keyboard_alone(browser, page, state):
    path, data = deleted(state)
    with tab(browser, page) as one:
        one.goto(page.origin)
        follow(one, "Find a file")
        for name in ("skills/", "deploy-0/", "SKILL.md", "Every version", "Restore this version"):
            follow(one, name)
        assert one.locator(".diff .add").count() >= 1
        follow(one, "Restore", "button")
        one.get_by_role("heading", name="Restored").wait_for()
        for there in (False, True):  # taken back, and once more: the next test needs it
            assert is_back(path, data) is not there
            follow(one, "Undo")
            follow(one, "Take it back", "button")
            one.get_by_role("heading", name="Taken back").wait_for()
    assert is_back(path, data)


def test_what_replaces_is_not_sent_without_the_word(browser, page, state):
    soul = os.path.join(state.home, "SOUL.md")
    with open(soul, "rb") as file:
        before = file.read()
    with open(soul, "wb") as file:
        file.write(b"Somebody else.\n")
    with tab(browser, page) as one:
        one.goto(f"{page.origin}/history?path=SOUL.md")
        one.get_by_role("link", name="Restore this version").first.click()
        one.get_by_role("button", name="Restore").click()
        assert "/restore?" in one.url, "the browser asks for the word first"
        one.get_by_role("textbox").fill("restore")
        one.get_by_role("button", name="Restore").click()
        one.get_by_role("heading", name="Restored").wait_for()
    assert is_back(soul, before)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_every_view(browser, page, state, scheme):
    """axe-core finds nothing: names, landmarks, contrast, order of headings."""
    from axe_playwright_python.sync_playwright import Axe

    found = {}
    with tab(browser, page, color_scheme=scheme, bypass_csp=True) as one:
        for name, address in views(state).items():
            one.goto(page.origin + address)
            one.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            for rule in Axe().run(one).response["violations"]:
                found[name, rule["id"]] = [node["html"][:200] for node in rule["nodes"]][:3]
    assert found == {}


@pytest.mark.parametrize("width", [360, 1440])
def test_no_view_is_wider_than_the_screen(browser, page, state, width):
    with tab(browser, page, viewport={"width": width, "height": 800}) as one:
        for name, address in views(state).items():
            one.goto(page.origin + address)
            assert one.evaluate("document.documentElement.scrollWidth") <= width, name


def test_the_link_opens_the_page_and_no_script_is_refused(browser, state):
    said = []
    with ServedPage(state.user) as served:
        context = browser.new_context()
        one = context.new_page()
        one.on("console", lambda message: said.append(message.text))
        one.goto(served.link)
        one.wait_for_url(served.origin + "/")
        one.get_by_role("heading", level=1).wait_for()
        assert [cookie["sameSite"] for cookie in context.cookies()] == ["Strict"]
        context.close()
    assert said == []


EVIL = b"""<!doctype html><title>evil</title>
<form id=f method=post action="{origin}/do/snapshot"><input name=token value=x></form>
<iframe id=i src="{origin}/"></iframe><img src="{origin}/static/icon.svg" id=m>
<script>
window.seen = [];
fetch("{origin}/", {credentials: "include"}).then(() => seen.push("read"), () => seen.push("refused"));
fetch("{origin}/do/snapshot", {method: "POST", mode: "no-cors", credentials: "include", body: "token=x"})
  .then(() => seen.push("sent"), () => seen.push("refused"));
document.getElementById("m").onload = () => seen.push("picture");
document.getElementById("m").onerror = () => seen.push("no picture");
</script>"""


class _Evil(http.server.BaseHTTPRequestHandler):
    def __init__(self, origin: str, *rest: object) -> None:
        self.origin = origin
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(EVIL.replace(b"{origin}", self.origin.encode()))

    def log_message(self, *_: object) -> None:
        pass


def test_a_page_of_another_origin_can_neither_read_nor_send_nor_frame(browser, page, state):
    """In the browser of the very person who has the page open; even from another port of this machine."""
    before = page.get("/timeline?kind=snapshots").text.count("<time ")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Evil, page.origin))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with tab(browser, page) as one:
            for host in ("127.0.0.1", "localhost"):
                one.goto(f"http://{host}:{server.server_address[1]}/")
                one.wait_for_function("window.seen.length >= 3")
                seen = one.evaluate("window.seen")
                assert "read" not in seen and "picture" not in seen
                frame = one.frames[1]
                assert "Protected" not in frame.content()
                one.evaluate("document.getElementById('f').submit()")
                one.get_by_text("Nothing was shown or changed").wait_for()
    finally:
        server.shutdown()
        server.server_close()
    assert page.get("/timeline?kind=snapshots").text.count("<time ") == before
    assert page.get("/work").text.count("/do/") == 0 and "Snapshot of" not in page.get("/work").text
