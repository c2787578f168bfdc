"""One dataclass per verb: what its line says is what its `--json` and its Python value say.

Every verb is done once for real. A fact that stands in the line and in the document comes from the one
object that both are made of; a name that both have by chance, and that means something else, is listed here.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import safekept
from safekept.actions.base.operations.facts import every_verb
from safekept.archive import open_archive
from safekept.core.journal import Journal, Record
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.projects.checkpoints import put

#: What is done, in this order: the verb of the line, the words, and where in the document its facts stand.
COMMANDS = (
    ("vault-init", "vault init", ""),
    ("snapshot", "snapshot create --label first", ""),
    ("backup", "backup create -o home.zip", ""),
    ("restore", "snapshot restore latest --yes", "landed"),
    ("import", "import home.zip --force", "landed"),
    ("undo", "undo", "landed"),
    ("restore-session", "sessions restore session-1 --as again", ""),
    ("undo-session", "undo", "session"),
    ("pin", "snapshot pin latest", ""),
    ("unpin", "snapshot pin latest --off", ""),
    ("forget", "snapshot forget latest --yes", ""),
    ("bring-back", "undo {forget}", "brought_back"),
    ("forget", "snapshot forget latest --yes", ""),
    ("prune", "snapshot prune 1 --now --yes", "pruned"),
    ("snapshot", "snapshot create --label second", ""),
    ("forget", "snapshot forget latest --yes", ""),
    ("vault-prune", "vault prune --now --yes", "pruned"),
    ("unforget", "snapshot forget --undo latest", ""),
    ("checkpoint", "checkpoint create project", ""),
    ("rollback", "rollback 1 --dir project", "rolled_back"),
    ("rollback-undo", "undo", "rolled_back"),
    ("checkpoints-prune", "checkpoint prune --retention-days 0.0000001 --yes", ""),
    ("checkpoints-clear", "checkpoint clear --yes", ""),
    ("drill", "drill", ""),
    ("vault-check", "vault check", ""),
    ("vault-kit", "vault kit", ""),
    ("kit-acknowledge", "vault kit --stored", ""),
    ("push", "push far", "pushes"),
    ("pull", "pull far --into fetched", ""),
    ("guard", "guard --report report.json -- true", ""),
    ("run", "run --dir project --report report.json -- true", ""),
    ("rebuild", "rebuild home.zip --home new-home --home-only --yes", ""),
    ("destination-remove", "destinations remove far", ""),
    ("destination-add", "destinations add {place}-far --name far --same-disk", "destination"),
    ("connect", "connect codex --yes", ""),
    ("disconnect", "connect codex --remove --yes", ""),
)

#: The same from Python.
CALLS: dict[str, Callable[[], object]] = {
    "snapshot": lambda: safekept.snapshot(quick=True, label="second"),
    "backup": lambda: safekept.backup("again.zip"),
    "restore": lambda: safekept.restore(yes=True),
    "import": lambda: safekept.import_archive("again.zip", yes=True),
    "undo": lambda: safekept.undo(),
    "checkpoint": lambda: safekept.Checkpoints("project").take("by hand"),
    "rollback": lambda: safekept.Checkpoints("project").rollback(),
}

#: Verbs that are not done here, and why.
ELSEWHERE = {
    **dict.fromkeys(("alarm", "alarm-over", "notify"), "nobody asks for it: it has no document"),
    **dict.fromkeys(("alarm-acknowledged", "decline"), "the document is what was acknowledged or declined"),
    **dict.fromkeys(("schedule-install", "schedule-remove"), "they belong to the machine"),
    "setup": "its steps are verbs that are done here; `undo/test_log_of_setup.py` has its line",
    "schedule": "a night takes too long; its steps are the verbs that are done here",
    **dict.fromkeys(("pre-update", "pre-migration"), "the document holds that of the snapshot"),
    **dict.fromkeys(("vault-key-add", "vault-key-remove", "vault-join"), "a new key takes a second"),
    **dict.fromkeys(("vault-open", "vault-close"), "the document says how each store is, the line where"),
    "destination-test": "the document has every place that was tried, the line one of them",
    **dict.fromkeys(
        ("rollback-turn", "rollback-turn-undo"),
        "no agent takes a turn here; `unit/actions/projects/test_turns.py` has one",
    ),
    "rebuild-here": "nothing is gone here; `restoring/rebuild/test_rebuild_here.py` has its document",
    **dict.fromkeys(("vault-repair", "vault-unlock", "doctor"), "nothing is broken here"),
    **dict.fromkeys(("adopt", "checkpoints-adopt", "checkpoints-clear-legacy"), "nothing of Hermes is here"),
}

#: What the line has and the document has not.
LACKS = {
    "restore-session": {"home", "seconds"},
    "pin": {"home", "seconds"},
    "unpin": {"home", "seconds"},
    "forget": {"seconds"},
    "unforget": {"home", "seconds"},
    "prune": {"seconds", "vault"},
    "vault-prune": {"seconds", "vault"},
    "bring-back": {"home"},
    "kit-acknowledge": {"id"},
    "checkpoint": {"id", "hidden_files"},
    "checkpoints-prune": {"seconds"},
    "checkpoints-clear": {"seconds"},
    "vault-check": {"id"},
    "connect": {"seconds"},
    "disconnect": {"seconds", "command"},
}

#: Names that line and document share and that may differ, and why.
OTHERWISE = {
    ("snapshot", "databases"): "the line has the state of each, the document all that is known of it",
    ("backup", "rotated_until"): "a time in the line; nothing where nothing was rotated",
    ("restore", "snapshot"): "its id in the line, all of its row in the document",
    ("import", "archive"): "in full in the line, as it was typed in the document",
    ("import", "wrappers"): "the line has those that were made anew, to take them away again",
    ("restore", "wrappers"): "the line has those that were made anew, to take them away again",
    ("undo", "undoes"): "the id in the line; the document has the whole change",
    ("undo-session", "undoes"): "the id in the line; the document has the whole change",
    ("restore-session", "snapshot"): "its id in the line, all of its row in the document",
    ("restore-session", "database"): "inside the home in the line, in full in the document",
    ("rollback", "seconds"): "in the line with those of the plan",
    ("rollback", "target"): "the document has the whole of it",
    ("rollback-undo", "seconds"): "in the line with those of the plan",
    ("rollback-undo", "target"): "the document has the whole of it",
    ("checkpoints-clear", "kept_until"): "a time in the line; nothing where it is gone",
    ("checkpoints-prune", "kept_until"): "a time in the line; nothing where it is gone",
    ("bring-back", "undoes"): "the id in the line; the document has the whole change",
    ("push", "place"): "as the settings have it in the line; the document says where that is",
    ("push", "archives"): "the line remembers whose they are; the document says what was sent",
    ("pull", "place"): "as the settings have it in the line; the document says where that is",
    ("pull", "archive"): "its name in the line, all of it in the document",
    ("rebuild", "aside"): "nothing in the document where nothing was there",
    ("rebuild", "from"): "the place in the line, all that is known of it in the document",
    ("rebuild", "wrappers"): "the line has those that were made anew, to take them away again",
    ("guard", "command"): "without its options in the line",
    ("guard", "protection"): "its outcome in the line, all of it in the document",
    ("run", "command"): "the name of the agent in the line",
    ("run", "seconds"): "the line has those of all of it, the document those of the command",
    ("guard", "seconds"): "the line has those of all of it, the document those of the command",
}


@dataclass(frozen=True)
class Told:
    """One run: its line of the journal, and what the caller got."""

    line: Record
    answer: dict[str, object]


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[tuple[str, str], Told]:
    """Every run, by its verb and its face."""
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("told") / "user"
        make_hermes_home(str(place / ".hermes"), profiles=(), awkward=False)
        put(str(place / "project" / "pyproject.toml"), "[project]\n")
        far = f'[[destination]]\nname = "far"\nurl = "{place}-far"\nsame_disk = true\n'
        put(str(place / ".config" / "safekept" / "config.toml"), far)
        say, found = spoken(patch, str(place)), {}
        for verb, words, where in COMMANDS:
            _change(place)
            report = place / "report.json" if "--report" in words else None
            before = {"place": str(place)}
            if "{forget}" in words:
                before["forget"] = _line(place, "forget").operation
            said = say(*words.format(**before).split(), *(() if report else ("--json",)))
            assert said.code == 0, (words, said.out, said.err)
            document = json.loads(report.read_text() if report else said.out)
            found[verb, "json"] = Told(_line(place, verb), _part(document, where))
        with open_archive(str(place / "home.zip")) as archive:
            found["backup", "manifest"] = Told(found["backup", "json"].line, dict(archive.head or {}))
        for verb, call in CALLS.items():
            _change(place)
            value = call()
            answer = {name: getattr(value, name) for name in _attributes(value)}
            found[verb, "python"] = Told(_line(place, verb), answer)
    return found


def _change(place: pathlib.Path) -> None:
    """So that each finds something to do."""
    for path in (place / ".hermes" / "SOUL.md", place / "project" / "pyproject.toml"):
        with path.open("a") as file:
            file.write("# more\n")


def _line(place: pathlib.Path, verb: str) -> Record:
    journal = Journal(str(place / ".local" / "share" / "safekept" / "journal.jsonl"))
    return next(journal.backwards(verb))


def _part(document: dict[str, object], where: str) -> dict[str, object]:
    for name in where.split():
        found = document[name]
        document = {**document, **(found[0] if isinstance(found, list) else found)}  # type: ignore[dict-item]
    return document


def _attributes(value: object) -> list[str]:
    return [name for name in dir(value) if not name.startswith("_")]


def _plain(value: object) -> object:
    return json.loads(json.dumps(value))


def test_every_verb_is_done_here_or_it_is_said_why_not():
    done = {verb for verb, *_ in COMMANDS}
    assert done | ELSEWHERE.keys() == every_verb().keys()
    assert not done & ELSEWHERE.keys()


@pytest.mark.parametrize("verb", sorted({verb for verb, *_ in COMMANDS}))
def test_the_document_says_what_the_line_says(verb, told):
    one = told[verb, "json"]
    names = every_verb()[verb].names()
    shared = {field: name for field, name in names.items() if field in one.line.facts}
    assert shared
    assert {name for name in shared.values() if name not in one.answer} == LACKS.get(verb, set())
    for field, name in shared.items():
        if name in one.answer and (verb, field) not in OTHERWISE:
            assert _plain(one.answer[name]) == one.line.facts[field], name
    counted = {field for field in every_verb()[verb].lists() if field in one.line.facts}
    for field in counted:
        assert len(one.answer[field]) == one.line.facts[field], field
    by_chance = one.answer.keys() & (one.line.facts.keys() - shared.keys() - counted)
    assert {(verb, name) for name in by_chance} <= OTHERWISE.keys(), "told by two, so from one object"


@pytest.mark.parametrize("verb", CALLS)
def test_the_value_of_python_says_what_the_line_says(verb, told):
    one = told[verb, "python"]
    names = every_verb()[verb].names()
    shared = {field: name for field, name in names.items() if field in one.line.facts and name in one.answer}
    assert shared
    for field, name in shared.items():
        assert _plain(one.answer[name]) == one.line.facts[field], name


def test_the_manifest_in_an_archive_says_what_the_line_says(told):
    one = told["backup", "manifest"]
    shared = one.line.facts.keys() & one.answer.keys()
    assert {"home", "layout", "census"} <= shared
    for name in shared:
        assert _plain(one.answer[name]) == one.line.facts[name], name
