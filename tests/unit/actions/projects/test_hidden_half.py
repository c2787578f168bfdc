"""The hidden half of checkpoints: what git hides comes back like everything else, and stays secret."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable

import pytest

from safekept.actions.projects import care
from safekept.actions.projects.hidden.coverage import coverage
from safekept.actions.projects.hidden.keeping import keep_hidden
from safekept.actions.projects.hidden.record import keep_look, project_records, save_rows
from safekept.actions.projects.hidden.retention import drop_unneeded
from safekept.actions.projects.hidden.trouble import read_trouble
from safekept.actions.projects.rollback import checkpoint_store
from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.opening import open_vault
from safekept.checkpoints.rollback import recover
from safekept.checkpoints.take.taking import take
from safekept.core.errors import SafekeptError
from safekept.core.events import Event
from safekept.core.next_step import NextStep
from safekept.vault.repo.keys import Secret
from safekept.vault.snapshots import list_snapshots
from support.projects.checkpoints import tree_on_disk
from support.projects.hidden_halves import PASSWORD, HiddenWorld, git

WAITING = "Then bring back what git hides:"


def everything(world: HiddenWorld) -> dict[str, tuple[object, ...]]:
    return tree_on_disk(world.project)


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_ignored_files_secrets_and_a_database_come_back_with_mode_and_time(world: HiddenWorld) -> None:
    git(world.project, "add", "-A")
    git(world.project, "commit", "-qm", "x")
    before = everything(world)
    taken = world.take()
    assert taken.hidden is not None and taken.hidden_error is None
    git(world.project, "clean", "-fdX")
    for name in (".env", "keys/server.pem"):
        os.chmod(world.path(name), 0o644)
        world.put(name, "")
    world.put("a.txt", "the agent's\n")
    done = world.rollback()
    assert everything(world) == before
    assert done.complete
    assert world.rows("data/app.db") == [1, 2, 3]
    assert ".env" in [path for path, _ in done.steps]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_undo_takes_both_halves_back(world: HiddenWorld) -> None:
    world.take()
    world.put(".env", "changed\n")
    shutil.rmtree(world.path("data"))
    world.put("a.txt", "changed\n")
    changed = everything(world)
    world.rollback()
    done = world.undo()
    assert done.complete
    assert everything(world) == changed


def test_what_was_changed_after_a_rollback_survives_its_undo(world: HiddenWorld) -> None:
    world.take()
    world.put(".env", "the agent's\n")
    world.put("report.pdf", "the agent's\n")
    world.rollback()
    world.put(".env", "mine, later\n")
    world.undo()
    assert world.read(".env") == b"mine, later\n"
    assert world.read("report.pdf") == b"the agent's\n"


def test_a_rollback_that_ends_before_the_hidden_half_says_so_and_the_printed_command_brings_it(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = world.take().taken.checkpoint
    assert point is not None
    before = everything(world)
    world.put("a.txt", "changed\n")
    world.put(".env", "changed\n", 0o600)
    real = os.unlink

    def refuse(path: str, **options: int) -> None:
        if ".safekept-tmp-" in os.fsdecode(path) and options.get("dir_fd") is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        real(path, **options)

    with monkeypatch.context() as patch, pytest.raises(SafekeptError) as raised:
        patch.setattr(os, "unlink", refuse)
        world.rollback(point.id)
    assert raised.value.code == "rollback-unfinished"
    assert "what git hides is as it was before" in raised.value.kept
    assert "is half as it was then" in raised.value.what
    assert NextStep("rollback", (point.id,), before=WAITING) in raised.value.next_steps
    assert world.read("a.txt") == b"visible\n" and world.read(".env") == b"changed\n"
    heard: list[Event] = []
    with checkpoint_store(world.context) as store:
        assert recover(store, world.project, listener=heard.append) is not None
    (text,) = [one.text for one in heard if one.text]
    assert isinstance(text, NextStep)
    assert (text.verb, text.arguments) == ("rollback", (point.id, "--dir", world.project))
    assert world.rollback(point.id).complete
    assert everything(world) == before


def refusing(name: str) -> Callable[..., int]:
    """An `os.open` that fails for one file: no disk does that on request."""
    real = os.open

    def refuse(path: str, *arguments: int, **options: int) -> int:
        if os.fsdecode(path).endswith(name):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, *arguments, **options)

    return refuse


def test_a_hidden_file_that_cannot_be_read_is_named_and_kept_by_the_next_checkpoint(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "Hidden files that cannot be read, or are locked, are not kept: `report.pdf`"
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing("report.pdf"))
        taken = world.take()
        assert taken.hidden is not None and taken.hidden.missing == ("report.pdf",)
        assert taken.hidden_error is not None and taken.hidden_error.what == words
        assert read_trouble(project_records(world.context, world.project)).what == words
        # A hook, which cannot wait, asks for the same again and is told the same.
        look = taken.taken.hidden
        assert look is not None
        again = keep_look(world.context, world.project, look, deadline=time.monotonic() + 60.0)
        assert again == taken.hidden
    # Going back leaves alone what is not known.
    world.put(".env", "changed\n")
    world.put("report.pdf", "mine\n")
    world.rollback("1")
    assert PASSWORD.encode() in world.read(".env") and world.read("report.pdf") == b"mine\n"
    later = world.take()
    assert later.hidden_error is None and later.hidden is not None and later.hidden.missing == ()
    assert not read_trouble(project_records(world.context, world.project)).what
    os.unlink(world.path("report.pdf"))
    world.rollback("1")
    assert world.read("report.pdf") == b"mine\n"


@pytest.mark.parametrize(("call", "name"), [("scandir", "data"), ("lstat", ".env")])
def test_what_cannot_even_be_looked_at_is_named(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    """By the look at what is hidden, which goes by descriptors; no disk fails one look on request."""
    real = getattr(os, call)

    def refuse(path: object, **options: int) -> object:
        place = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.fsdecode(path)  # type: ignore[arg-type]
        if os.path.basename(place) == name and (isinstance(path, int) or "dir_fd" in options):
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        return real(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        taken = world.take()
    assert taken.hidden is not None and taken.hidden.missing == (name,)
    assert taken.hidden_error is not None and f"`{name}`" in taken.hidden_error.what
    assert world.take().hidden_error is None


def test_a_rollback_replaces_no_hidden_file_that_it_could_not_save(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.take()
    world.put("report.pdf", "saved nowhere\n")
    world.put(".env", "changed\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing("report.pdf"))
        done = world.rollback("1")
    assert not done.complete and "report.pdf" in [path for path, _ in done.stays]
    assert world.read("report.pdf") == b"saved nowhere\n" and PASSWORD.encode() in world.read(".env")


def test_a_snapshot_is_made_only_when_something_hidden_changed(world: HiddenWorld) -> None:
    first = world.take().taken.checkpoint
    world.put("a.txt", "other\n")
    second = world.take().taken.checkpoint
    assert first and second and first.hidden == second.hidden
    assert len(world.snapshots()) == 1
    world.put(".env", "other\n")
    third = world.take().taken.checkpoint
    assert third and third.hidden != first.hidden
    assert len(world.snapshots()) == 2


def test_a_point_that_differs_only_in_hidden_files_has_a_number(world: HiddenWorld) -> None:
    world.take()
    world.put(".env", "gone wrong\n")
    world.rollback("1")
    assert PASSWORD.encode() in world.read(".env")


def test_a_single_secret_goes_back_by_its_name(world: HiddenWorld) -> None:
    world.take()
    world.put(".env", "wrong\n")
    os.unlink(world.path("data/app.db"))
    world.put("a.txt", "wrong\n")
    world.rollback("1", ".env", "data/app.db")
    assert PASSWORD.encode() in world.read(".env")
    assert world.rows("data/app.db") == [1, 2, 3]
    assert world.read("a.txt") == b"wrong\n"


def test_the_users_own_later_edit_of_a_hidden_file_stays(world: HiddenWorld) -> None:
    settings = world.policy.take
    with checkpoint_store(world.context) as store:
        take(store, world.project, kind="before", session="s", turn="1", settings=settings)
    world.take()  # keeps the hidden half of this moment
    world.put(".env", "the agent's\n")
    world.put("report.pdf", "the agent's\n")
    with checkpoint_store(world.context) as store:
        point = take(store, world.project, kind="after", session="s", turn="1", settings=settings)
    assert point.hidden is not None
    keep_hidden(world.context, world.project, point.hidden)
    world.put(".env", "my own\n")
    done = world.rollback()
    assert world.read(".env") == b"my own\n"
    assert world.read("report.pdf").startswith(b"%PDF")
    assert (".env", "changed by you after the agent's last write") in done.stays


@pytest.mark.parametrize("name", ["a.txt", ".env", "data/notes/one.txt"])
def test_where_no_agent_ever_worked_a_second_rollback_brings_back_as_well(
    world: HiddenWorld, name: str
) -> None:
    """The mark of the first one says nothing of whose the next change is: there is nobody else."""
    world.take()
    then = world.read(name)
    world.put(name, "ruined\n")
    world.rollback("1")
    os.unlink(world.path(name))
    done = world.rollback("1")
    assert world.read(name) == then and done.complete and not done.stays, done.stays


def test_a_gitignore_that_the_agent_writes_hides_nothing(world: HiddenWorld) -> None:
    world.put("src/main.py", "print(1)\n")
    world.take()
    world.put(".gitignore", "*\n")
    world.take("while all is ignored")
    world.put("src/main.py", "ruined\n")
    world.put(".env", "ruined\n")
    taken = world.take("ruined").taken.checkpoint
    assert taken is not None
    world.rollback("2")  # to the point that was taken while everything was ignored
    assert world.read("src/main.py") == b"print(1)\n"
    assert PASSWORD.encode() in world.read(".env")


def test_a_marker_that_is_put_into_a_kept_directory_leaves_nothing_out(world: HiddenWorld) -> None:
    world.take()
    world.put("data/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")
    world.put("data/pyvenv.cfg", "")
    world.take("marked")
    shutil.rmtree(world.path("data"))
    world.rollback("1")
    assert world.read("data/notes/one.txt") == b"one\n"


def test_only_what_a_marker_proves_is_left_out(world: HiddenWorld) -> None:
    world.put("node_modules/x.js", "1")  # no package.json: nobody knows how to make it again
    world.put("sub/package.json", "{}")
    world.put("sub/node_modules/y.js", "1")
    world.put("rust/Cargo.toml", "")
    world.put("rust/target/out.o", "1")
    world.put("data/.venv/pyvenv.cfg", "")
    world.put("data/.venv/lib/a.py", "")
    found = coverage(world.context, world.project, world.policy.take)
    assert {one.path for one in found.left} == {"sub/node_modules", "rust/target", "data/.venv"}
    assert all(one.remakeable and one.reason and one.files for one in found.left)
    assert found.exposed == ()


def test_what_exceeds_the_budget_is_named_and_the_largest_goes_first(world: HiddenWorld) -> None:
    world.limits(bytes=5_000_000, largest=3_000_000)
    world.put("data/huge.bin", os.urandom(3_500_000))
    world.put("data/large.bin", os.urandom(2_900_000))
    world.put("data/middle.bin", os.urandom(2_500_000))
    found = coverage(world.context, world.project, world.policy.take)
    assert [(one.path, one.bytes) for one in found.exposed] == [
        ("data/huge.bin", 3_500_000),
        ("data/large.bin", 2_900_000),
    ]
    world.take()
    kept = {name: world.read(f"data/{name}.bin") for name in ("huge", "middle")}
    os.unlink(world.path("data/middle.bin"))
    world.put("data/huge.bin", "smaller now\n")
    done = world.rollback()
    assert world.read("data/middle.bin") == kept["middle"]
    assert world.read("data/huge.bin") == b"smaller now\n"  # there is nothing to put back in its place
    assert done.complete


def test_a_directory_with_too_many_files_is_left_out_and_its_neighbours_are_not(world: HiddenWorld) -> None:
    world.limits(files=50)
    for number in range(60):
        world.put(f"data/cache/{number}", "x")
    found = coverage(world.context, world.project, world.policy.take)
    assert [one.path for one in found.exposed] == ["data/cache"]
    world.take()
    shutil.rmtree(world.path("data/notes"))
    assert world.rollback().complete
    assert world.read("data/notes/one.txt") == b"one\n"


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_what_is_no_file_stops_nothing(world: HiddenWorld) -> None:
    os.mkfifo(world.path("data/pipe"))
    with open(world.path("data/sparse"), "wb") as file:
        file.truncate(1 << 40)
    os.makedirs(world.path("data/shut"))
    world.put("data/shut/in", "x")
    os.chmod(world.path("data/shut"), 0)
    try:
        taken = world.take()
        assert taken.hidden is not None and taken.hidden.files >= 6
        left = {one.path for one in coverage(world.context, world.project, world.policy.take).exposed}
        assert {"data/pipe", "data/sparse"} <= left
        assert os.geteuid() == 0 or "data/shut" in left
    finally:
        os.chmod(world.path("data/shut"), 0o755)


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_rows_that_were_deleted_come_back_and_a_database_in_use_is_named(world: HiddenWorld) -> None:
    world.rows("data/app.db", "pragma journal_mode=wal; insert into t values (4)")
    world.take()
    world.rows("data/app.db", "delete from t")
    holder = sqlite3.connect(world.path("data/app.db"))
    try:
        holder.execute("select * from t").fetchall()
        done = world.rollback()
        assert not done.complete
        assert any(path == "data/app.db" and "open" in why for path, why in done.stays)
    finally:
        holder.close()
    assert world.rollback().complete
    assert world.rows("data/app.db") == [1, 2, 3, 4]


def test_without_the_key_the_visible_half_goes_on_and_it_is_said(world: HiddenWorld) -> None:
    world.take()
    os.unlink(world.context.places.vault_key_file)
    world.put(".env", "wrong\n")
    world.put("a.txt", "wrong\n")
    taken = world.take()
    assert taken.taken.checkpoint is not None
    assert taken.hidden_error is not None and "key" in taken.hidden_error.what
    os.unlink(world.path("report.pdf"))
    done = world.rollback("2")
    assert world.read("a.txt") == b"visible\n"
    assert not done.complete
    assert any(path == "report.pdf" and "could not be read" in why for path, why in done.stays)


def test_a_recovery_passphrase_of_the_vault_opens_it_too(world: HiddenWorld) -> None:
    first = world.take().taken.checkpoint
    passphrase = Secret("correct horse battery staple")
    with open_vault(world.context) as vault:
        add_passphrase(world.context, vault, passphrase)
    world.put(".env", "other\n")
    world.take()  # follows the keys of the vault
    os.unlink(world.context.places.vault_key_file)
    world.context = world.context.changed(vault_secret=lambda: passphrase, vault_wants_passphrase=True)
    assert first is not None
    world.rollback(first.id)
    assert PASSWORD.encode() in world.read(".env")


def test_no_secret_is_anywhere_in_the_clear(world: HiddenWorld, tmp_path: object) -> None:
    first = world.take().taken.checkpoint
    world.put(".env", f"OTHER={PASSWORD}\n")
    world.take()
    assert first is not None
    world.rollback(first.id)
    user = world.context.places.user_home
    found = subprocess.run(["grep", "-rla", PASSWORD, user], capture_output=True, text=True).stdout
    assert found == ""
    for directory, _, files in os.walk(os.path.join(user, ".local")):
        for name in files:
            assert os.lstat(os.path.join(directory, name)).st_mode & 0o077 == 0, name


def test_it_goes_with_its_checkpoint_and_is_in_no_list_of_snapshots(world: HiddenWorld) -> None:
    world.take()
    world.put(".env", "other\n")
    world.take()
    assert len(world.snapshots()) == 2
    with open_vault(world.context) as vault:
        assert list_snapshots(vault)[0] == []
    plan = care.plan_clear(world.context)
    care.carry_out_prune(world.context, world.policy, plan, everything=True, now=True)
    assert world.snapshots() == []
    packs = os.path.join(world.context.places.data_directory, "checkpoints", "hidden", "data")
    assert [name for _, _, files in os.walk(packs) for name in files] == []


def test_the_limit_of_all_together_drops_the_oldest_and_never_the_newest(world: HiddenWorld) -> None:
    for _ in range(3):
        world.put("data/random", os.urandom(400_000))
        world.take()
    newest = world.take().hidden
    with checkpoint_store(world.context) as store:
        drop_unneeded(world.context, store, total=600_000)
    assert newest is not None and world.snapshots() == [newest.snapshot]


def test_plain_restic_reads_it_with_the_vaults_key(world: HiddenWorld, tmp_path: object) -> None:
    if shutil.which("restic") is None:
        pytest.skip("restic is not here")
    world.take()
    place = os.path.join(world.context.places.data_directory, "checkpoints", "hidden")
    options = ["-r", place, "-p", world.context.places.vault_key_file, "--no-cache"]
    subprocess.run(["restic", *options, "check", "--read-data"], check=True, capture_output=True)
    there = os.path.join(str(tmp_path), "restored")
    subprocess.run(
        ["restic", *options, "restore", "latest", "--target", there], check=True, capture_output=True
    )
    with open(there + world.path(".env"), encoding="utf-8") as file:
        assert PASSWORD in file.read()


def test_a_point_that_was_not_kept_in_time_is_put_together_and_the_rest_is_named(world: HiddenWorld) -> None:
    world.take()
    world.put("data/late.txt", "changed just before the command\n")
    with checkpoint_store(world.context) as store:
        point = take(store, world.project, kind="before", session="s", settings=world.policy.take)
    assert point.hidden is not None and point.checkpoint is not None
    late = keep_look(world.context, world.project, point.hidden, deadline=1e-9)  # long over
    assert isinstance(late, SafekeptError) and "longer than a call may wait" in late.what
    world.put(".env", "ruined\n")
    shutil.rmtree(world.path("data"))
    done = world.rollback(point.checkpoint.id)
    assert PASSWORD.encode() in world.read(".env")
    assert world.read("data/notes/one.txt") == b"one\n"
    assert world.rows("data/app.db") == [1, 2, 3]
    assert not done.complete
    assert [path for path, why in done.stays if "not kept in time" in why] == ["data/late.txt"]
    assert not os.path.exists(world.path("data/late.txt"))


def test_what_was_named_and_came_back_with_the_visible_half_is_not_called_late(world: HiddenWorld) -> None:
    """Named files are kept at once, whatever hides them; the hidden half may come later, or never."""
    world.put("data/named.txt", "then\n")
    with checkpoint_store(world.context) as store:
        point = take(
            store,
            world.project,
            kind="before",
            session="s",
            named=["data/named.txt"],
            full=True,
            settings=world.policy.take,
        )
    assert point.hidden is not None and point.checkpoint is not None
    assert isinstance(keep_look(world.context, world.project, point.hidden, deadline=1e-9), SafekeptError)
    world.put("data/named.txt", "ruined\n")
    done = world.rollback(point.checkpoint.id)
    assert world.read("data/named.txt") == b"then\n"
    assert done.complete and not done.stays, done.stays


def test_where_nothing_hidden_was_ever_kept_a_rollback_that_needs_nothing_of_it_is_whole(
    tmp_path: object,
) -> None:
    """A new user's first turn: there is no repository yet, and nothing to bring back from one."""
    new = HiddenWorld(tmp_path)
    new.put("package.json", "{}\n")
    new.take()
    new.put("a.txt", "changed\n")
    new.put("node_modules/one/index.js", "can be made again\n")
    done = new.rollback("1")
    assert new.read("a.txt") == b"visible\n"
    assert done.complete and not done.stays, done.stays


