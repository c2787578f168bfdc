"""A drill without room, with a wrong key, cut short at any step: nothing is touched or left behind."""

from __future__ import annotations

import os
import random
import shutil
import signal

import pytest

from safekept.actions.alarms.alarms import open_alarms
from safekept.actions.archives.backup import BackupRequest, backup
from safekept.actions.drill import drill as drill_module
from safekept.actions.drill import place as drill_place
from safekept.actions.drill.checks import every_check
from safekept.actions.drill.place import PREFIX, DrillPlace, NoScratch, sweep
from safekept.actions.drill.receipts import read_receipts
from safekept.archive.sealing.errors import IdentityDoesNotFit, IdentityNeeded
from safekept.core.files import NoRoom
from safekept.vault.errors import NoSuchSnapshot, NoSuchVault, WrongKey
from support.faults.kill_points import count_steps, run_killed
from support.home.homes import differences, make_hermes_home, tree_facts
from support.restoring.drills import (
    build,
    change_database,
    drilled,
    failed,
    left_behind,
    put,
    with_copied_home,
    with_copied_vault,
)
from support.vault.snapshots import opened, take

SAMPLE, FULL = 3, 150


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(str(tmp_path_factory.mktemp("built")))


@pytest.fixture
def here(built, tmp_path):
    return with_copied_vault(built, str(tmp_path))


def journal_states(here):
    return [entry.state for entry in here.journal.read() if entry.verb == "drill"]


# ── room ───────────────────────────────────────────────────────────────────────────────────────────


def test_without_room_every_place_is_named_with_its_numbers(here, built, monkeypatch):
    monkeypatch.setattr(drill_place, "free_bytes", lambda path: 1_000)
    with pytest.raises(NoRoom) as caught:
        drilled(here, home=built.home)
    error = caught.value
    assert error.what.startswith("There is no room to restore into: a drill needs ")
    assert f"`{here.places.data_directory}/scratch` has 1,000" in error.what
    assert "`/var/tmp` has 1,000" in error.what
    assert error.facts["needed"] > 200_000
    assert "Or restore the state files only: `safekept drill --small`" in error.advice()
    assert journal_states(here) == ["failed"]
    assert read_receipts(here) == []
    assert open_alarms(here) == ()  # that it could not run says nothing of the backup


def test_the_first_place_with_room_is_taken(here, built, monkeypatch, tmp_path):
    roomy = str(tmp_path / "cache")
    monkeypatch.setattr(drill_place, "free_bytes", lambda path: 10**12 if path == roomy else 0)
    seen = []
    honest = every_check.prove_files
    monkeypatch.setattr(every_check, "prove_files", lambda r, f, n: seen.append(r.home) or honest(r, f, n))
    assert drilled(here, home=built.home).receipt.ok
    assert seen[0].startswith(f"{roomy}/{PREFIX}")
    assert [name for name in os.listdir(roomy) if name.startswith(PREFIX)] == []


def test_a_disk_that_fills_up_meanwhile_is_said_and_left_clean(here, built, monkeypatch, small_filesystem):
    place = small_filesystem(300)
    monkeypatch.setattr(drill_place, "free_bytes", lambda path: 10**12)
    with pytest.raises(NoRoom, match="There is no room to restore into: a drill needs"):
        drilled(here, home=built.home, scratch=place)
    assert os.listdir(place) == []
    assert journal_states(here)[-1] == "failed"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("home", "it lies in the home"),
        ("vault", "it lies in the vault"),
        ("nowhere", "there is no such directory"),
    ],
)
def test_a_scratch_place_that_could_harm_is_refused(here, built, place, why):
    where = {"home": built.home, "vault": here.places.vault, "nowhere": "/nonexistent/place"}[place]
    before = tree_facts(built.home, databases="bytes")
    with pytest.raises(NoScratch) as caught:
        drilled(here, home=built.home, scratch=where)
    assert why in caught.value.what
    assert caught.value.kept == "Nothing was changed; nothing was restored"
    assert differences(before, tree_facts(built.home, databases="bytes")) == []


# ── the wrong key, the wrong word ──────────────────────────────────────────────────────────────────


def test_a_wrong_key_is_an_error_and_no_verdict(here, built, tmp_path):
    key = str(tmp_path / "other.key")
    with open(key, "w", encoding="ascii") as file:
        file.write("ABCD-" * 12 + "EFGH\n")
    with pytest.raises(WrongKey) as caught:
        drilled(here.changed(vault_key_file=key), home=built.home)
    assert caught.value.exit_code == 12
    assert read_receipts(here) == []
    assert journal_states(here) == ["failed"]


