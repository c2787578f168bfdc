"""What is opened is no link that somebody put there, and nothing at which opening waits.

Every place in the code that opens a file by its name is looked at. One of these holds, or the place has a
reason below: the flags say `O_NOFOLLOW`; this very call makes the file (`O_EXCL`), which follows no link
either; it is the kernel's own (`/proc`, `/sys`, `/dev`). What belongs to others is read by
`core/files/small.py`, which never waits.
"""

from __future__ import annotations

import ast
import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from support.places import CHECKOUT

SOURCE = os.path.join(CHECKOUT, "src", "safekept")
#: Why such a call is right, and how many of them a file has.
REASONS = {
    "our own directories, 0700: root refuses those of somebody else (`places-of-another`)": {
        "actions/hosts/connections.py": 1,
        "actions/page/known_projects.py": 1,
        "actions/status/findings/doctor_memory.py": 1,
        "actions/status/project_summaries.py": 2,
        "actions/undo/changes.py": 1,
        "checkpoints/points/readonly_view.py": 6,
        "checkpoints/points/rollback_plan.py": 2,
        "checkpoints/scan/cache.py": 2,
        "checkpoints/scan/hidden_folders.py": 1,
        "checkpoints/scan/kept_hidden.py": 1,
        "checkpoints/scan/trust.py": 2,
        "checkpoints/store/damage.py": 2,
        "checkpoints/store/refs.py": 5,
        "checkpoints/store/repositories/own_repository.py": 1,
        "checkpoints/store/repositories/taking.py": 1,
        "checkpoints/store/repository.py": 1,
        "checkpoints/store/store.py": 3,
        "checkpoints/take/named.py": 2,
        "checkpoints/upkeep/dropping.py": 3,
        "checkpoints/upkeep/inventory.py": 1,
        "checkpoints/upkeep/maintenance.py": 1,
        "checkpoints/upkeep/size.py": 1,
        "checkpoints/upkeep/tidy.py": 1,
        "core/journal.py": 1,
        "core/objects/rclone/process.py": 2,
        "core/sqlite/fold.py": 2,
        "home/landing/stage/proving.py": 1,
        "integrations/helper/client.py": 1,
        "integrations/helper/server.py": 1,
        "integrations/hosts/answers.py": 2,
        "keeper/room.py": 1,
        "vault/repo/index_cache.py": 1,
        "vault/snapshots.py": 1,
        "vault/write/cache_file.py": 1,
    },
    "the root of a store, as a directory and only to lock it: a setting may name it by a link": {
        "core/files/belt.py": 2,
    },
    "named by whoever runs the command, who may mean a link, and for keys a pipe": {
        "actions/vault/keys/key_file.py": 1,
        "archive/container/handle.py": 1,
        "archive/sealing/identities.py": 1,
        "archive/sealing/seal.py": 1,
        "cli/sealing.py": 1,
        "home/scan/walk.py": 2,
    },
    "the caller says whether a link is followed, and what was opened is looked at": {
        "cli/report_file.py": 1,
        "core/files/small.py": 1,
        "core/files/tree.py": 1,
    },
    "a directory that is only synced or emptied by names of ours": {
        "core/files/durable.py": 1,
        "core/platform/syncing.py": 1,
        "home/landing/swap/moving.py": 1,
    },
    "what safekept ships, or the demo made a moment ago": {
        "cli/commands/demo/demo.py": 7,
        "cli/commands/demo/home.py": 1,
        "core/files/remakeable.py": 1,
        "integrations/hermes/install.py": 2,
        "ui/rendering.py": 1,
    },
    "the system's own, below a directory that a test may name": {
        "actions/offsite/this_machine.py": 2,
        "core/platform/processes.py": 2,
        "schedule/machine.py": 1,
    },
    "a file without a name, in memory": {"keeper/client.py": 1},
    "links are copied as links, and a pipe is refused by the library": {"checkpoints/hermes/legacy.py": 1},
}
KERNEL = ("/proc/", "/sys/", "/dev/")
BY_MODULE = {
    ("os", "open"), ("io", "open"), ("codecs", "open"),
    ("shutil", "copyfile"), ("shutil", "copy"), ("shutil", "copy2"), ("shutil", "copytree"),
}  # fmt: skip
BY_NAME = {"read_text", "read_bytes", "write_text", "write_bytes"}
#: Without one of these a file opens nothing.
WORDS = ("open(", "shutil.copy", *BY_NAME)


