"""Who may not come in: other hosts, other pages, old links, forms that are none of ours. Over real HTTP."""

from __future__ import annotations

import os
import re
import socket

import pytest

from safekept.ui.admission import LINK_LIFETIME, Admission, PageAddress
from safekept.ui.application import CHANGES
from support.ui.served import ServedPage
from support.users.states import empty

#: Where a page may be asked for; nothing of it may be seen from outside.
SECRET = "Do this next"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    state = empty(tmp_path_factory.mktemp("gate"))
    with ServedPage(state.user) as served:
        served.enter()
        yield served


def refused(answer, status=403):
    assert answer.status == status, answer.text[:300]
    assert SECRET not in answer.text and ".hermes" not in answer.text
    assert "Nothing was shown or changed" in answer.text


def test_whoever_has_the_cookie_sees_the_page(page):
    assert SECRET in page.get("/").text


def test_the_link_works_once(page):
    refused(page.ask("GET", page.link.removeprefix(page.origin)))


@pytest.mark.parametrize("path", ["/open/", "/open/x", "/open/%2e%2e/", "/open/" + "a" * 5000])
def test_a_guessed_link_is_worth_nothing(page, path):
    answer = page.ask("GET", path)
    refused(answer)
    assert answer.cookies == ()


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "[::1]", "x@y", ""]
)
def test_another_host_is_refused_before_anything_else(page, host):
    """A name that leads here, as in DNS rebinding, also with the cookie and for what needs none."""
    for path in ("/", "/static/page.css", "/open/x"):
        answer = page.ask("GET", path, {"Host": host, "Cookie": page.cookie})
        assert answer.status in (400, 421) and SECRET not in answer.text, (host, path)


def test_the_name_of_the_machine_in_other_letters_is_another_host(page):
    refused(page.ask("GET", "/", {"Host": page.authority + ".", "Cookie": page.cookie}), 421)


def test_two_hosts_are_none(page):
    with socket.create_connection(page.authority.split(":")) as wire:
        request = f"GET / HTTP/1.1\r\nHost: {page.authority}\r\nHost: evil\r\nCookie: {page.cookie}\r\n\r\n"
        wire.sendall(request.encode())
        answer = wire.recv(65536)
    assert re.match(rb"HTTP/1.1 4\d\d", answer) and SECRET.encode() not in answer


@pytest.mark.parametrize("cookie", ["", "safekept-1=x", "other=1"])
def test_without_the_cookie_nothing_is_shown(page, cookie):
    refused(page.ask("GET", "/", {"Cookie": cookie}))


def test_links_and_cookies_belong_to_one_server(page, tmp_path):
    """A browser sends every cookie of a host to every port of it; and it fetches links in advance."""
    with ServedPage(empty(tmp_path).user) as other:
        link = other.link.removeprefix(other.origin)
        early = other.ask("GET", link, {"Sec-Purpose": "prefetch"})
        assert early.status == 503 and early.cookies == ()
        other.ask("HEAD", link)
        refused(page.ask("GET", link))
        (cookie,) = other.enter().cookies
        assert SECRET in other.get("/").text
        value, mine = other.cookie.partition("=")[2], page.cookie.partition("=")[0]
        for foreign in (other.cookie, f"{mine}={value}"):
            refused(page.ask("GET", "/", {"Cookie": foreign}))
    port = other.authority.partition(":")[2]
    assert cookie.startswith(f"safekept-{port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; ")[1:])


def test_a_link_is_good_for_a_minute():
    now = [0.0]
    admission = Admission(PageAddress("http", "127.0.0.1:1"), lambda: now[0])
    token = admission.link.rpartition("/")[2]
    now[0] = LINK_LIFETIME + 0.1
    assert not admission.enter(token)
    now[0] = LINK_LIFETIME - 0.1
    assert admission.enter(token) and not admission.enter(token)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("mode", ["cors", "no-cors"])
def test_a_fetch_of_another_page_is_refused(page, site, mode):
    refused(page.get("/", **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}))
    refused(page.get("/static/page.css", **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}))


@pytest.mark.parametrize("inside", ["iframe", "frame", "object", "embed"])
def test_the_page_is_never_inside_another(page, inside):
    refused(page.get("/", **{"Sec-Fetch-Dest": inside, "Sec-Fetch-Mode": "navigate"}))
    headers = page.get("/").headers
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/page.css", "/open/x"])
def test_every_answer_is_closed_to_other_pages(page, path):
    headers = page.get(path).headers
    rules = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'" and rules["script-src"] == "'self'"
    assert rules["base-uri"] == "'none'" and rules["form-action"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]
    assert "server" not in headers


