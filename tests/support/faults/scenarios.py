"""The commands that meet a fault, each with the world it needs and what must hold afterwards.

Exit 0 is believed only when the store reads back whole and what comes out of it is what went in.
Whatever the exit code: what was not asked to change did not, what was stored before comes back, and
the next command works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

from safekept.actions.keeper.bring_back import bring_back
from safekept.actions.keeper.held import look_at_keeper
from safekept.actions.keeper.stores import Stores
from safekept.actions.keeper.transfer import transfer
from safekept.checkpoints.store import belt_of, repositories_belt
from safekept.settings import load_settings
from safekept.settings.context import context_of
from safekept.vault.storage import LocalStorage
from support.commands.warm_commands import Said
from support.faults.worlds import World, different, facts, remove


@dataclass(frozen=True)
class Scenario:
    """A command, the world it is called in, and how its work is judged."""

    name: str
    words: Callable[[World], list[str]]
    make: Callable[[World], None]
    judge: Callable[[World, Said], None]
    keeper: bool = False  # whether the machine has one


def restored(world: World, id: str, *options: str) -> dict[str, tuple[object, ...]]:
    """What a snapshot gives back."""
    place = os.path.join(world.scratch, "back")
    shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(place + ".safekept", ignore_errors=True)
    world.done("snapshot", "restore", id, "--into", place, "--yes", "--json", *options)
    return facts(place)


def listed(said: Said, *keys: str) -> None:
    """Exit 3 names what is missing."""
    document = said.document
    assert document.get("complete") is not True, said.out
    assert any(document.get(key) for key in keys), f"incomplete, and nothing is named: {said.out}"


def closed_again(world: World) -> None:
    """After the next command that uses it, a store has its seat belt, and nothing of it was left open."""
    hidden = LocalStorage(os.path.join(world.data, "checkpoints", "hidden")).belt
    for belt in (
        LocalStorage(world.vault).belt,
        hidden,
        belt_of(os.path.join(world.data, "checkpoints", "store")),
        repositories_belt(os.path.join(world.data, "checkpoints")),
    ):
        if os.path.isdir(belt.root):
            still = [one for one in (belt.root, *belt.directories()) if os.stat(one).st_mode & 0o200]
            assert belt.state == "on" and not still, f"left open: {still}"


# ── snapshot ───────────────────────────────────────────────────────────────────────────────────────


def vault_with_first(world: World) -> None:
    world.make_home()
    world.ids["first"] = str(world.done("snapshot", "--json").document["id"])
    world.change_home()


def judge_snapshot(world: World, said: Said) -> None:
    world.same("the home", facts(world.home), "second" if "first" in world.ids else "first")
    name = "second" if "first" in world.ids else "first"
    if said.code == 0:
        assert said.document["complete"] is True
        world.done("vault", "check", "--read-data")
        world.same("the snapshot", restored(world, str(said.document["id"])), name)
    elif said.code == 3:
        listed(said, "remarks")
    again = world.done("snapshot", "--json").document
    assert again["complete"] is True
    closed_again(world)
    # A prune takes the vault for itself alone: nothing that was left behind may keep it waiting.
    world.done("vault", "prune", "--now", "--yes")
    world.done("vault", "check", "--read-data")
    world.same("the next snapshot", restored(world, str(again["id"])), name)
    if "first" in world.ids:
        world.same("the snapshot before", restored(world, world.ids["first"]), "first")


# ── restore, import ────────────────────────────────────────────────────────────────────────────────


def judge_landing(world: World, said: Said, words: list[str]) -> None:
    """The home is the old or the new one, and can become the other."""
    if said.code == 0:
        world.same("the home", facts(world.home), "landed")
        world.done("undo", "--json")
        world.same("the home after an undo", facts(world.home), "second")
    else:
        world.done(*words, "--dry-run")
        now = facts(world.home)
        if said.code == 3:
            listed(said, "remarks", "problems", "left", "kept_back", "lost", "missing")
        elif different(world.known["second"], now):
            lines = different(world.known["landed"], now)
            assert not lines, (
                f"neither the old home {different(world.known['second'], now)[:4]} nor the new {lines[:4]}"
            )
    world.done(*words)
    world.same("the home after the next", facts(world.home), "landed")
    world.done("undo", "--json")
    left = [name for name in os.listdir(world.user) if "safekept-tmp" in name]
    assert not left, left
    if os.path.exists(world.vault):
        world.done("vault", "check", "--read-data")


def restore_words(*options: str) -> Callable[[World], list[str]]:
    return lambda world: ["snapshot", "restore", world.ids["first"], "--yes", "--json", *options]


def make_restore(*options: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        vault_with_first(world)
        learn_landed(world, restore_words(*options)(world))

    return make


def learn_landed(world: World, words: list[str]) -> None:
    """What the home is like after an undisturbed run; then everything is as before."""
    world.keep()
    world.done(*words)
    world.known["landed"] = facts(world.home)
    assert not [name for name in world.known["first"] if name not in world.known["landed"]]
    world.begin()
    world.forget()


def judge_restore(*options: str) -> Callable[[World, Said], None]:
    def judge(world: World, said: Said) -> None:
        judge_landing(world, said, restore_words(*options)(world))
        world.same("the snapshot before", restored(world, world.ids["first"]), "first")

    return judge


def make_import(world: World) -> None:
    world.make_home()
    world.done("backup", "-o", os.path.join(world.out, "first.zip"))
    world.change_home()
    learn_landed(world, import_words(world))


def import_words(world: World) -> list[str]:
    return ["import", os.path.join(world.out, "first.zip"), "--force", "--json"]


def judge_import(world: World, said: Said) -> None:
    judge_landing(world, said, import_words(world))


# ── backup ─────────────────────────────────────────────────────────────────────────────────────────


def make_backup(form: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        world.make_home()
        world.done("backup", "-o", os.path.join(world.out, f"iris.{form}"), "--format", form)
        world.change_home()

    return make


def backup_words(form: str) -> Callable[[World], list[str]]:
    return lambda world: ["backup", "-o", os.path.join(world.out, f"iris.{form}"), "--format", form, "--json"]


def judge_backup(form: str) -> Callable[[World, Said], None]:
    def unpacked(world: World) -> dict[str, tuple[object, ...]]:
        archive = os.path.join(world.out, f"iris.{form}")
        if form == "zip":
            with zipfile.ZipFile(archive) as file:
                assert file.testzip() is None
        place = os.path.join(world.scratch, "back")
        shutil.rmtree(place, ignore_errors=True)
        world.done("import", archive, "--into", place, "--force", "--json")
        return facts(place)

    def judge(world: World, said: Said) -> None:
        world.same("the home", facts(world.home), "second")
        names = {name for name in os.listdir(world.out) if not name.startswith(".safekept-tmp-")}
        # What is not whole has a name that says so, and the older archive stays.
        assert names == {f"iris.{form}"} | ({f"iris-incomplete.{form}"} if said.code == 3 else set()), names
        if said.code == 0:
            assert said.document["complete"] is True
            world.same("the archive", unpacked(world), "second")
        else:
            if said.code == 3:
                listed(said, "remarks")
                os.unlink(os.path.join(world.out, f"iris-incomplete.{form}"))
            now = unpacked(world)
            if different(world.known["first"], now):
                world.same("the archive", now, "second")
        world.done(*backup_words(form)(world))
        world.same("the next archive", unpacked(world), "second")
        assert os.listdir(world.out) == [f"iris.{form}"], os.listdir(world.out)

    return judge


# ── checkpoints ────────────────────────────────────────────────────────────────────────────────────


def project_with_first(world: World) -> None:
    world.make_project()
    world.ids["project-first"] = checkpoint(world)
    world.change_project()


def checkpoint(world: World) -> str:
    return str(world.done("checkpoint", "--json").document["checkpoint"]["id"])


def sound_store(world: World) -> None:
    repository = os.path.join(world.data, "checkpoints", "store")
    done = subprocess.run(
        ["git", "--git-dir", repository, "fsck", "--strict", "--full", "--no-dangling"],
        capture_output=True,
        text=True,
        env={**world.environment, "GIT_CONFIG_NOSYSTEM": "1"},
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("notice: ")]
    assert done.returncode == 0 and not said, said


def judge_checkpoint(world: World, said: Said) -> None:
    name = "project-second" if "project-first" in world.ids else "project-first"
    world.same("the project", facts(world.project), name)
    points = {}
    if said.code == 0 and said.document.get("checkpoint"):
        points["checkpoint"] = str(said.document["checkpoint"]["id"])
    points["next checkpoint"] = checkpoint(world)
    sound_store(world)
    for what, id in points.items():
        spoil_project(world)
        world.done("rollback", id, "--overwrite-mine")
        world.same(f"the project from the {what}", facts(world.project), name)
    if "project-first" in world.ids:
        world.done("rollback", world.ids["project-first"], "--overwrite-mine")
        world.same("the project from the checkpoint before", facts(world.project), "project-first")
    sound_store(world)
    if os.path.exists(os.path.join(world.vault, "config")):
        world.done("snapshot", "list")  # a hidden half needs the vault once, to be made
    closed_again(world)


def spoil_project(world: World) -> None:
    """What an agent broke, in either half."""
    shutil.rmtree(os.path.join(world.project, "src"), ignore_errors=True)
    if os.path.exists(os.path.join(world.project, ".env")):
        world.write(".env", "TOKEN=garbled\n", base=world.project)
        shutil.rmtree(os.path.join(world.project, "data"))


def hidden_with_first(world: World) -> None:
    world.make_hidden()
    world.ids["project-first"] = checkpoint(world)
    world.change_hidden()


def is_hidden(line: str) -> bool:
    """Whether a path, or a line about one, is of the half that git hides."""
    return line.removeprefix("missing: ").removeprefix("extra: ").startswith((".env", "data"))


def rollback_words(world: World) -> list[str]:
    return ["rollback", world.ids["project-first"], "--json"]


def judge_rollback(world: World, said: Said) -> None:
    if said.code == 0:
        assert said.document["rolled_back"]["complete"] is True
        world.same("the project", facts(world.project), "project-first")
        world.done("rollback", "--undo")
        world.same("the project after an undo", facts(world.project), "project-second")
    else:
        finished = world.done("rollback")
        now = facts(world.project)
        if said.code == 3:
            assert said.document["rolled_back"]["complete"] is False
            assert said.document["rolled_back"]["left"], said.out
        elif said.error == "rollback-unfinished" and any(map(is_hidden, now)):
            # What git sees is as it was then, and the command that brings the rest is named.
            for hides, name in ((False, "project-first"), (True, "project-second")):
                lines = [one for one in different(world.known[name], now) if is_hidden(one) is hides]
                assert not lines, f"the project is not as {name}: {lines}"
            assert world.ids["project-first"] in finished.err, finished
        elif different(world.known["project-second"], now):
            world.same("the project", now, "project-first")
    world.done("rollback", world.ids["project-first"], "--overwrite-mine")
    world.same("the project after the next", facts(world.project), "project-first")
    sound_store(world)
    closed_again(world)


# ── the keeper ──────────────────────────────────────────────────────────────────────────────────────


def judge_kept(world: World, said: Said) -> None:
    """The snapshot is judged as any other; and whatever became of the transfer, the next one brings all."""
    assert world.keeper is not None
    try:
        judge_snapshot(world, said)
        id = str(world.done("snapshot", "--json").document["id"])
        context = context_of(load_settings(world.with_keeper))
        transfer(Stores.of(context))
        for path in (world.data, os.path.join(world.user, ".config", "safekept")):
            remove(path)
        held = look_at_keeper(context)
        assert held is not None
        bring_back(context, held)
        world.done("vault", "check", "--read-data")
        world.same("the snapshot from the keeper", restored(world, id), "second")
    finally:
        world.keeper.forget()


# ── push ───────────────────────────────────────────────────────────────────────────────────────────


def make_push(again: bool) -> Callable[[World], None]:
    def make(world: World) -> None:
        config = os.path.join(world.user, ".config", "safekept")
        os.makedirs(config)
        with open(os.path.join(config, "config.toml"), "w") as file:
            file.write(f'[[destination]]\nname = "disk"\nurl = "file:{world.copy}"\nsame_disk = true\n')
        vault_with_first(world)
        world.done("vault", "kit", "-o", world.out)
        if again:
            world.done("push", "disk", "--acknowledge-kit")
            world.ids["second"] = str(world.done("snapshot", "--json").document["id"])

    return make


def push_words(world: World) -> list[str]:
    return ["push", "disk", "--acknowledge-kit", "--json"]


def judge_push(world: World, said: Said) -> None:
    if said.code == 0:
        whole_copy(world)
    world.done("vault", "check", "--read-data")
    world.done(*push_words(world))
    whole_copy(world)


def whole_copy(world: World) -> None:
    world.done("vault", "check", "--read-data", "--destination", "disk")
    for name in ("first", "second"):
        if name in world.ids:
            world.same("the copy", restored(world, world.ids[name], "--destination", "disk"), name)


SCENARIOS = (
    Scenario("first-snapshot", lambda world: ["snapshot", "--json"], World.make_home, judge_snapshot),
    Scenario("snapshot", lambda world: ["snapshot", "--json"], vault_with_first, judge_snapshot),
    Scenario("restore", restore_words(), make_restore(), judge_restore()),
    Scenario("restore-exact", restore_words("--exact"), make_restore("--exact"), judge_restore("--exact")),
    Scenario("backup-zip", backup_words("zip"), make_backup("zip"), judge_backup("zip")),
    Scenario("backup-tar", backup_words("tar.zst"), make_backup("tar.zst"), judge_backup("tar.zst")),
    Scenario("import", import_words, make_import, judge_import),
    Scenario(
        "first-checkpoint", lambda world: ["checkpoint", "--json"], World.make_project, judge_checkpoint
    ),
    Scenario("checkpoint", lambda world: ["checkpoint", "--json"], project_with_first, judge_checkpoint),
    Scenario("rollback", rollback_words, project_with_first, judge_rollback),
    Scenario("first-hidden", lambda world: ["checkpoint", "--json"], World.make_hidden, judge_checkpoint),
    Scenario("hidden", lambda world: ["checkpoint", "--json"], hidden_with_first, judge_checkpoint),
    Scenario("rollback-hidden", rollback_words, hidden_with_first, judge_rollback),
    Scenario("snapshot-kept", lambda world: ["snapshot", "--json"], vault_with_first, judge_kept, True),
    Scenario("first-push", push_words, make_push(again=False), judge_push),
    Scenario("push", push_words, make_push(again=True), judge_push),
)