class Module:
    """One file of the source, and the calls in it that open something by a name."""

    def __init__(self, text: str, path: str = "") -> None:
        self.path, self.tree = path, ast.parse(text)
        self.assigned: dict[str, list[ast.expr]] = {}
        self.imported: dict[str, ast.ImportFrom] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.assigned.setdefault(target.id, []).append(node.value)
            elif isinstance(node, ast.ImportFrom):
                self.imported |= {one.asname or one.name: node for one in node.names}
        self.constants = {
            target.id: node.value
            for node in self.tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def followers(self) -> list[int]:
        """The lines of calls that would follow a link, or wait at a pipe."""
        return [
            node.lineno for node in ast.walk(self.tree) if isinstance(node, ast.Call) and self._follows(node)
        ]

    def _follows(self, call: ast.Call) -> bool:
        function = call.func
        if isinstance(function, ast.Name) and function.id == "open":
            return not (self._is_descriptor(call.args[0]) or self._is_the_kernels(call.args[0]))
        if not isinstance(function, ast.Attribute):
            return False
        if function.attr in BY_NAME:
            return True
        module = function.value.id if isinstance(function.value, ast.Name) else ""
        if (module, function.attr) not in BY_MODULE or self._is_the_kernels(call.args[0]):
            return False
        if (module, function.attr) != ("os", "open"):
            return True
        # Each of the values that the flags may have must do, and not only one of them.
        return not all(_safe(flags) for flags in self._flags(call.args[1]))

    def _flags(self, node: ast.expr, depth: int = 0) -> list[set[str]]:
        """What an expression of flags is made of; several, where a name has several values."""
        if isinstance(node, ast.Name) and depth < 4:
            if node.id in self.assigned:
                return [one for value in self.assigned[node.id] for one in self._flags(value, depth + 1)]
            if node.id in self.imported and (module := self._module(self.imported[node.id])):
                return module._flags(node, depth + 1)
        if isinstance(node, ast.BinOp):
            left, right = self._flags(node.left, depth), self._flags(node.right, depth)
            return [one | two for one in left for two in right]
        if isinstance(node, ast.IfExp):
            # Where the value is None, nothing is opened with it.
            values = [one for one in (node.body, node.orelse) if ast.unparse(one) != "None"]
            return [flags for one in values for flags in self._flags(one, depth)]
        return [{node.attr}] if isinstance(node, ast.Attribute) else [set()]

    def _module(self, node: ast.ImportFrom) -> Module | None:
        if node.level:
            base = os.path.dirname(self.path)
            for _ in range(node.level - 1):
                base = os.path.dirname(base)
            parts = (node.module or "").split(".")
        elif (node.module or "").startswith("safekept."):
            base, parts = SOURCE, (node.module or "").split(".")[1:]
        else:
            return None
        path = os.path.join(base, *filter(None, parts)) + ".py"
        return read_module(path) if os.path.isfile(path) else None

    def _is_the_kernels(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.constants and self._is_the_kernels(self.constants[node.id])
        if isinstance(node, ast.JoinedStr) and node.values:
            return self._is_the_kernels(node.values[0])
        if isinstance(node, ast.FormattedValue):
            return self._is_the_kernels(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr == "devnull"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return f"{node.value}/".startswith(KERNEL) or node.value in ("/", ".")
        return False

    def _is_descriptor(self, node: ast.expr) -> bool:
        """Whether a name is given a value by `os.open` and in no other way."""
        values = self.assigned.get(node.id, []) if isinstance(node, ast.Name) else []
        return bool(values) and all(
            isinstance(value, ast.Call) and ast.unparse(value.func) == "os.open" for value in values
        )


def _safe(flags: set[str]) -> bool:
    return "O_NOFOLLOW" in flags or {"O_CREAT", "O_EXCL"} <= flags


@cache
def read_module(path: str) -> Module:
    with open(path, encoding="utf-8") as file:
        return Module(file.read(), path)


def test_every_open_that_could_be_led_elsewhere_has_a_reason():
    found: Counter[str] = Counter()
    lines = {}
    for directory, _, names in os.walk(SOURCE):
        for name in (name for name in names if name.endswith(".py")):
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, SOURCE)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if not any(word in text for word in WORDS):
                continue
            lines[relative] = read_module(path).followers()
            found[relative] = len(lines[relative])
    known = Counter({name: count for files in REASONS.values() for name, count in files.items()})
    assert len(known) == sum(len(files) for files in REASONS.values()), "one file, one reason"
    assert not found - known, {name: lines[name] for name in found - known}
    assert not known - found, f"fewer than the list says: shorten it: {known - found}"


@pytest.mark.parametrize(
    "line",
    [
        "open(path)",
        "open(path, 'rb')",
        "os.open(path, os.O_RDONLY | os.O_CLOEXEC)",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)",
        "flags = os.O_RDONLY; os.open(path, flags)",
        "flags = os.O_NOFOLLOW\nflags = os.O_RDONLY\nos.open(path, flags)",
        "from safekept.core.files.durable import NOT_THERE\nos.open(path, NOT_THERE)",
        "os.open(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW))",
        "pathlib.Path(path).read_text()",
        "place.read_bytes()",
        "shutil.copyfile(one, two)",
        "io.open(path)",
        "path = '/proc/self/stat'\npath = given\nopen(path)",
        "def one():\n    path = '/proc/self/stat'\ndef two(path):\n    open(path)",
        "descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)\ndescriptor = given\nopen(descriptor)",
    ],
)
def test_an_open_that_follows_is_found(line: str):
    assert Module(f"import os\n{line}\n").followers()


@pytest.mark.parametrize(
    "line",
    [
        "os.open(path, os.O_RDONLY | os.O_NOFOLLOW)",
        "os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)",
        "FLAGS = os.O_RDONLY | os.O_NOFOLLOW\nos.open(path, FLAGS | os.O_DIRECTORY)",
        "from safekept.core.files.stable import READ\nos.open(path, READ)",
        "open(f'/proc/{number}/stat', 'rb')",
        "TABLE = '/proc/self/mountinfo'\nopen(TABLE)",
        "descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)\nopen(descriptor)",
        "os.open(os.devnull, os.O_RDWR)",
        "self.open(path)",
        "os.fdopen(descriptor)",
    ],
)
def test_an_open_that_follows_nothing_is_passed(line: str):
    assert not Module(f"import os\n{line}\n").followers()


def _keys(place: str) -> object:
    from safekept.actions.vault.keys.keys import keys_from_outside

    os.mkdir(f"{place}/keys")
    os.mkfifo(f"{place}/keys/{'ab' * 32}")
    return keys_from_outside(place)


def _hermes_store(place: str) -> object:
    from safekept.checkpoints.hermes.store import Foreign

    os.makedirs(f"{place}/refs/hermes")
    for name in ("HEAD", "packed-refs", "refs/hermes/x"):
        os.mkfifo(f"{place}/{name}")
    foreign = Foreign(place)
    return foreign.head() or foreign.refs()


def _loose_object(place: str) -> object:
    from safekept.checkpoints.store.object_store import ObjectStore
    from safekept.checkpoints.store.objects import BadObject

    os.makedirs(f"{place}/ab")
    os.mkfifo(f"{place}/ab/{'ab' * 19}")
    with pytest.raises(BadObject, match="not a regular file"):
        ObjectStore(place).read_as(b"commit", bytes.fromhex("ab" * 20))
    return None


def _destination(place: str) -> object:
    from safekept.core.errors import SafekeptError
    from safekept.core.objects import open_objects

    os.mkfifo(f"{place}/config")
    os.symlink("/etc/hostname", f"{place}/link")
    objects = open_objects(f"file:{place}", environment={})
    for name in ("config", "link"):
        with pytest.raises(SafekeptError, match="not a regular file"):
            objects.read(name)
    return None


def _plugin(place: str) -> object:
    from safekept.integrations.hermes.plugin.link import read_document

    os.mkfifo(f"{place}/connection.json")
    return read_document(f"{place}/connection.json")


def _archive_to_send(place: str) -> object:
    from safekept.actions.offsite.archive_fitness import NotAnArchiveFile, refuse_unfit

    os.mkfifo(f"{place}/a.zip")
    with pytest.raises(NotAnArchiveFile, match="not a regular file"):
        refuse_unfit(f"{place}/a.zip")
    return None


def _settings_of_an_agent(place: str) -> object:
    from safekept.actions.hosts.connections import _has_ours

    os.mkfifo(f"{place}/settings.json")
    return _has_ours(f"{place}/settings.json")


PIPES = (
    _keys, _hermes_store, _loose_object, _destination, _plugin, _archive_to_send, _settings_of_an_agent,
)  # fmt: skip


@pytest.mark.parametrize("read", PIPES, ids=lambda read: read.__name__.strip("_"))
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path, read: Callable[[str], object]):
    def waits(*_: object) -> None:
        raise AssertionError("it waits at the pipe")

    before = signal.signal(signal.SIGALRM, waits)
    signal.alarm(30)
    try:
        assert not read(str(tmp_path))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