def test_no_page_has_a_script_or_style_of_its_own(page):
    text = page.get("/").text
    assert re.findall(r"<script(?![^>]*src=)", text) == [] and "<style" not in text
    assert re.findall(r"\s(style|on[a-z]+)=", text) == []
    assert re.findall(r'(?:src|href)="(https?:)?//', text) == []


@pytest.mark.parametrize(
    "path",
    [
        "/static/../admission.py",
        "/static/%2e%2e/admission.py",
        "/static/..%2fadmission.py",
        "/static//etc/passwd",
        "/static/%00",
        "/..%2f..%2fetc/passwd",
        "//evil.example/",
    ],
)
def test_no_path_leads_out(page, path):
    answer = page.get(path)
    assert answer.status in (400, 404) and b"root:" not in answer.body and b"import" not in answer.body


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT"])
def test_other_methods_are_refused(page, method):
    assert page.ask(method, "/", {"Cookie": page.cookie}).status in (400, 405)


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": ""}])
def test_a_form_of_another_origin_is_refused(page, headers):
    refused(page.post("/snapshot", {"token": "x"}, **headers))


def test_a_form_that_the_browser_says_is_not_ours_is_refused(page):
    refused(page.post("/snapshot", {"token": "x"}, Sec_Fetch_Site="cross-site"))


@pytest.mark.parametrize("token", [{}, {"token": ""}, {"token": "0" * 64}])
def test_a_form_without_its_token_is_refused(page, token):
    answer = page.post("/snapshot", token)
    assert answer.status == 403 and "This form is old" in answer.text


@pytest.mark.parametrize("path", sorted(CHANGES))
def test_no_changing_address_takes_anything_but_our_own_form(page, path):
    """Each of them, in every way at once and one by one."""
    token = re.search(
        r'action="/do/snapshot"><input type="hidden" name="token" value="(\w+)"', page.get("/").text
    )
    refused(page.post(path, {"token": "x"}, Origin="http://evil.example"))
    refused(page.post(path, {"token": "x"}, Origin=f"http://localhost:{page.authority.split(':')[1]}"))
    refused(page.post(path, {"token": "x"}, Sec_Fetch_Site="cross-site"))
    refused(page.post(path, {"token": "x"}, Cookie=""))
    refused(page.post(path, {"token": "x"}, Host="evil.example"), 421)
    for fields in ({}, {"token": "0" * 64}, {"token": token[1]} if path != "/do/snapshot" else {}):
        answer = page.post(path, fields)
        assert answer.status == 403 and "This form is old" in answer.text, "a token is good for one address"
    assert page.get(path).status in (404, 405)
    assert "Snapshot of" not in page.get("/work").text


def test_only_forms_are_taken(page):
    refused(page.post("/snapshot", {}, Content_Type="application/json"), 415)
    refused(page.post("/snapshot", {"x": "y" * 300_000}), 413)


def test_the_page_listens_on_this_machine_alone(page):
    port = int(page.authority.partition(":")[2])
    with open(f"/proc/{page.process.pid}/net/tcp", encoding="ascii") as file:
        places = {line.split()[1] for line in file.readlines()[1:] if line.split()[3] == "0A"}
    assert f"0100007F:{port:04X}" in places
    assert not [one for one in places if one.endswith(f":{port:04X}") and not one.startswith("0100007F")]


def test_a_socket_is_for_its_owner_and_names_one_host(tmp_path):
    state = empty(tmp_path)
    path = os.path.join(state.user, "page.sock")
    options = ("--socket", path, "--address", "https://page.example:8443")
    with ServedPage(state.user, options) as served:
        assert served.link.startswith("https://page.example:8443/open/")
        assert os.stat(path).st_mode & 0o777 == 0o600
        for host, status in ((b"page.example:8443", b"200"), (b"localhost", b"421")):
            with socket.socket(socket.AF_UNIX) as wire:
                wire.connect(path)
                link = served.link.removeprefix("https://page.example:8443").encode()
                wire.sendall(
                    b"GET " + link + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
                )
                answer = wire.recv(65536)
            assert answer.split(b" ")[1] == status
            assert (b"; Secure" in answer) is (status == b"200")
    assert not os.path.exists(path)