def test_where_nothing_hidden_was_kept_in_time_what_is_gone_is_named(tmp_path: object) -> None:
    new = HiddenWorld(tmp_path)
    new.put("data/one.txt", "one\n")
    new.put("data/two.txt", "two\n")
    with checkpoint_store(new.context) as store:
        point = take(store, new.project, kind="before", session="s", settings=new.policy.take)
    assert point.hidden is not None and point.checkpoint is not None
    save_rows(new.context, new.project, point.hidden)
    shutil.rmtree(new.path("data"))
    new.put("a.txt", "changed\n")
    done = new.rollback(point.checkpoint.id)
    assert new.read("a.txt") == b"visible\n"
    assert [path for path, why in done.stays if "not kept in time" in why] == [
        "data/one.txt",
        "data/two.txt",
    ]
    assert not done.complete


def test_lines_that_are_lost_are_written_again_and_nothing_is_dropped_for_it(world: HiddenWorld) -> None:
    world.take()
    lines = os.path.join(project_records(world.context, world.project), "hidden.jsonl")
    before = world.read(".env")
    os.unlink(lines)
    with checkpoint_store(world.context) as store:
        drop_unneeded(world.context, store, total=1, now=True)
    assert len(world.snapshots()) == 1
    os.unlink(lines)
    shutil.rmtree(world.project)
    world.rollback()
    assert world.read(".env") == before


def test_a_rollback_that_is_done_again_removes_what_it_removed_the_first_time(world: HiddenWorld) -> None:
    world.take()
    before = everything(world)
    os.unlink(world.path(".env"))
    world.put("new.txt", "made since\n")
    world.rollback()
    assert everything(world) == before
    world.undo()
    done = world.undo()
    assert done.complete and done.stays == []
    assert everything(world) == before
