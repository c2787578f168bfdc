"""A running keeper of the test's own, by the real command; and its callers as different users."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from safekept.core.platform.sockets import has_packets
from safekept.keeper.client import Keeper
from safekept.keeper.history import Manifest
from safekept.keeper.pages import Entry, packed_pages
from safekept.keeper.room import Put
from safekept.keeper.store import KeeperLimits, KeeperStore
from support.commands.waiting import wait_until
from support.places import CHECKOUT

#: Users without a name, whom the kernel tells apart all the same.
FIRST, SECOND = 61_001, 61_002
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from safekept.__main__ import main; main()"


class RunningKeeper:
    """Its store, its socket and its process; as root it becomes `nobody`."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.store = os.path.join(place, "store")
        self.socket = os.path.join(place, "run", "socket")
        self._process: subprocess.Popen[bytes] | None = None
        os.mkdir(os.path.join(place, "run"), 0o755)

    def limit(self, quota: int, keep_days: float = 30.0) -> None:
        os.makedirs(self.store, exist_ok=True)
        KeeperStore(self.store).set_limits(KeeperLimits(quota, keep_days))
        if os.geteuid() == 0:
            os.chmod(os.path.join(self.store, "settings.json"), 0o644)

    def start(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        words = ["keeper", "serve", "--store", self.store, "--socket", self.socket, "--user", "nobody"]
        self._process = subprocess.Popen(self._line(words), env=self._environment())
        wait_until(lambda: os.path.exists(self.socket), "the keeper's socket")

    def command(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """One more `safekept`, beside the keeper that runs."""
        return subprocess.run(
            self._line(words), env=self._environment(), capture_output=True, text=True, timeout=300
        )

    def _line(self, words: list[str]) -> list[str]:
        return [sys.executable, "-I", "-c", _START, os.path.join(CHECKOUT, "src"), *words]

    def _environment(self) -> dict[str, str]:
        return {"HOME": self.place, "PATH": os.environ["PATH"], "SAFEKEPT_HELPER": "0"}

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)

    def forget(self) -> None:
        """Every room, as if nobody had ever sent anything."""
        shutil.rmtree(os.path.join(self.store, "rooms"))

    def processor_seconds(self) -> float:
        """Of it, and of the processes that served callers and have ended."""
        assert self._process is not None
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def count(self) -> int:
        """How many objects there are."""
        return sum(len(names) for _, _, names in os.walk(os.path.join(self.store, "rooms")))

    def files(self) -> dict[str, bytes]:
        """Every object of every room."""
        found = {}
        for parent, _, names in os.walk(os.path.join(self.store, "rooms")):
            for name in names:
                if len(name) == 64:
                    with open(os.path.join(parent, name), "rb") as file:
                        found[os.path.relpath(os.path.join(parent, name), self.store)] = file.read()
        return found


@contextlib.contextmanager
def running_keeper() -> Iterator[RunningKeeper]:
    assert has_packets(), "a keeper needs packets on a local socket"
    place = tempfile.mkdtemp(prefix="safekept-keeper-", dir=_reachable())
    os.chmod(place, 0o755)
    keeper = RunningKeeper(place)
    try:
        yield keeper
    finally:
        keeper.stop()
        shutil.rmtree(place)


def _reachable() -> str:
    """Where every user can go; in memory where there is some."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def store_all(keeper: Keeper, files: dict[str, bytes]) -> Manifest:
    """A whole transfer: these files are the stores now; what the keeper answers."""
    contents = {name_of(data): data for data in files.values()}
    assert keeper.put_bytes(contents) == []
    entries = [Entry(path, ((name_of(data), len(data)),)) for path, data in files.items()]
    pages, root = packed_pages(entries)
    assert keeper.put_bytes(pages) == []
    return keeper.commit(root)


def read_all(keeper: Keeper, name: str) -> bytes:
    descriptor = keeper.get(name)
    with open(descriptor, "rb") as file:
        return file.read()


def passed(data: bytes, name: str = "") -> tuple[Put, int]:
    """Bytes as a caller passes them; under another name than theirs where one is given."""
    descriptor = os.memfd_create("test")
    os.write(descriptor, data)
    return Put(name or name_of(data), 0, len(data)), descriptor