def test_what_does_not_exist_is_an_error_and_no_verdict(here, built, tmp_path):
    with pytest.raises(NoSuchSnapshot, match="No snapshot starts with `abcdef12`"):
        drilled(here, "abcdef12", built.home)
    with pytest.raises(NoSuchVault):
        drilled(here.changed(vault=str(tmp_path / "none")), home=built.home)
    assert read_receipts(here) == []


def test_a_damaged_snapshot_that_is_asked_for_by_its_id_fails(here, built):
    with opened(here) as repository:
        from safekept.vault.snapshots import list_snapshots

        name = list_snapshots(repository)[0][0].id
    path = os.path.join(here.places.vault, "snapshots", name)
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.write(b"rot")
    done = drilled(here, name[:10], built.home)
    assert failed(done.receipt) == {"store"}
    assert "its content does not match its name" in done.receipt.rows[0].text


def test_a_sealed_archive_needs_the_right_identity(built, tmp_path):
    from safekept.archive.sealing.age.keys import AgeIdentity

    here, home = with_copied_home(built, str(tmp_path))
    right, wrong = AgeIdentity.generate(), AgeIdentity.generate()
    files = {}
    for name, identity in (("right", right), ("wrong", wrong)):
        files[name] = str(tmp_path / f"{name}.txt")
        with open(files[name], "w", encoding="ascii") as file:
            file.write(f"{identity.text}\n")
        os.chmod(files[name], 0o600)
    output = str(tmp_path / "sealed.zip")
    request = BackupRequest(here.locate(home), output=output, form="zip", seal=(str(right.recipient),))
    path = backup(here, request).written.path
    assert path.endswith(".age")
    with pytest.raises(IdentityNeeded):
        drilled(here, path)
    with pytest.raises(IdentityDoesNotFit) as caught:
        drilled(here, path, identity=(files["wrong"],))
    assert caught.value.exit_code == 12
    assert read_receipts(here) == []
    done = drilled(here, path, identity=(files["right"],))
    assert done.receipt.ok, done.receipt.rows
    assert {row.state for row in done.receipt.rows if row.check != "agent"} == {"passed"}
    left_behind(here)


# ── cut short ──────────────────────────────────────────────────────────────────────────────────────


