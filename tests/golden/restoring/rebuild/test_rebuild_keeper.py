"""`safekept rebuild` without a place, where only the keeper has the stores: what comes, and what stays."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from safekept.actions.keeper.stores import Stores
from safekept.actions.keeper.transfer import transfer
from safekept.keeper.client import Keeper
from support.keeper.keepers import RunningKeeper, running_keeper
from support.keeper.kept_user import KeptUser
from support.projects.checkpoints import put
from support.vault.closed import open_below

pytestmark = pytest.mark.needs("seqpacket", "a keeper needs packets on a local socket")
HAS = "The keeper has what is gone of the vault and the checkpoints, as of "


@pytest.fixture
def running() -> Iterator[RunningKeeper]:
    with running_keeper() as keeper:
        keeper.start()
        yield keeper


@pytest.fixture
def user(tmp_path, running) -> KeptUser:
    one = KeptUser(tmp_path, running)
    one.run("snapshot")
    one.run("checkpoint", one.project)
    return one


def gone(user: KeptUser) -> None:
    """The stores, the home and the project."""
    user.lose()
    for path in (os.path.join(user.home, ".hermes"), user.project):
        shutil.rmtree(path)


def assert_all_there(user: KeptUser, before: dict[str, bytes]) -> None:
    """Every file of the stores; what was done since is in the journal and in the project's ledger."""
    after = user.stored()
    written = ("own/journal.jsonl", "/ledger")
    assert [path for path in before if after.get(path) != before[path] and not path.endswith(written)] == []


def read(*parts: str) -> str:
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def test_one_command_brings_stores_home_and_project_and_a_second_finds_nothing(user):
    soul, before = read(user.home, ".hermes", "SOUL.md"), user.stored()
    transfer(user.stores)
    gone(user)
    first = user.say("status").stdout.splitlines()[0]
    assert first == "ALARM, not protected: the vault and checkpoints are gone; the keeper has them"
    dry = user.say("rebuild", "--dry-run")
    assert (
        dry.returncode == 0
        and dry.stdout.startswith(HAS)
        and "  From it    1 snapshot; 1 checkpoint; " in dry.stdout
    )
    assert dry.stdout.endswith(
        "The homes and projects in it are known when it is here\nNothing was changed\n"
    )
    assert not os.path.exists(user.data)
    document = json.loads(user.run("rebuild", "--json", keeper=True))
    assert document["keeper"]["snapshots"] == document["keeper"]["checkpoints"] == 1
    assert document["brought"]["projects"] == [user.project] and document["failed"] == []
    assert read(user.home, ".hermes", "SOUL.md") == soul and read(user.project, "notes.txt") == "first"
    assert_all_there(user, before)
    assert "Nothing is gone" in user.run("rebuild", keeper=True)


def test_settings_that_are_gone_still_say_where_the_vault_was(user, tmp_path):
    place = str(tmp_path / "elsewhere")
    user.run("settings", "vault.path", place)
    user.run("vault", "init")
    user.run("snapshot")
    transfer(Stores.of(user.context.changed(vault=place)))
    gone(user)
    shutil.rmtree(open_below(place))
    user.run("rebuild", keeper=True)
    assert os.path.exists(os.path.join(place, "config")) and os.path.exists(
        os.path.join(user.home, ".hermes")
    )
    assert place in read(user.home, ".config", "safekept", "config.toml")


def test_a_rebuild_that_was_cut_off_goes_on_with_the_state_that_it_began_with(user, monkeypatch):
    """What was sent in between is most of it, so it is no alarm; and it is not all of it."""
    for number in range(4):
        put(os.path.join(user.project, "notes.txt"), f"{number}")
        user.run("checkpoint", user.project)
    before = user.stored()
    transfer(user.stores)
    gone(user)
    with monkeypatch.context() as patch:
        seen = []

        def cut_off(*arguments):
            seen.append(arguments)
            if len(seen) == len(before) - 1:
                raise KeyboardInterrupt
            return real(*arguments)

        from safekept.actions.keeper.bring_back import _Work

        real = _Work.put
        patch.setattr(_Work, "put", cut_off)
        assert user.say("rebuild").returncode == 130
    half = transfer(user.stores)
    assert not half.shrunk and half.files < len(before)
    assert "safekept rebuild" in user.say("status").stdout
    user.run("rebuild", keeper=True)
    assert_all_there(user, before)
    assert read(user.project, "notes.txt") == "3"


def test_what_the_keeper_lost_is_named_and_costs_nothing_else(user, running):
    transfer(user.stores)
    pack = next(path for path in user.stored() if path.startswith("vault/data/"))
    name = os.path.basename(pack)
    gone(user)
    place = next(os.path.join(parent, name) for parent, _, names in os.walk(running.store) if name in names)
    os.chmod(place, 0o600)
    with open(place, "r+b") as file:
        file.write(b"rotten")
    done = user.say("rebuild")
    assert done.returncode == 3, done.stderr
    assert f"{pack}` did not come back" in done.stderr and "is not what its name says" in done.stderr
    assert read(user.project, "notes.txt") == "first"
    assert os.path.exists(user.stores.key_file)


def test_a_home_whose_snapshot_was_forgotten_first_comes_back_as_it_was_last(user):
    put(os.path.join(user.home, ".hermes", "SOUL.md"), "as it was last")
    user.run("snapshot")
    user.run("snapshot", "forget", "1", "--yes")
    transfer(user.stores)
    gone(user)
    said = user.run("rebuild", keeper=True)
    assert "that snapshot was forgotten" in said
    assert read(user.home, ".hermes", "SOUL.md") == "as it was last"


def test_parts_that_somebody_may_have_deleted_come_back_after_a_yes(user):
    put(os.path.join(user.project, "notes.txt"), "second")
    user.run("checkpoint", user.project)
    transfer(user.stores)
    user.run("checkpoint", "clear", "--now", "--yes")
    refused = user.say("rebuild")
    assert refused.returncode == 1 and "that you may have deleted come back" in refused.stderr
    assert user.say("rebuild", "--yes").returncode == 0
    put(os.path.join(user.project, "notes.txt"), "third")
    user.run("rollback", "1", "--dir", user.project)
    assert read(user.project, "notes.txt") == "second"


def test_settings_that_were_written_since_stay(user):
    user.run("settings", "schedule.at", "04:10")
    transfer(user.stores)
    user.run("settings", "schedule.at", "05:20")
    shutil.rmtree(os.path.join(user.home, ".hermes"))
    for name in ("vault.key",):
        os.unlink(os.path.join(user.home, ".config", "safekept", name))
    user.run("rebuild", keeper=True)
    assert "05:20" in read(user.home, ".config", "safekept", "config.toml")


def test_a_keeper_that_does_not_answer_is_named_where_nothing_else_survived(user, running):
    transfer(user.stores)
    gone(user)
    running.kill()
    refused = user.say("rebuild")
    assert refused.returncode == 10
    assert "no copies; and the keeper does not answer" in refused.stderr
    assert "`safekept keeper status`" in refused.stderr
    running.start()
    with Keeper(running.socket) as keeper:
        assert keeper.hello()["newest"]["points"] == 2
    user.run("rebuild", keeper=True)
