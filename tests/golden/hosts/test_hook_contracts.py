"""The contracts of the hosts, as schemas: a change of theirs or of ours that breaks one turns this red.

`tests/recorded/HOST/schema.json` says what each event looks like and what the host takes for an answer, with
the page it is from. Recordings and answers are judged by it, and so is every field that we read.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safekept.integrations.calls import Call, Outcome, Problem, Uncovered
from safekept.integrations.hosts import handle
from safekept.integrations.hosts.answers import sentences, spoken
from safekept.integrations.hosts.event import Event
from safekept.integrations.hosts.handling import find_host
from support.hosts.recorded_hosts import (
    HOSTS,
    conversations,
    filled_in,
    neutral_exit,
    new_user,
    recorded,
    schema_of,
)

#: Names of fields that we also take where a host's documentation is silent about them.
TOLERATED = {
    "claude-code": {"tool", "hook", "args"},
    "codex": {"tool", "hook", "args", "prompt_id"},
    "gemini": {"tool", "hook", "args"},
    "hermes": {"tool", "hook", "args"},
    "cursor": {"tool", "hook", "args", "agent_id"},
    "qwen": {"tool", "hook", "args"},
    "copilot": {"tool", "hook", "args"},
    "cline": {"tool", "hook", "args", "hook_event_name", "tool_name"},
    "opencode": {"hook_event_name", "tool_name", "tool_input", "agent"},
}


def every_event():
    return [(host, name) for host in HOSTS for name in schema_of(host)["events"]]


def check(value, schema):
    jsonschema.Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize("host", HOSTS)
def test_the_schemas_are_schemas_and_cover_every_event_that_means_something(host):
    schema = schema_of(host)
    assert schema["source"] and schema["read"] and schema["version"]
    for kind in ("events", "answers"):
        for one in schema[kind].values():
            jsonschema.Draft202012Validator.check_schema(one)
    assert schema["events"].keys() == schema["answers"].keys()
    kinds = find_host(host).kinds
    described = {name for name, kind in kinds.items() if kind != "nothing"}
    # Not in the pages that were read, but in the source: what ends a turn early is worth a mark.
    guessed = {"StopFailure", "Interrupt", "SessionEnd"} if host == "codex" else {"StopFailure"}
    assert described - schema["events"].keys() - guessed == set()
    assert schema["events"].keys() - kinds.keys() == set()


@pytest.mark.parametrize("name", conversations())
def test_every_recorded_event_is_one_that_the_host_could_have_sent(name):
    conversation = recorded(name)
    for step in conversation["steps"]:
        event = filled_in(step["event"], "/project")
        host = step["call"].get("host", conversation["host"])
        check(
            event,
            schema_of(host)["events"][event.get("hook_event_name") or event.get("hook") or event["hookName"]],
        )


def answers_of(host):
    """Every answer that a host's file can give, by event: with words, and without."""
    return [
        (event, words, find_host(host).answer(event, words))
        for event in [*schema_of(host)["events"], ""]
        for words in (
            "",
            "safekept: nothing could be kept: a reason; see `safekept status`",
            "ä\n\"'\\\x00\u2028",
        )
    ]


@pytest.mark.parametrize("host", HOSTS)
def test_every_answer_fits_the_contract_grants_nothing_and_stops_nobody(host):
    schema = schema_of(host)
    for event, words, answer in answers_of(host):
        assert answer.exit == neutral_exit(host, event)
        if answer.stdout == b"":
            assert schema["empty_is_an_answer"]
            continue
        assert answer.exit == 0, "what is said is read only then"
        said = json.loads(answer.stdout)
        assert answer.stdout.count(b"\n") == 1 and answer.stdout.endswith(b"\n") and answer.stdout.isascii()
        assert answer.stderr == b"", "words are said in one way"
        if event:
            check(said, schema["answers"][event])
        assert set(said) <= {schema["words"]["key"]} - {""}
        assert said == ({schema["words"]["key"]: words} if words and said else {})


@pytest.mark.parametrize("host", HOSTS)
def test_words_are_never_said_where_the_model_would_read_them(host):
    schema = schema_of(host)
    for event, words, answer in answers_of(host):
        if event in schema["words"]["never"]:
            assert answer.stdout in (b"", b"{}\n"), (event, answer.stdout)
        elif words and event:
            assert words.split("\n")[0].encode("ascii", "ignore") in answer.stdout + answer.stderr


class Noticing(dict):
    """Remembers which fields were asked for."""

    def __init__(self, fields, asked, above=""):
        super().__init__(fields)
        self.asked, self.above = asked, above

    def get(self, key, default=None):
        self.asked.add(self.above + key)
        found = super().get(key, default)
        return Noticing(found, self.asked, f"{key}.") if isinstance(found, dict) else found


