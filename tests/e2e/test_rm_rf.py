"""An agent empties the home of its user: which step held, and `safekept rebuild` gives back what was there.

One user, whose stores a keeper of another owner holds too. Against each harm: the seat belt without that
keeper, then the keeper where the belt is opened first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from safekept.keeper.client import Keeper
from support.commands.waiting import wait_until
from support.keeper.keepers import RunningKeeper, running_keeper
from support.users.agent_user import AGENT, PROJECTS, SAFEKEPT, AgentUser
from support.users.processes import wait_until_none_has
from support.users.unprivileged import as_nobody
from support.vault.closed import open_below

needs_users = pytest.mark.usefixtures("several_users")
RMTREE = "python3 -c 'import os, shutil; shutil.rmtree(os.environ[\"HOME\"], ignore_errors=True)'"
#: What an ordinary clean-up runs.
HELD = {
    "rm": 'rm -rf "$HOME"',
    "find": 'find "$HOME" -delete',
    "rm of what lies beside the work": 'rm -rf "$HOME/.local" "$HOME/.config"',
    "rmtree": RMTREE,
}
#: "Delete all backups on this machine": what an agent tries that looks for them. `sudo` is not among it.
TWENTY = f"""
cd "$HOME"
rm -rf ~/.local/share/safekept ~/.config/safekept ~/.cache/safekept
find ~ -iname '*backup*' -delete
find ~ -iname '*.bak' -delete
rm -rf ~/.local/share/Trash ~/*.zip
{SAFEKEPT} snapshot forget 1 --yes
{SAFEKEPT} snapshot prune 0 --yes
{SAFEKEPT} vault prune --now --yes
{SAFEKEPT} checkpoint clear --now --yes
{SAFEKEPT} keeper remove --store --yes
{SAFEKEPT} uninstall --stores --yes
{SAFEKEPT} uninstall --stores --word delete --yes
{SAFEKEPT} settings seat_belt false
{SAFEKEPT} vault open
rm -rf "$KEEPER_STORE"
rm -rf ~/.local/share/safekept
chmod -R u+rwx ~
rm -rf ~/.local/share/safekept ~/.config/safekept
git -C ~/work clean -fdx
git -C ~/work stash drop
crontab -r
rm -rf ~/work ~/notes ~/tree ~/.hermes ~/.claude
"""
#: What gets through a seat belt: a copy of another owner, or one elsewhere, is for these.
THROUGH = {
    "chmod first": 'chmod -R u+w "$HOME" && rm -rf "$HOME"',
    "twenty commands": TWENTY,
}


@pytest.fixture(scope="module")
def keeper() -> Iterator[RunningKeeper]:
    with running_keeper() as running:
        running.start()
        yield running


@pytest.fixture(scope="module")
def furnished(keeper: RunningKeeper, tmp_path_factory: pytest.TempPathFactory) -> AgentUser:
    user = AgentUser(str(tmp_path_factory.mktemp("rm")))
    user.keeper = keeper.socket
    user.furnish()
    wait_until(lambda: points(user, keeper) == points_here(user), "everything at the keeper")
    keeper.stop()
    subprocess.run(["cp", "-a", keeper.store, f"{keeper.store}-saved"], check=True)
    return user


@pytest.fixture
def user(furnished: AgentUser) -> AgentUser:
    """The same user as before every harm, with a seat belt and no keeper."""
    wait_until_none_has(f"HOME={furnished.home}")  # what still works behind the last test makes files
    if os.path.exists(furnished.home):
        shutil.rmtree(open_below(furnished.home))
    subprocess.run(["cp", "-a", f"{furnished.saved}/.", furnished.home], check=True)
    furnished.keeper = ""
    return furnished


@pytest.fixture
def kept(user: AgentUser, keeper: RunningKeeper) -> Iterator[AgentUser]:
    """The same, with a keeper that holds everything."""
    shutil.rmtree(keeper.store)
    subprocess.run(["cp", "-a", f"{keeper.store}-saved", keeper.store], check=True)
    keeper.start()
    user.keeper = keeper.socket
    yield user
    keeper.stop()


def points(user: AgentUser, keeper: RunningKeeper) -> int:
    def asked() -> int:
        with Keeper(keeper.socket) as caller:
            return int((caller.hello()["newest"] or {"points": 0})["points"])

    return int(as_nobody(asked, AGENT))


def points_here(user: AgentUser) -> int:
    data = user.path(".local", "share", "safekept")
    refs = os.path.join(data, "checkpoints", "store", "refs", "safekept")
    return sum(len(names) for _, _, names in os.walk(refs)) + len(os.listdir(f"{data}/vault/snapshots"))


def all_is_back(user: AgentUser, before: dict[str, bytes], own: dict[str, bytes], lines: int) -> None:
    """To the byte: homes, projects, settings, key; the history, the hooks, the schedule."""
    after = user.everything()
    assert {path for path in before if after.get(path) != before[path]} == set()
    assert user.own_files() == own
    assert len(json.loads(user.safekept("log", "--json"))["operations"]) > lines
    assert "safekept" in after[".claude/settings.json"].decode()
    with open(os.path.join(user.place, "table"), encoding="utf-8") as file:
        assert "10 4 * * *" in file.read()
    assert json.loads(user.safekept("schedule", "show", "--json"))["installed"]
    assert "Nothing is gone" in user.safekept("rebuild")


@pytest.mark.parametrize("way", HELD)
def test_everything_comes_back_from_what_the_seat_belt_held(way: str, user: AgentUser) -> None:
    before, own, repository = user.everything(), user.own_files(), user.repository()
    lines = len(json.loads(user.safekept("log", "--json"))["operations"])
    assert len(own) == 2 and json.loads(user.safekept("status", "--json"))["rm_rf"]["step"] == "belt"
    user.run("sh", "-c", HELD[way])
    assert not user.own_files()
    first, *_ = user.run(SAFEKEPT).stdout.splitlines()
    what = "your settings and the key" if "beside" in way else "2 homes and 3 projects"
    assert first == f"ALARM, not protected: {what} are gone; their copies are here"
    dry = json.loads(user.safekept("rebuild", "--dry-run", "--json"))
    assert dry["dry_run"] and not user.own_files()
    done = user.run(SAFEKEPT, "rebuild")
    assert done.returncode == 0, (done.stdout, done.stderr)
    all_is_back(user, before, own, lines)
    assert user.repository() == repository, done.stdout
    user.safekept("snapshot", "--home", user.path(".hermes"))
    closed = json.loads(user.safekept("vault", "close", "--json"))["stores"]
    assert len(closed) >= 3 and all(one["closed"] for one in closed)


@pytest.mark.parametrize("way", THROUGH)
def test_what_gets_through_a_seat_belt_is_said_and_never_called_held(way: str, user: AgentUser) -> None:
    user.run("sh", "-c", THROUGH[way])
    assert not any(user.files(name) for name in (*PROJECTS, ".hermes"))
    done = user.run(SAFEKEPT, "rebuild")
    assert done.returncode == 10, (done.stdout, done.stderr)
    assert "Nothing of safekept survived on this machine: no vault, no checkpoints, no copies" in done.stderr


@needs_users
@pytest.mark.parametrize("way", [*HELD, *THROUGH])
def test_everything_comes_back_from_the_keeper(way: str, kept: AgentUser) -> None:
    """The seat belt is opened before each harm: nothing is left but what the keeper holds."""
    user, before, own = kept, kept.everything(), kept.own_files()
    repository, lines = kept.repository(), len(json.loads(kept.safekept("log", "--json"))["operations"])
    assert json.loads(user.safekept("status", "--json"))["rm_rf"]["step"] == "keeper"
    user.run("sh", "-c", 'chmod -R u+w "$HOME"')
    user.run("sh", "-c", {**HELD, **THROUGH}[way])
    assert not user.own_files()
    first, *_ = user.run(SAFEKEPT).stdout.splitlines()
    assert first == "ALARM, not protected: the vault and checkpoints are gone; the keeper has them"
    dry = user.run(SAFEKEPT, "rebuild", "--dry-run")
    assert dry.returncode == 0 and not user.own_files(), dry.stderr
    assert dry.stdout.startswith("The keeper has what is gone of the vault and the checkpoints, as of ")
    done = user.run(SAFEKEPT, "rebuild")
    assert done.returncode == 0, (done.stdout, done.stderr)
    all_is_back(user, before, own, lines)
    assert user.repository() == repository, done.stdout
    user.safekept("vault", "check")
