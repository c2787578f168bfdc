"""What is hidden and not kept is named before it is lost: by status, a rollback, the record of the hook."""

from __future__ import annotations

import json
import os

import pytest

from safekept.actions.hosts.calls import read_host_calls
from safekept.actions.projects.checkpoint import take_checkpoint
from safekept.actions.projects.hidden.record import kept_looks, project_records
from safekept.actions.projects.hidden.trouble import forget_trouble, note_trouble, read_trouble
from safekept.actions.projects.rollback import checkpoint_store
from safekept.actions.projects.timeline import timeline
from safekept.actions.status.findings.work import of_projects
from safekept.actions.status.project_summaries import project_summaries
from safekept.integrations.calls import Call
from safekept.integrations.places import Place
from safekept.integrations.protect import protect
from support.commands.in_process import spoken
from support.projects.hidden_halves import HiddenWorld

LARGE = 4000


@pytest.fixture
def world(tmp_path: object) -> HiddenWorld:
    found = HiddenWorld(tmp_path, largest=LARGE)
    found.put(".env", "KEY=1\n")
    found.put("data/large.bin", b"x" * (LARGE + 1))
    found.put("data/small.txt", "small\n")
    return found


def left_names(world: HiddenWorld) -> list[str]:
    with checkpoint_store(world.context) as store:
        return [one.path for one in timeline(store, world.project, world.context).left_out.some]


def huge(world: HiddenWorld) -> None:
    """Over the limit that holds for everybody, and no more than a name on the disk."""
    with open(world.path("data/huge.bin"), "wb") as file:
        file.truncate(3 << 29)


def test_status_names_it_until_a_person_says_that_it_is_meant(world: HiddenWorld) -> None:
    assert list(of_projects(project_summaries(world.context))) == []
    world.take()
    (one,) = project_summaries(world.context).projects
    assert one.left_out is not None and one.left_out.count == 1 and one.left_out.bytes == LARGE + 1
    (found,) = of_projects(project_summaries(world.context))
    assert found.code == "hidden-left-out" and found.level == "partly"
    assert found.text == f"no checkpoint of {world.project} holds data/large.bin"
    first = found.declinable
    world.put("data/larger.bin", b"y" * (LARGE + 2))
    world.take()
    (found,) = of_projects(project_summaries(world.context))
    assert "data/larger.bin, data/large.bin" in found.text
    assert found.declinable != first, "another file is another question"
    for name in ("large", "larger"):
        os.unlink(world.path(f"data/{name}.bin"))
    world.take()
    assert list(of_projects(project_summaries(world.context))) == []


def test_the_list_of_a_rollback_names_it_before_anything_happens(world: HiddenWorld) -> None:
    world.take()
    assert left_names(world) == ["data/large.bin"]


def test_a_rollback_names_what_was_not_kept_and_is_gone_and_what_is_there(world: HiddenWorld) -> None:
    world.take()
    os.unlink(world.path("data/large.bin"))
    world.put("a.txt", "changed\n")
    world.put("data/other.bin", b"z" * (LARGE + 1))
    for planned in (True, False):
        plan = world.rollback("1", dry_run=planned).plan
        gone = [(one.path, one.reason) for one in plan.gone]
        assert gone == [("data/large.bin", "then-left-out")]
        assert [one.path for one in plan.not_covered if one.reason == "not-kept"] == ["data/other.bin"]
    assert world.read("data/other.bin") == b"z" * (LARGE + 1)


def test_what_comes_over_the_limit_is_another_look(world: HiddenWorld) -> None:
    """Else a point would be said to hold what only an earlier one does."""
    world.take()
    before = set(kept_looks(world.context, world.project).looks)
    os.unlink(world.path("data/large.bin"))
    world.take()
    looks = kept_looks(world.context, world.project).looks
    (new,) = set(looks) - before
    assert looks[new].left == () and [looks[one].left for one in before] == [
        (("data/large.bin", "too-large"),)
    ]


def test_the_only_hidden_file_is_too_large_and_nothing_else_is_taken_for_hidden(tmp_path: object) -> None:
    world = HiddenWorld(tmp_path, largest=LARGE)
    world.put("only.pdf", b"x" * (LARGE + 1))
    taken = world.take()
    assert taken.hidden_error is None and left_names(world) == ["only.pdf"]
    assert taken.hidden is None or taken.hidden.files == 0


def test_the_record_of_the_hook_names_it(world: HiddenWorld) -> None:
    place = Place.load({"HOME": world.context.places.user_home, "PATH": os.environ["PATH"]})
    huge(world)
    call = Call("before", "claude-code", "Bash", shell=True, directory=world.project, session="s", turn="t")
    outcome = protect(call, place)
    wanted = f"{world.path('data/huge.bin')}: larger than one hidden file may be"
    assert wanted in outcome.not_kept, outcome
    (host,) = read_host_calls(world.context)
    assert wanted in host.not_kept and wanted in host.as_dict()["not_kept"]
    late = [text for text in host.not_kept if "not kept in time" in text]
    assert late, "nothing is kept by the process of a hook itself"
    os.unlink(world.path("data/huge.bin"))
    take_checkpoint(place.context, world.project, place.policy)
    assert protect(call, place).not_kept == ()
    (host,) = read_host_calls(world.context)
    assert host.not_kept == ()


def test_trouble_counts_when_it_lasts_and_is_over_when_it_is_kept(world: HiddenWorld) -> None:
    world.take()
    records = project_records(world.context, world.project)
    note_trouble(records, "the vault is locked")
    assert not read_trouble(records).lasting(records), "a process of its own may be at work on it"
    path = os.path.join(records, "hidden-trouble.json")
    with open(path, "r+") as file:
        fields = json.load(file)
        fields["time"] -= 3600
        file.seek(0)
        json.dump(fields, file)
    note_trouble(records, "the vault is still locked")
    assert read_trouble(records).lasting(records), "the last try says nothing of since when"
    codes = {one.code: one for one in of_projects(project_summaries(world.context))}
    assert codes["hidden-not-kept"].evidence == ("the vault is still locked",)
    world.put("data/small.txt", "other\n")
    world.take()
    assert "hidden-not-kept" not in {one.code for one in of_projects(project_summaries(world.context))}
    forget_trouble(records)


def test_the_words_on_the_screens(world: HiddenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    say = spoken(monkeypatch, world.context.places.user_home)
    huge(world)
    assert say("checkpoint", world.project).code == 0
    listed = say("rollback", "--dir", world.project).out
    assert "In no checkpoint: data/huge.bin (1.5 GB) (`safekept checkpoint " in listed, listed
    shown = say("status").out
    assert "data/huge.bin (1.5 GB)" in shown, shown
    os.unlink(world.path("data/huge.bin"))
    world.put("a.txt", "changed\n")
    back = say("rollback", "1", "--dir", world.project)
    assert back.code == 0 and "data/huge.bin: larger than one hidden file may be" in back.out, back.out
    assert "no checkpoint can bring that back" in back.out
