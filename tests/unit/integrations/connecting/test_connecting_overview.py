"""Which agents are here, connected and calling: what `connect`, `status` and `doctor` say of it."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from safekept.actions.doctor.case import DoctorRequest
from safekept.actions.doctor.diagnosis import examine
from safekept.actions.hosts.calls import record_host_call
from safekept.actions.hosts.connections import connections
from safekept.actions.status.findings.work import of_hosts
from safekept.actions.status.host_status import HostStatus
from safekept.actions.status.status import look
from safekept.cli.console import Console
from safekept.cli.words.connecting import host_lines
from safekept.core.finding import Finding
from safekept.core.next_step import step_text, step_texts
from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.connecting.overview import host_statuses
from support.hosts.connected import connect, disconnect, program_in, read, write
from support.users.contexts import throwaway


@pytest.fixture
def user(tmp_path):
    return throwaway(tmp_path, environment={"PATH": str(tmp_path / "nothing")})


def status_of(user, name: str) -> HostStatus:
    return next(one for one in host_statuses(user) if one.host == name)


def troubles(user, name: str) -> list[tuple[str, str, str]]:
    return [(kind, text, step_text(step)) for kind, text, step in status_of(user, name).troubles]


@pytest.fixture(params=list(HOSTS))
def connected(request, user, tmp_path):
    """A host that is connected, its settings file, and the program that it calls."""
    host, program = HOSTS[request.param], program_in(tmp_path)
    if host.name == "hermes":
        write(os.path.join(user.places.user_home, ".hermes", "config.yaml"), b"model: x\n")
    connect(user, host, program)
    place = host.files(user, host.scope(user))[-1].path
    return host, place, program


def test_on_a_machine_without_agents_nothing_is_said(user):
    assert [one.host for one in host_statuses(user) if one.here or one.program] == []
    found = look(user, hosts=host_statuses(user))
    assert found.hosts == () and "hosts" not in found.as_dict()


def test_a_program_on_the_path_is_found_and_needs_no_advice_before_it_was_used(user, tmp_path):
    program = tmp_path / "nothing" / "codex"
    write(str(program), b"#!/bin/sh\n", 0o755)
    one = status_of(user, "codex")
    assert one.program == str(program) and not one.here and not one.connected


def test_a_connected_host_is_well(user, connected):
    host, place, _ = connected
    one = status_of(user, host.name)
    assert one.connected and one.troubles == () and [row.place for row in one.places] == [place]
    disconnect(user, host)
    assert not status_of(user, host.name).places


def test_without_the_record_the_entries_still_tell_that_it_is_connected(user, connected):
    host, _, _ = connected
    os.unlink(os.path.join(user.places.data_directory, "integrations", "connections.json"))
    assert status_of(user, host.name).connected and troubles(user, host.name) == []


def test_an_entry_that_is_gone_is_said_with_the_command_that_brings_it_back(user, connected):
    host, place, _ = connected
    for one in host.files(user, host.scope(user)):
        os.unlink(one.path)
    mend = f"`safekept connect {host.name}`"
    assert troubles(user, host.name) == [
        ("gone", f"{host.title} was connected, but the entry is gone from {place}", mend)
    ]
    found = look(user, hosts=host_statuses(user))
    (reason,) = [one for one in found.verdict.reasons if one.code == "connection-gone"]
    given_up = f"Or, where that is meant: `safekept connect {host.name} --remove`"
    assert step_texts(reason.fix) == [mend, given_up]
    assert not status_of(user, host.name).connected


def test_a_program_that_is_gone_is_said(user, connected):
    host, _, program = connected
    os.unlink(program.words[0])
    text = f"{host.title} calls {program.words[0]}, which is not there any more"
    assert troubles(user, host.name) == [("no-program", text, f"`safekept connect {host.name}`")]
    codes = [one.code for one in examine(user, DoctorRequest(hosts=host_statuses(user))).findings]
    assert "connection-no-program" in codes and "host-not-connected" not in codes


def test_entries_that_are_not_complete_are_said(user, tmp_path):
    host = HOSTS["claude-code"]
    connect(user, host, program_in(tmp_path))
    path = os.path.join(user.places.user_home, ".claude", "settings.json")
    document = json.loads(read(path))
    del document["hooks"]["PreToolUse"]
    write(path, json.dumps(document).encode())
    (trouble,) = troubles(user, "claude-code")
    assert trouble == (
        "partly",
        "Claude Code is connected by old entries in its settings.json",
        "`safekept connect claude-code`",
    )
    assert status_of(user, "claude-code").connected


def test_a_last_call_that_failed_is_said_and_forgotten_with_the_next_good_one(user, connected):
    host, _, _ = connected
    record_host_call(
        user.places.data_directory, host.name, kept=False, failure="the disk is full", when=1000.0
    )
    mend = "`safekept checkpoint status`"  # to connect once more would change nothing
    assert troubles(user, host.name) == [
        ("failed", f"the last call of {host.title} failed: the disk is full", mend)
    ]
    verdict = look(user, hosts=host_statuses(user)).verdict
    assert "connection-failed" in [one.code for one in verdict.reasons]
    record_host_call(user.places.data_directory, host.name, kept=True, when=1001.0)
    assert troubles(user, host.name) == []


def test_the_project_of_a_connection_is_in_the_command_that_mends_it(user, tmp_path):
    project = str(tmp_path / "my project")
    os.mkdir(project)
    connect(user, HOSTS["codex"], program_in(tmp_path), project)
    os.unlink(os.path.join(project, ".codex", "hooks.json"))
    ((_, _, mend),) = troubles(user, "codex")
    assert mend == f"`safekept connect codex --project '{project}'`"


@pytest.mark.parametrize("name", [name for name, host in HOSTS.items() if host.in_projects])
def test_an_agent_that_is_connected_in_one_project_is_not_connected_in_the_others(user, tmp_path, name):
    host, project = HOSTS[name], str(tmp_path / "one")
    os.mkdir(project)
    write(os.path.join(host.directory(user), "mark"), b"")
    connect(user, host, program_in(tmp_path), project)

    def found() -> list[Finding]:
        return [one for one in of_hosts(host_statuses(user), time.time()) if one.counts]

    (one,) = found()
    assert (one.code, one.level, one.declinable) == ("host-not-connected", "partly", f"not-connected:{name}")
    assert one.text == f"{host.title} works here and is connected in {project} only"
    assert step_texts(one.fix) == [f"`safekept connect {name}`"]
    connect(user, host, program_in(tmp_path))
    assert found() == [], "for this user it is everywhere"
    disconnect(user, host)
    os.mkdir(tmp_path / "two")
    connect(user, host, program_in(tmp_path), str(tmp_path / "two"))
    assert found()[0].text == f"{host.title} works here and is connected in 2 places only"
    shutil.rmtree(project)
    shutil.rmtree(tmp_path / "two")
    assert found()[0].text == f"{host.title} works here and is not connected", "what is gone connects nothing"


def test_another_home_of_hermes_is_named_in_the_command_that_mends_it(user, tmp_path):
    write(str(tmp_path / "second" / "config.yaml"), b"a: 1\n")
    connect(user, HOSTS["hermes"], program_in(tmp_path), str(tmp_path / "second"))
    write(str(tmp_path / "second" / "config.yaml"), b"plugins: {enabled: []}\n")
    ((kind, text, mend),) = troubles(user, "hermes")
    assert kind == "partly" and mend == f"`safekept connect hermes --home {tmp_path / 'second'}`"
    assert text == "Hermes is half connected: no entry in its config.yaml"
    hermes = status_of(user, "hermes")
    lines = host_lines(Console(as_json=False), hermes)
    assert lines == ["half connected", f"{text}: {mend}"] and not hermes.connected


def test_a_profile_that_is_half_connected_is_named_with_what_it_lacks_in_one_line(user, tmp_path):
    profile = os.path.join(HOSTS["hermes"].scope(user), "profiles", "writer")
    write(os.path.join(profile, "config.yaml"), b"a: 1\n")
    connect(user, HOSTS["hermes"], program_in(tmp_path), profile)
    write(os.path.join(profile, "config.yaml"), b"a: 1\n")  # as it was: only the plugin's files are there
    ((_, text, mend),) = troubles(user, "hermes")
    assert text == "Hermes (writer) is half connected: no entry in its config.yaml" and len(text) < 67
    assert "profiles/writer" in mend
    connect(user, HOSTS["hermes"], program_in(tmp_path), profile)
    os.unlink(os.path.join(profile, "plugins", "safekept", "__init__.py"))
    ((_, text, _),) = troubles(user, "hermes")
    assert text == "Hermes (writer) is half connected: safekept/__init__.py is missing"


OFF = [
    ("claude-code", ".claude/settings.json", {"disableAllHooks": True}, "`disableAllHooks`"),
    ("gemini", ".gemini/settings.json", {"hooksConfig": {"enabled": False}}, "`hooksConfig.enabled`"),
    ("gemini", ".gemini/settings.json", {"tools": {"enableHooks": False}}, "`tools.enableHooks`"),
    ("gemini", ".gemini/settings.json", {"hooks": {"enabled": False}}, "`hooks.enabled`"),
    (
        "gemini",
        ".gemini/settings.json",
        {"hooksConfig": {"disabled": ["safekept"]}},
        "`hooksConfig.disabled`",
    ),
]


@pytest.mark.parametrize(("name", "file", "document", "what"), OFF)
def test_a_switch_of_the_host_itself_is_said_plainly(user, tmp_path, name, file, document, what):
    path = os.path.join(user.places.user_home, file)
    write(path, json.dumps(document).encode())
    connect(user, HOSTS[name], program_in(tmp_path))
    title = HOSTS[name].title
    text = f"{title} is connected, but switched off by {what} in {path}"
    assert troubles(user, name) == [("switched-off", text, f"Take {what} in {path} back")]
    # Whoever switched it off knows; it is no alarm, and no reason against the verdict.
    verdict = look(user, hosts=host_statuses(user)).verdict
    assert not [one for one in verdict.reasons if one.code.startswith("connection")]
    found = examine(user, DoctorRequest(hosts=host_statuses(user)))
    assert ("connection-switched-off", "note") in [(one.code, one.level) for one in found.findings]
    disconnect(user, HOSTS[name])
    assert read(path) == json.dumps(document).encode()


@pytest.mark.parametrize("flag", ["hooks", "codex_hooks"])
def test_codex_switched_off_in_its_toml_is_said(user, tmp_path, flag):
    path = os.path.join(user.places.user_home, ".codex", "config.toml")
    write(path, f"model = 'x'\n[features]\n{flag} = false\n".encode())
    connect(user, HOSTS["codex"], program_in(tmp_path))
    ((kind, text, _),) = troubles(user, "codex")
    assert kind == "switched-off"
    assert text == f"Codex is connected, but switched off by `[features] {flag} = false` in {path}"


def test_hermes_with_the_plugin_disabled_by_name_is_switched_off(user, tmp_path):
    path = os.path.join(user.places.user_home, ".hermes", "config.yaml")
    write(path, b"model: x\n")
    connect(user, HOSTS["hermes"], program_in(tmp_path))
    write(path, (read(path) or b"") + b"  disabled:\n    - safekept\n")
    ((kind, text, _),) = troubles(user, "hermes")
    assert kind == "switched-off" and f"`plugins.disabled` in {path}" in text


def test_settings_that_cannot_be_read_are_no_proof_of_anything(user, tmp_path):
    path = os.path.join(user.places.user_home, ".claude", "settings.json")
    write(path, b"{broken")
    assert not status_of(user, "claude-code").places
    write(path, b"{}")
    connect(user, HOSTS["claude-code"], program_in(tmp_path))
    write(path, b"{broken")
    ((kind, text, _),) = troubles(user, "claude-code")
    assert kind == "unreadable"
    assert text.startswith(f"{path} is not valid JSON") and "cannot be told" in text


def test_a_host_that_works_here_and_is_not_connected_is_a_reason(user):
    os.makedirs(os.path.join(user.places.user_home, ".claude"))
    hosts = host_statuses(user)
    verdict = look(user, hosts=hosts).verdict
    assert [one.code for one in verdict.reasons if "onnect" in one.code] == ["host-not-connected"]
    found = examine(user, DoctorRequest(hosts=hosts))
    (one,) = [finding for finding in found.findings if finding.code == "host-not-connected"]
    assert one.level == "partly" and step_texts(one.fix) == ["`safekept connect claude-code`"]


def test_of_one_home_nothing_is_said_of_agents(user):
    os.makedirs(os.path.join(user.places.user_home, ".claude"))
    home = os.path.join(user.places.user_home, ".hermes")
    write(os.path.join(home, "SOUL.md"), b"x")
    assert look(user, home, hosts=host_statuses(user)).hosts == ()


def test_another_environment_of_whoever_looks_makes_no_trouble(user, tmp_path):
    write(os.path.join(user.places.user_home, ".hermes", "config.yaml"), b"model: x\n")
    connect(user, HOSTS["hermes"], program_in(tmp_path))
    elsewhere = user.changed(environment={**user.caller.environment, "XDG_CACHE_HOME": "/tmp/x"})
    assert troubles(elsewhere, "hermes") == []


def test_a_project_that_is_gone_misses_nothing(user, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    connect(user, HOSTS["codex"], program_in(tmp_path), str(project))
    shutil.rmtree(project)
    assert status_of(user, "codex").places == () and troubles(user, "codex") == []
    disconnect(user, HOSTS["codex"], str(project))
    assert connections(user) == () and not project.exists()


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_no_fifo_in_the_place_of_settings_makes_anybody_wait(user, tmp_path):
    project = str(tmp_path / "project")
    for name in (
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".gemini/settings.json",
        ".codex/config.toml",
    ):
        for above in (user.places.user_home, project):
            os.makedirs(os.path.dirname(os.path.join(above, name)), exist_ok=True)
            os.mkfifo(os.path.join(above, name))
    for host in HOSTS.values():
        host.switched_off(user, project)
        host.notes(user, project)
    assert [one.host for one in host_statuses(user) if one.places] == []


def test_hooks_that_codex_has_in_its_toml_are_mentioned(user):
    path = os.path.join(user.places.user_home, ".codex", "config.toml")
    write(path, b"[hooks.state]\na = 1\n")
    assert len(HOSTS["codex"].notes(user, "")) == 1
    write(path, b"[[hooks.Stop]]\nmatcher = 'x'\n")
    assert "Its config.toml has hooks, too" in HOSTS["codex"].notes(user, "")[1]


def test_a_host_that_is_used_and_does_not_call_since_its_entries_changed_is_said(user, tmp_path):
    """Codex runs changed entries only after they were trusted anew, and tells nobody that it does not."""
    host = HOSTS["codex"]
    connect(user, host, program_in(tmp_path, "old"))
    record_host_call(user.places.data_directory, "codex", kept=True, when=time.time() - 10)
    assert troubles(user, "codex") == []
    connect(user, host, program_in(tmp_path, "new"))
    (line,) = host_lines(Console(as_json=False), status_of(user, "codex"))
    assert line.endswith("none since it was connected again (trust it: `/hooks` in Codex)")
    assert troubles(user, "codex") == [], "it was not started since, as far as anybody can tell"
    history = os.path.join(user.places.user_home, ".codex", "history.jsonl")
    write(history, b"{}")
    os.utime(history, (time.time() + 600, time.time() + 600))
    said = "Codex was used and has not called since its entries were renewed"
    assert troubles(user, "codex") == [("unheard", said, "Trust it: `/hooks` in Codex")]
    assert "connection-unheard" in {one.code for one in look(user, hosts=host_statuses(user)).verdict.reasons}
    record_host_call(user.places.data_directory, "codex", kept=True, when=time.time() + 700)
    assert troubles(user, "codex") == []


@pytest.mark.parametrize("trusted", ["nothing", "elsewhere", "refused below", "itself", "above"])
def test_a_project_that_gemini_does_not_trust_is_said(user, tmp_path, trusted):
    """Gemini CLI passes over the settings of such a folder without a word."""
    project = os.path.join(os.path.realpath(tmp_path), "work", "project")
    folders = {
        "nothing": None,
        "elsewhere": {"/srv": "TRUST_FOLDER"},
        "refused below": {os.path.dirname(project): "TRUST_FOLDER", project: "DO_NOT_TRUST"},
        "itself": {project: "TRUST_FOLDER"},
        "above": {os.path.dirname(project): "TRUST_FOLDER"},
    }[trusted]
    if folders is not None:
        place = os.path.join(user.places.user_home, ".gemini", "trustedFolders.json")
        write(place, json.dumps(folders).encode())
    said = any("this one is not trusted yet" in note for note in HOSTS["gemini"].notes(user, project))
    assert said is (trusted not in ("itself", "above"))
    assert not any("trusted" in note for note in HOSTS["gemini"].notes(user, "")), "yours are always read"
