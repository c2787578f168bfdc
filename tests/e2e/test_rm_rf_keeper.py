"""An agent deletes everything that its user can delete: the keeper gives it back, to the byte.

One user with a home and three projects, by the launcher and in processes of their own, against a keeper of
another owner. Attack after attack: what came back from one is what the next one takes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from safekept.checkpoints.project import project_id
from safekept.checkpoints.store import Refs
from safekept.keeper.client import Keeper
from support.commands.waiting import wait_until
from support.home.homes import make_hermes_home
from support.keeper.keepers import RunningKeeper, running_keeper
from support.places import CHECKOUT
from support.users.another_user import as_another_user, give
from support.users.unprivileged import as_nobody

SAFEKEPT = os.path.join(CHECKOUT, "safekept")
AGENT = 61_003
needs_users = pytest.mark.usefixtures("several_users")
WAYS = {
    "rm": 'rm -rf "$HOME"',
    "find": 'find "$HOME" -delete',
    "what lies beside it": 'rm -rf "$HOME/.local" "$HOME/.config"',
    "opened first": 'chmod -R u+w "$HOME" && rm -rf "$HOME"/* "$HOME"/.[!.]*',
    "rmtree": "python3 -c 'import os, shutil; shutil.rmtree(os.environ[\"HOME\"], ignore_errors=True)'",
}
#: What an agent would try that was told to delete all backups on this machine. Not among it is
#: `snapshot forget`: its mark comes back with the vault, and `latest` passes such a snapshot over.
ALL_BACKUPS = """
safekept settings seat_belt false
safekept vault open
safekept schedule remove --yes
safekept uninstall --yes
safekept checkpoint clear --yes
safekept vault prune --yes
safekept keeper remove --store --yes
rm -rf "$KEEPER_STORE"
chmod -R 777 "$KEEPER_STORE"
find "$KEEPER_STORE" -type f -delete
rm -f "$SAFEKEPT_KEEPER_SOCKET"
cp /dev/null "$SAFEKEPT_KEEPER_SOCKET"
find "$HOME" -iname '*snapshot*' -exec rm -rf {} +
find "$HOME" -iname '*backup*' -delete
find "$HOME/.local/share/safekept" -type f -exec truncate -s 0 {} +
chmod -R u+rwX "$HOME"
rm -f "$HOME/.config/safekept/vault.key"
rm -rf "$HOME/.local/share/safekept" "$HOME/.config/safekept" "$HOME/.cache"
git -C "$HOME/first" clean -fdxq
rm -rf "$HOME/.hermes" "$HOME/first" "$HOME/second" "$HOME/third"
"""


class AgentUser:
    """Somebody whose agent does all this."""

    def __init__(self, place: str, keeper: RunningKeeper) -> None:
        self.home, self._keeper = os.path.join(place, "somebody"), keeper
        os.makedirs(self.home)
        make_hermes_home(self.path(".hermes"), profiles=(), awkward=False)
        for project in ("first", "second"):
            os.makedirs(self.path(project, "src"))
            for name in ("notes.txt", "src/code.py"):
                self.write(f"{name} of {project}\n", project, name)
        self.write("{}\n", "second", "package.json")
        give(self.home, AGENT)
        self._begin = as_another_user(self.home, user=AGENT)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", self.path("first")]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            assert self.run(*git, *words).returncode == 0
        assert self.run(*git, "worktree", "add", "-q", self.path("third")).returncode == 0
        self.write("work that nobody committed\n", "first", "notes.txt")

    @property
    def _store(self) -> str:
        return self.path(".local", "share", "safekept", "checkpoints", "store")

    def path(self, *parts: str) -> str:
        return os.path.join(self.home, *parts)

    def write(self, text: str, *parts: str) -> None:
        with open(self.path(*parts), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            "HOME": self.home,
            "PATH": f"{CHECKOUT}:/usr/bin:/bin",
            "NO_COLOR": "1",
            "LANG": "C.UTF-8",
            "SAFEKEPT_HELPER": "0",
            "SAFEKEPT_KEEPER_SOCKET": self._keeper.socket,
            "KEEPER_STORE": self._keeper.store,
        }
        return subprocess.run(
            [*self._begin, *words],
            env=environment,
            cwd="/",
            input=given,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def safekept(self, *words: str, given: str = "") -> str:
        done = self.run(SAFEKEPT, *words, given=given)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def turn(self, project: str, name: str, text: str) -> None:
        """What a connected agent says around a change, and the change."""
        call = {"host": "claude-code", "session": "s", "turn": name, "tool": "Write"}
        call |= {"paths": [self.path(project, name)], "directory": self.path(project)}
        self.safekept("helper", "call", given=json.dumps({"kind": "before", **call}))
        self.write(text, project, name)
        self.safekept("helper", "call", given=json.dumps({"kind": "end", **call}))

    def files(self) -> dict[str, bytes]:
        """Homes and projects; databases come back by their rows, and git's own files are git's."""
        found = {}
        for top in (".hermes", "first", "second", "third"):
            for parent, directories, names in os.walk(self.path(top)):
                directories[:] = [one for one in directories if one != ".git"]
                for name in names:
                    if name != ".git" and ".db" not in name:
                        with open(os.path.join(parent, name), "rb") as file:
                            found[os.path.relpath(os.path.join(parent, name), self.home)] = file.read()
        return found

    def bring_back(self) -> None:
        """The stores from the keeper, then what is gone, by the commands of every day."""
        self.safekept("keeper", "restore", "--yes")
        if not os.path.exists(self.path(".hermes", "config.yaml")):
            self.safekept("snapshot", "restore", "latest", "--home", self.path(".hermes"), "--yes")
        for project in ("first", "second", "third"):
            if not os.path.exists(self.path(project, "notes.txt")):
                # The newest point of all: what the last turn left has no number of its own.
                newest = Refs(self._store).newest(project_id(self.path(project)))
                self.safekept("rollback", newest, "--dir", self.path(project))

    def kept(self) -> None:
        """Wait until the keeper has every snapshot and every checkpoint that is here."""

        def there() -> int:
            with Keeper(self._keeper.socket) as keeper:
                return int((keeper.hello()["newest"] or {"points": 0})["points"])

        data, refs = self.path(".local", "share", "safekept"), Refs(self._store)
        points = sum(len(refs.of(project)) for project in refs.projects())
        points += len(os.listdir(os.path.join(data, "vault", "snapshots")))
        wait_until(lambda: as_nobody(there, AGENT) == points, f"{points} points at the keeper")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentUser]:
    with running_keeper() as keeper:
        keeper.start()
        one = AgentUser(str(tmp_path_factory.mktemp("rm-rf")), keeper)
        one.safekept("snapshot")
        for project in ("second", "third"):
            one.safekept("checkpoint", one.path(project))
        one.turn("first", "src/code.py", "print('what the agent did')\n")
        one.kept()
        yield one


@needs_users
@pytest.mark.parametrize("way", [*WAYS, "all backups"])
def test_the_keeper_gives_back_homes_and_projects_to_the_byte(user, way):
    before = user.files()
    assert len(before) > 10
    user.run("sh", "-c", WAYS.get(way, ALL_BACKUPS))
    assert not os.path.exists(user.path(".config", "safekept", "vault.key"))
    user.bring_back()
    assert user.files() == before
    done = user.run(SAFEKEPT, "keeper", "status", "--json")
    status = json.loads(done.stdout)
    assert done.returncode == (4 if status["pinned"] else 0), "an alarm where the stores were wiped and sent"
    assert status["answers"] and status["newest"]["points"] >= 4
    user.safekept("vault", "check")
