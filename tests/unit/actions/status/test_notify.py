"""Notifying reaches whoever is set up, never fails or holds up the work, and never shows a secret.

The HTTP server is a real one on loopback. There is no mail on this machine: `sendmail` is a script that
writes down what it was given.
"""

from __future__ import annotations

import email
import email.policy
import json
import os
import time
from dataclasses import replace

import pytest

from safekept.actions.alarms.notify import EVENTS, Notice, NotifyTargets, deliver, notify
from safekept.actions.alarms.notify_ways import Local
from support.offsite.web_server import WebServer
from support.users.contexts import throwaway

SECRET = "tk-5ecr3t"
LOST = Notice(
    "loss", "safekept: fewer memories than before", "memories 28 → 5", "/home/ada/.hermes", {"n": 5}
)


@pytest.fixture
def web():
    with WebServer() as server:
        yield server


@pytest.fixture
def here(tmp_path):
    return throwaway(tmp_path, environment={"PATH": os.environ["PATH"]})


def told_by(here, **targets):
    return here.changed(notify=NotifyTargets(**{"deadline": 20.0, **targets}))


def journal(here) -> list:
    return list(here.journal.read())


def script(tmp_path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def state_of(pid: int) -> str:
    """The letter that the kernel has for a process; `gone` where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


# ── who hears what ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("start", "/ping/abc/start"),
        ("success", "/ping/abc"),
        ("test", "/ping/abc"),
        ("fail", "/ping/abc/fail"),
        ("failure", "/ping/abc/fail"),
        ("loss", "/ping/abc/fail"),
    ],
)
def test_a_ping_url_gets_the_suffix_of_what_happened(here, web, kind, path):
    notify(told_by(here, ping=f"{web.url}/ping/abc/"), replace(LOST, kind=kind))
    web.wait_for(1)
    assert web.paths == [path]
    assert web.heard[0].body.decode() == f"{LOST.title}\n{LOST.text}"


def test_the_query_of_a_ping_url_stays_behind_the_suffix(here, web):
    notify(told_by(here, ping=f"{web.url}/abc?create=1"), replace(LOST, kind="fail"))
    assert web.paths == ["/abc/fail?create=1"]


def test_an_ntfy_topic_gets_title_priority_and_text(here, web):
    notify(told_by(here, ntfy=f"{web.url}/topic"), LOST)
    (heard,) = web.heard
    assert (heard.method, heard.path, heard.body.decode()) == ("POST", "/topic", LOST.text)
    assert heard.headers["Title"] == LOST.title
    assert heard.headers["Priority"] == "urgent"


def test_a_title_that_is_not_plain_and_a_name_with_anything_in_it_arrive(here, web):
    odd = Notice("failure", "Größe\nzwei", "skills/\udcff\x1b[31m.md and \x00", home="/h/\udcfe")
    notify(told_by(here, ntfy=f"{web.url}/t", webhook=f"{web.url}/w", ping=f"{web.url}/p"), odd)
    assert sorted(web.paths) == ["/p/fail", "/t", "/w"]
    by_path = {heard.path: heard for heard in web.heard}
    assert by_path["/t"].headers["Title"] == "=?UTF-8?B?R3LDtsOfZSB6d2Vp?="
    assert json.loads(by_path["/w"].body)["text"] == "skills/??[31m.md and ?"


def test_a_webhook_gets_the_facts_as_json(here, web):
    notify(told_by(here, webhook=f"{web.url}/hook"), LOST)
    (heard,) = web.heard
    assert heard.headers["Content-Type"] == "application/json"
    document = json.loads(heard.body)
    assert document["kind"] == "loss"
    assert document["facts"] == {"n": 5}
    assert document["home"] == "/home/ada/.hermes"
    assert set(document) == {"kind", "title", "text", "home", "host", "time", "facts"}


def test_a_user_and_password_in_a_url_go_into_a_header(here, web):
    address = web.url.replace("http://", "http://ada:p%40ss@")
    notify(told_by(here, ntfy=f"{address}/topic"), LOST)
    (heard,) = web.heard
    assert heard.headers["Authorization"] == "Basic YWRhOnBAc3M="
    assert heard.headers["Host"] == web.url.removeprefix("http://")


def test_a_mail_is_handed_to_sendmail(here, tmp_path):
    fake = script(tmp_path, "sendmail", f'echo "$@" > {tmp_path}/words; cat > {tmp_path}/mail')
    notify(told_by(here, email=("ada@example.org", "bob@example.org"), sendmail=fake), LOST)
    assert (tmp_path / "words").read_text() == "-i -t\n"
    message = email.message_from_bytes((tmp_path / "mail").read_bytes(), policy=email.policy.default)
    assert message["To"] == "ada@example.org, bob@example.org"
    assert message["Subject"] == f"[safekept] {LOST.title}"
    assert "memories 28 → 5" in message.get_content()
    assert "Home: /home/ada/.hermes" in message.get_content()
    assert b"\r\n" not in (tmp_path / "mail").read_bytes()


def test_a_line_break_in_a_title_adds_no_header_to_a_mail(here, tmp_path):
    fake = script(tmp_path, "sendmail", f"cat > {tmp_path}/mail")
    notify(told_by(here, email=("a@example.org",), sendmail=fake), Notice("failure", "x\nBcc: eve@evil.org"))
    message = email.message_from_bytes((tmp_path / "mail").read_bytes(), policy=email.policy.default)
    assert message["Bcc"] is None


def test_a_command_gets_json_on_its_input_and_the_facts_in_its_environment(here, tmp_path):
    words = (
        script(tmp_path, "tell", f'cat > {tmp_path}/in; env > {tmp_path}/env; echo "$1" > {tmp_path}/one'),
        "a b",
    )
    notify(told_by(here, command=words), LOST)
    assert json.loads((tmp_path / "in").read_text())["title"] == LOST.title
    assert "SAFEKEPT_NOTICE_KIND=loss\n" in (tmp_path / "env").read_text()
    assert "SAFEKEPT_NOTICE_HOME=/home/ada/.hermes\n" in (tmp_path / "env").read_text()
    assert (tmp_path / "one").read_text() == "a b\n"


def test_only_a_ping_hears_that_all_is_well(here, web, tmp_path):
    command = (script(tmp_path, "tell", f"touch {tmp_path}/called"),)
    quiet = told_by(here, ntfy=f"{web.url}/n", webhook=f"{web.url}/w", ping=f"{web.url}/p", command=command)
    for kind in ("success", "fail"):
        notify(quiet, Notice(kind, "x"))
    assert web.paths == ["/p", "/p/fail"]
    assert not (tmp_path / "called").exists()
    assert journal(here) == []


def test_an_event_that_was_not_chosen_reaches_nobody(here, web):
    some = told_by(here, ntfy=f"{web.url}/n", events=("overdue", "loss"))
    for kind in EVENTS:
        notify(some, Notice(kind, kind))
    assert [heard.headers["Title"] for heard in web.heard] == ["overdue", "loss"]


def test_nobody_set_up_means_nothing_is_done(here):
    notify(here, LOST)
    assert deliver(here, LOST) == []
    assert journal(here) == []


# ── dead, slow and lying targets ───────────────────────────────────────────────────────────────────


def refused_port(web) -> str:
    """A port of loopback on which nobody listens: that of a server which is gone."""
    with WebServer() as gone:
        return gone.url


def test_every_way_to_fail_is_one_line_and_no_exception(here, web, tmp_path):
    said = []
    targets = {
        "ping": f"{refused_port(web)}/{SECRET}",
        "ntfy": f"http://name.invalid/{SECRET}",
        "webhook": f"{web.url}/{SECRET} with spaces\x01",
        "email": ("ada@example.org",),
        "sendmail": str(tmp_path / "missing"),
        "command": (script(tmp_path, "tell", "exit 7"),),
        "deadline": 10.0,
    }
    notify(told_by(here, **targets), LOST, lambda event: said.append(event.text))
    assert len(said) == 5
    assert f"email to ada@example.org was not reached: {tmp_path}/missing cannot be run: No such" in said[3]
    assert said[4].endswith("was not reached: it ended with status 7")
    (entry,) = journal(here)
    assert (entry.verb, entry.state) == ("notify", "failed")
    assert len(entry.facts["targets"]) == 5


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, "it answered 404 Not Found"),
        (503, "it answered 503 Service Unavailable"),
        (302, "it answered 302: the URL has moved, and redirects are not followed"),
    ],
)
def test_an_answer_that_is_not_good_is_said(here, status, reason):
    with WebServer() as other, WebServer(status, {"Location": f"{other.url}/{SECRET}"}) as web:
        (told,) = deliver(told_by(here, ntfy=f"{web.url}/{SECRET}"), LOST)
        assert told.reason == reason
        assert other.heard == []  # the secret of a URL is carried to no other host


def test_a_server_that_never_answers_costs_the_deadline_and_no_more(here):
    with WebServer(hang=True) as web:
        (told,) = deliver(told_by(here, webhook=f"{web.url}/x", deadline=0.3), LOST)
        assert told.reason == "it did not answer in time"


def test_an_agent_in_the_middle_of_its_work_waits_for_nobody_for_long(here):
    with WebServer(hang=True) as web:
        agents = told_by(here, webhook=f"{web.url}/x", deadline=7200.0).changed(actor="agent:hermes")
        (told,) = deliver(agents, LOST)  # the limit of a test is far below the deadline
        assert told.reason == "it did not answer in time"


def test_a_program_that_never_ends_is_ended_with_whatever_it_started(here, tmp_path):
    sleeper = script(tmp_path, "sleeper", f"sleep 600 & echo $! > {tmp_path}/child; wait")
    for seconds in (1.0, 4.0, 16.0, 64.0):  # until a busy machine let the shell start what is to be ended
        reason = Local(here.caller.environment, seconds).command((sleeper,), LOST)
        assert reason == "it was not done in time, and was ended"
        if (tmp_path / "child").exists() and (tmp_path / "child").read_text().endswith("\n"):
            break
    child = int((tmp_path / "child").read_text())
    while state_of(child) not in ("gone", "Z"):  # the kernel takes its time; the test's limit is the only one
        time.sleep(0.01)


def test_one_dead_target_keeps_no_other_from_being_told(here, web):
    both = told_by(here, ping=f"{refused_port(web)}/x", ntfy=f"{web.url}/topic")
    notify(both, LOST)
    assert web.paths == ["/topic"]
    (entry,) = journal(here)
    assert entry.state == "incomplete"


def test_a_start_is_not_waited_for(here):
    with WebServer(hang=True) as web:
        notify(told_by(here, ping=f"{web.url}/p", deadline=7200.0), Notice("start", "x"))
        web.wait_for(1)
        assert web.paths == ["/p/start"]


def test_a_journal_that_cannot_be_written_is_no_failure(here, web, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    blocked = told_by(here, ntfy=f"{web.url}/t").changed(data_directory=str(tmp_path / "file"))
    notify(blocked, LOST)
    assert web.paths == ["/t"]


def test_a_proxy_of_the_given_environment_is_used(here, web):
    proxied = told_by(here, ntfy="http://ntfy.example/topic").changed(environment={"http_proxy": web.url})
    (told,) = deliver(proxied, LOST)
    assert told.ok
    assert web.paths == ["http://ntfy.example/topic"]
    direct = {"http_proxy": "http://127.0.0.1:1", "no_proxy": "example.org, 127.0.0.1"}
    (told,) = deliver(told_by(here, ntfy=f"{web.url}/t").changed(environment=direct), LOST)
    assert told.ok


# ── secrets ────────────────────────────────────────────────────────────────────────────────────────


def test_no_secret_of_a_url_is_in_the_journal_in_a_remark_or_in_a_repr(here, web):
    said = []
    addresses = [
        f"{refused_port(web)}/{SECRET}?token={SECRET}",
        f"http://eve:{SECRET}@name.invalid/{SECRET}",
        f"http://127.0.0.1:99999999/{SECRET}",
        f"http://[broken/{SECRET}",
        f"https://127.0.0.1:{web.url.rpartition(':')[2]}/{SECRET}",  # TLS where none is spoken
        f"http://127.0.0.1\n/{SECRET}",
        f"ftp://127.0.0.1/{SECRET}",
    ]
    for address in addresses:
        # Names are looked up without any limit of ours, so the deadline is what ends that.
        aimed = told_by(here, webhook=address, ntfy=address, ping=address, deadline=0.5)
        notify(aimed, LOST, lambda event: said.append(event.text))
        said.append(repr(aimed))
        said.extend(aimed.choices.notify.names())
    assert len(said) == 7 * 7, said
    with open(here.journal.path, encoding="utf-8") as file:
        everything = file.read() + "\n".join(said)
    assert SECRET not in everything
    assert "eve" not in everything
