# ruff: noqa: E501
"""What is fuzzed of services and their records: the keeper at both ends, a REST server, the page, marks."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import socket
import tempfile
import threading
import types
import zlib
from collections.abc import Callable
from typing import Any

from safekept.core.errors import SafekeptError
from support.fuzz.inputs import Maker, Target, bytes_of, changed_bytes, lines_of, values_of

NAME = hashlib.sha256(b"kept").hexdigest()


def keeper_target(directory: str) -> Target:
    """What a caller sends to the keeper, with one file beside it: answered, whatever it is."""
    from safekept.keeper import serving
    from safekept.keeper.store import KeeperLimits, KeeperStore
    from safekept.keeper.wire import MAX_PACKET, new_socket

    # Its own deadline is the alarm of the process, which here is the fuzz run's.
    serving.signal = types.SimpleNamespace(alarm=lambda seconds: 0)  # type: ignore[assignment]
    store = KeeperStore(os.path.join(directory, "store"))
    store.make()
    store.set_limits(KeeperLimits(50 << 20, 30.0))
    path = os.path.join(directory, "socket")
    questions: list[dict[str, Any]] = [
        {"do": "put", "objects": [[NAME, 0, 4]]},
        {"do": "hello"},
        {"do": "missing", "names": [NAME, "0" * 64]},
        {"do": "get", "name": NAME},
        {"do": "commit", "root": NAME},
        {"do": "manifests", "before": 5},
        {"do": "rooms"},
        {"do": "acknowledge", "user": 61001},
    ]

    def take(data: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        descriptor = os.memfd_create("fuzz")
        with new_socket() as listener, new_socket() as caller, open(descriptor, "wb") as file:
            file.write(b"kept")
            file.flush()
            listener.bind(path)
            listener.listen(1)
            caller.connect(path)
            connection = listener.accept()[0]
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_PACKET)
            with connection, contextlib.suppress(OSError):
                socket.send_fds(caller, [data], [descriptor])
                caller.shutdown(socket.SHUT_WR)
                serving.Questions(store, connection, 61001, lambda: 5.0).run()
                connection.close()
                assert isinstance(json.loads(caller.recv(2 * MAX_PACKET) or b"{}"), dict)

    return Target(values_of(*questions), take, ())


def keeper_answers_target(directory: str) -> Target:
    """What somebody answers in the keeper's place."""
    from safekept.actions.keeper.held import look_at_keeper
    from safekept.actions.keeper.keeper_status import keeper_status
    from safekept.keeper import client
    from safekept.keeper.wire import MAX_PACKET, new_socket
    from support.users.contexts import throwaway

    client._BUSY = 0  # type: ignore[misc]  # asked again for half a minute otherwise
    path, given = os.path.join(directory, "socket"), [b""]
    listener = new_socket()
    listener.bind(path)
    listener.listen(50)

    def serve() -> None:
        while True:
            connection = listener.accept()[0]
            with connection, contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_PACKET)
                for _ in range(30):
                    if not connection.recv(2 * MAX_PACKET):
                        break
                    connection.send(given[0])

    threading.Thread(target=serve, daemon=True).start()
    manifest = {
        "number": 1,
        "time": 5.0,
        "root": NAME,
        "files": 1,
        "bytes": 4,
        "points": 1,
        "shrunk": False,
    }
    alarm = {"pinned": 0, "since": 0.0, "acknowledged": 0, "full": 0.0}
    answer = {
        "used": 5,
        "quota": 50,
        "keep_days": 30.0,
        "manifests": 1,
        "newest": {**manifest, "confirmed": 5.0},
        "alarm": alarm,
        "missing": [NAME],
        "refused": [],
    }
    listed = {**answer, "manifests": [{**manifest, "confirmed": 5.0}]}
    context = throwaway(directory, keeper_socket=path)

    def take(data: bytes) -> None:
        given[0] = data
        keeper_status(context)
        for work in (
            lambda: look_at_keeper(context),
            lambda: client.Keeper(path, 2.0).manifests(),
            lambda: client.Keeper(path, 2.0).missing([NAME]),
            lambda: client.Keeper(path, 2.0).put_bytes({NAME: b"kept"}),
            lambda: client.Keeper(path, 2.0).get(NAME),
            lambda: client.Keeper(path, 2.0).commit(NAME),
        ):
            with contextlib.suppress(SafekeptError):
                work()

    return Target(values_of(answer, listed, {"error": "full", "text": "no"}), take, (), sample=60)