@pytest.mark.parametrize("host", HOSTS)
def test_every_field_that_is_read_is_one_that_the_host_sends(host):
    """A field that is renamed in a schema, or misspelt in our code, is found here."""
    known = schema_of(host)["events"].values()
    names = {name for schema in known for name in schema["properties"]} | TOLERATED[host]
    inside = {
        name for schema in known for name in schema["properties"].get("extra", {}).get("properties", {})
    }
    for name in conversations():
        conversation = recorded(name)
        if conversation["host"] != host:
            continue
        for step in conversation["steps"]:
            if step["call"].get("host", host) != host:
                continue
            asked: set[str] = set()
            find_host(host).call(Event(Noticing(filled_in(step["event"], "/project"), asked)), "/cwd")
            assert {one for one in asked if "." not in one} <= names
            extra = {one.removeprefix("extra.") for one in asked if one.startswith("extra.")}
            assert extra <= inside | {"subagent_id"}


def values(schema):
    """Anything that fits a schema of ours: they are made of few words."""
    if schema is True or schema == {}:
        return st.none() | st.integers() | st.text(max_size=5)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of(*(_of_kind(kind, schema) for kind in kinds))


def _of_kind(kind, schema):
    if kind == "object":
        fields = {name: values(one) for name, one in schema.get("properties", {}).items()}
        needed = {name: fields.pop(name) for name in schema.get("required", ()) if name in fields}
        return st.fixed_dictionaries(needed, optional=fields)
    if kind == "array":
        return st.lists(values(schema.get("items", {"type": "string"})), max_size=3)
    names = st.sampled_from(["a", "/p", "Bash", "Write", "bash", "write_file", "Shell", "mcp__a__b"])
    return {
        "string": st.text(max_size=12) | names,
        "boolean": st.booleans(),
        "number": st.integers(),
        "null": st.none(),
    }[kind]


@pytest.mark.parametrize(("host", "name"), every_event())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_fits_an_event_is_understood_as_its_kind(host, name, data):
    fields = data.draw(values(schema_of(host)["events"][name]))
    check(fields, schema_of(host)["events"][name])
    answering = find_host(host)
    call = answering.call(Event(json.loads(json.dumps(fields))), "/cwd")
    assert call.kind in (answering.kinds[name], "nothing")
    assert Call.from_dict(json.loads(json.dumps(call.as_dict()))) == call
    if call.kind == "before":
        assert call.paths or call.shell, "a point of nothing"
    for text in (call.tool, call.session, call.turn, call.agent, call.reason):
        assert text.isprintable() and len(text) <= 200


@pytest.mark.parametrize("host", HOSTS)
def test_an_unknown_key_of_a_newer_host_changes_nothing(host, tmp_path):
    conversation = recorded(f"{host}/turn")
    user = new_user(str(tmp_path), conversation["project"])
    for step in conversation["steps"]:
        event = filled_in(step["event"], user.project)
        known = find_host(host).call(Event(event), "/cwd")
        newer = {**event, "something_new": {"deep": [1, None]}, "another": "x"}
        for inside in ("tool_input", "args", "extra"):
            if isinstance(newer.get(inside), dict):
                newer[inside] = {**newer[inside], "unheard_of": [True]}
        assert find_host(host).call(Event(newer), "/cwd") == known
        answer = handle(host, json.dumps(newer).encode(), user.place(), os.sep)
        assert (answer.stdout.decode(), answer.exit) == (step["stdout"], step["exit"])
        user.change(step.get("then", {}))


def test_what_is_said_names_what_is_not_kept_and_why():
    call = Call("before", "codex", tool="apply_patch", paths=("src/a", "/p/.env", "new"), directory="/p")
    outcome = Outcome(
        skipped=(
            Uncovered(".env", "secret"),
            Uncovered("new", "gone"),
            Uncovered("other.iso", "oversize"),
            Uncovered("a\x00b", "name", "is no name that a file can have"),
        ),
        failures=(Problem("the disk is full", "no-space", "/p"),),
        notices=("git is not on this machine",),
    )
    assert sentences(outcome, call) == [
        "safekept: before apply_patch nothing could be kept of `/p`: the disk is full",
        "safekept: `.env` is not kept: holds secrets, which are only kept encrypted",
        "safekept: git is not on this machine",
    ]
    command = replace(call, shell=True)
    assert sentences(replace(outcome, failures=(), notices=()), command) == [], (
        "what a pass leaves is in status"
    )
    kept = Outcome(checkpoints=("1k",), failures=(Problem("the settings are wrong", "bad-setting"),))
    assert sentences(kept, call) == ["safekept: the settings are wrong"]
    many = [f"safekept: reason {number}" for number in range(5)]
    assert spoken(many) == (
        "safekept: reason 0; safekept: reason 1; safekept: reason 2; 2 more; see `safekept status`"
    )
    assert spoken([]) == ""