def test_ctrl_c_leaves_nothing_and_is_written_down(here, built, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(every_check, "prove_databases", interrupted)
    with pytest.raises(KeyboardInterrupt):
        drilled(here, home=built.home)
    assert journal_states(here) == ["begun", "interrupted"]
    left_behind(here)


def test_ctrl_c_while_cleaning_up_still_cleans_up(tmp_path, monkeypatch):
    place = DrillPlace(str(tmp_path / f"{PREFIX}1-a"))
    os.makedirs(os.path.join(place.path, "home", "deep"))
    honest, times = drill_place.discard, []

    def once(path):
        times.append(path)
        if len(times) == 1:
            raise KeyboardInterrupt
        honest(path)

    monkeypatch.setattr(drill_place, "discard", once)
    with pytest.raises(KeyboardInterrupt):
        drill_place.remove(place.path)
    place.release()
    assert os.listdir(tmp_path) == []


def test_the_place_of_a_drill_that_runs_is_not_swept(tmp_path):
    place = DrillPlace(str(tmp_path / f"{PREFIX}999999999-a"))
    assert sweep([str(tmp_path)]) == []
    os.mkdir(tmp_path / f"{PREFIX}not-ours")
    os.symlink(tmp_path, tmp_path / f"{PREFIX}999999999-link")
    assert sweep([str(tmp_path)]) == []
    place.release()  # as the kernel does when the process dies
    assert sweep([str(tmp_path)]) == [place.path]


def test_a_drill_whose_receipt_cannot_be_kept_still_gives_its_verdict(here, built):
    os.makedirs(here.places.data_directory)
    with open(os.path.join(here.places.data_directory, "receipts"), "w", encoding="ascii") as file:
        file.write("in the way")
    said = []
    done = drill_module.drill(here, drill_module.DrillRequest(home=built.home), said.append)
    assert done.receipt.ok
    assert done.path == ""
    assert "Note: the receipt could not be kept: Not a directory" in [event.text for event in said]


def test_a_vault_in_use_is_drilled_all_the_same_and_not_marked(here, built, monkeypatch):
    import safekept.actions.snapshots.forgetting as forgetting

    monkeypatch.setattr(forgetting, "WAIT", 0.0)
    said = []
    with opened(here) as repository, repository.lock():
        done = drill_module.drill(here, drill_module.DrillRequest(home=built.home), said.append)
    assert done.receipt.ok
    assert any("the snapshot was not marked as proven: " in event.text for event in said)


def killed_drills(tmp_path, environment, count, number, seed):
    user = str(tmp_path / "user")
    home = make_hermes_home(os.path.join(user, ".hermes"), profiles=(), awkward=False)
    before = tree_facts(home, databases="bytes")
    assert run_killed(["snapshot"], environment, 0).returncode == 0
    words = ["drill"]
    total = count_steps(words, environment, str(tmp_path / "steps"))
    assert total > 50
    elsewhere = str(tmp_path / "elsewhere")
    os.mkdir(elsewhere)
    scratch = os.path.join(user, ".local", "share", "safekept", "scratch")
    source = random.Random(seed)
    left = 0
    for turn in range(count):
        # The first one surely in the midst of restoring, the others anywhere.
        step = source.randrange(5, total) if turn else total // 3
        more = ["--scratch", elsewhere] if turn % 2 else []
        while (ended := run_killed(words + more, environment, step, number)).returncode == 0:
            step -= 5
            assert step > 0, "nothing was ended"
        code = ended.returncode
        assert differences(before, tree_facts(home, databases="bytes")) == []
        behind = [*os.listdir(elsewhere), *os.listdir(scratch)]
        if number == signal.SIGKILL:
            assert code == -9
            left += bool(behind)
        else:
            assert code in (130, 128 + signal.SIGTERM), f"step {step}: {ended.stdout}{ended.stderr}"
            assert behind == []
    # The next drill, wherever it works, removes what every one of them left.
    done = run_killed(words, environment, 0)
    assert done.returncode == 0, done.stderr
    assert os.listdir(elsewhere) == []
    assert os.listdir(scratch) == []
    assert left or number != signal.SIGKILL, "no drill was killed while it had anything in scratch"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_drill_ended_at_any_step_leaves_the_home_alone_and_its_leftovers_are_swept(
    tmp_path, launcher_environment, number
):
    killed_drills(tmp_path, launcher_environment, SAMPLE, number, seed=3)


@pytest.mark.soak("drill")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_drills_ended_at_many_steps(tmp_path, launcher_environment, number):
    killed_drills(tmp_path, launcher_environment, FULL, number, seed=4)


# ── what cannot be decided ─────────────────────────────────────────────────────────────────────────


def test_a_count_that_a_changed_schema_hides_is_unknown_and_never_zero(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    change_database(home, "alter table sessions rename to conversations")
    take(here, home)
    done = drilled(here, home=home)
    census = next(row for row in done.receipt.rows if row.check == "census")
    assert census.state == "passed"
    assert census.text.endswith("unknown then or now: sessions")
    assert failed(done.receipt) == {"tables"}


def test_a_database_that_needs_what_only_the_agent_has_is_unknown(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    change_database(
        home,
        "pragma writable_schema = 1",
        "update sqlite_master set sql = 'CREATE VIRTUAL TABLE messages_fts USING fts5(content, "
        "tokenize = ''agents_own'')' where name = 'messages_fts'",
    )
    take(here, home)
    done = drilled(here, home=home)
    assert failed(done.receipt) == set()
    row = next(row for row in done.receipt.rows if row.check == "full-text")
    assert row.state == "unknown"
    assert "no such tokenizer" in row.text


def test_an_incomplete_snapshot_is_proven_as_far_as_it_goes(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    outside = tmp_path / "outside"
    outside.mkdir()
    put(str(outside), "note.md", "elsewhere")
    shutil.rmtree(os.path.join(home, "sessions"))
    os.symlink(outside, os.path.join(home, "sessions"))
    assert not take(here, home).complete
    done = drilled(here, home=home)
    assert done.receipt.ok
    assert not done.receipt.complete
    row = next(row for row in done.receipt.rows if row.check == "complete")
    assert row.state == "left out"
    assert "`sessions`" in row.text
    assert journal_states(here)[-1] == "incomplete"