def keeper_pages_target(directory: str) -> Target:
    """Manifests and their pages, and where each of their files would be put."""
    from safekept.actions.keeper.stores import Stores
    from safekept.keeper.pages import BadManifest, read_page, read_root

    places = [
        os.path.join(directory, name) for name in ("data", "cache", "vault", "store", "key", "settings")
    ]
    stores = Stores("", *places)
    rows = [
        ["vault/config", [[NAME, 4]]],
        ["own/vault.key", "a2VwdA=="],
        ["checkpoints/refs/a/b", "a2VwdA=="],
    ]
    documents: list[Any] = [rows, [NAME, NAME]]
    values = values_of(*documents)
    honest = tuple(zlib.compress(one) for one in values.honest)

    def change(source: random.Random) -> bytes:
        if source.random() < 0.3:
            return changed_bytes(source, honest)
        return zlib.compress(values(source))

    def take(data: bytes) -> None:
        try:
            for entry in read_page(data):
                place = stores.place(entry.path)
                assert not place or os.path.normpath(place).startswith(directory), place
        except BadManifest:
            read_root(data)

    return Target(Maker(change, honest), take, (BadManifest,))


def hidden_target(directory: str) -> Target:
    """The records of hidden halves: which looks are kept, and what a look saw."""
    from safekept.checkpoints.checkpoint import Checkpoint
    from safekept.checkpoints.scan import HiddenFolders, KeptHidden
    from safekept.checkpoints.scan.kept_hidden import NAME as LINES

    look = {
        "look": NAME,
        "snapshot": NAME,
        "time_ns": 7,
        "since_ns": 3,
        "files": 1,
        "bytes": 5,
        "moved": ["a"],
    }
    points = [
        Checkpoint("a", directory, 5, "before", "", "", "", "", True, 1, 0, hidden) for hidden in ("", NAME)
    ]

    def take(data: bytes) -> None:
        for name in (LINES, "hidden"):
            with open(os.path.join(directory, name), "wb") as file:
                file.write(data)
        kept = KeptHidden(directory)
        for point in points:
            found = kept.of(point)
            if found is not None:
                json.dumps(found.as_dict())
        HiddenFolders.load(directory)

    return Target(lines_of(look, {**look, "look": "b", "since_ns": 5, "time_ns": 9}), take, ())


def marks_target(directory: str) -> Target:
    """Marks under the vault's seal, of whoever has its key."""
    from safekept.vault.marks import marks_in
    from safekept.vault.repo.repository import Repository
    from safekept.vault.repo.sealed_files import save_file
    from safekept.vault.snapshots import list_snapshots
    from safekept.vault.storage import FileKind, LocalStorage
    from support.vault.vaults import SECRET, new_vault, save_files, some_files

    place = os.path.join(directory, "vault")
    with new_vault(LocalStorage(place)) as vault, vault.lock() as lock:
        save_files(vault, some_files(1, count=1), lock=lock)
        snapshot = list_snapshots(vault)[0][0].id
    mark = {"version": 1, "snapshot": snapshot, "mark": "pin", "value": "x", "time": "2026-01-02T03:04:05Z"}

    def take(data: bytes) -> None:
        storage = LocalStorage(place)
        data = data or b" "  # our own writer stores nothing that is empty
        with Repository.open(storage, SECRET) as vault:
            name = save_file(storage, vault.key, FileKind.MARK, data)
            found = marks_in(storage, vault.key)
            found.on(list_snapshots(vault)[0])
            storage.delete(FileKind.MARK, name)

    return Target(values_of(mark, {**mark, "value": None}), take, sample=40)


def rest_target(directory: str) -> Target:
    """What a REST server answers, byte for byte."""
    from safekept.core.objects import Options, open_objects
    from safekept.core.objects.base import NotThere

    given = [b""]
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)

    def serve() -> None:
        while True:
            connection = listener.accept()[0]
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5.0)
                connection.recv(65536)
                connection.sendall(given[0])
                connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=serve, daemon=True).start()
    listing = json.dumps([{"name": NAME, "size": 5}]).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.x.restic.rest.v2\r\nContent-Length: "
    seeds = [
        head + str(len(listing)).encode() + b"\r\n\r\n" + listing,
        head + b"4\r\n\r\nkept",
        b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-3/4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nkept\r\n0\r\n\r\n",
        b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
    ]
    url = f"rest:http://127.0.0.1:{listener.getsockname()[1]}/there"
    options = Options(timeout=1.0, patience=0.0)

    def take(data: bytes) -> None:
        given[0] = data
        with contextlib.closing(open_objects(url, environment={"HOME": directory}, options=options)) as place:
            for work in (
                lambda: list(place.list("")),
                lambda: place.read("config", 1, 2),
                lambda: place.size("config"),
                lambda: b"".join(place.stream(f"data/{NAME}")),
            ):
                with contextlib.suppress(SafekeptError, NotThere):
                    work()

    return Target(bytes_of(*seeds), take, (), sample=40)


def page_target(directory: str) -> Target:
    """What a browser asks of the page, by somebody who has its cookie: never an answer that nobody foresaw."""
    from safekept.ui.admission import Admission, PageAddress
    from safekept.ui.application import PLANS, READS, make_application
    from safekept.ui.visit import PageOffice
    from safekept.ui.watching import PageWatch
    from support.commands.in_process import run_here
    from support.home.homes import make_hermes_home

    os.environ["HOME"] = directory
    tempfile.tempdir = os.path.join(directory, "tmp")
    os.mkdir(tempfile.tempdir)
    for name in [one for one in os.environ if one.startswith(("XDG_", "SAFEKEPT_", "HERMES_"))]:
        del os.environ[name]
    make_hermes_home(os.path.join(directory, ".hermes"), profiles=(), awkward=False)
    taken = run_here("snapshot", environment=dict(os.environ), directory=directory)
    assert taken.returncode == 0, taken.stderr
    admission = Admission(PageAddress("http", "127.0.0.1:5"))
    app = make_application(PageOffice(admission, PageWatch(), allow_changes=True), lambda: None)
    cookie = admission.cookie_header.partition(";")[0].encode()
    paths = sorted({*READS, *PLANS, "/static/x", "/open/x", "/do/restore"})
    words = b"home=.hermes&path=SOUL.md&id=latest&project=/&point=1&page=2&before=5&kind=home&name=a%2Fb&to=1"

    def change(source: random.Random) -> bytes:
        return bytes([source.randrange(len(paths))]) + changed_bytes(source, [words])

    def take(data: bytes) -> None:
        path = paths[data[0] % len(paths)]
        head = [(b"host", b"127.0.0.1:5"), (b"cookie", cookie)]
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": ""}
        scope |= {"query_string": data[1:], "headers": head, "http_version": "1.1", "scheme": "http"}
        answers: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            answers.append(message)

        asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
        body = b"".join(one.get("body", b"") for one in answers)
        assert answers[0]["status"] < 500, (path, body[-3000:])

    return Target(Maker(change, (b"\0",)), take, (), sample=40)


SERVICES: dict[str, Callable[[str], Target]] = {
    "keeper": keeper_target,
    "keeper-answers": keeper_answers_target,
    "keeper-pages": keeper_pages_target,
    "hidden": hidden_target,
    "marks": marks_target,
    "rest": rest_target,
    "page": page_target,
}
