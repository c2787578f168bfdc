# ruff: noqa: E501
"""What is fuzzed: everything that reads what somebody else may have written.

A target makes inputs out of honest ones and gives each to the code as a user's files would reach it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import shutil
import struct
import tarfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from safekept.archive.sealing.seal import NO_IDENTITY, Identity
from safekept.core.entries import EntryLost, Kind
from safekept.core.errors import SafekeptError
from support.archives import bad_archives
from support.fuzz.inputs import Maker, Target, bytes_of, changed_bytes, lines_of, values_of
from support.fuzz.services import SERVICES
from support.vault.closed import open_below


def _archive(data: bytes, path: str, identity: Identity = NO_IDENTITY) -> None:
    from safekept.archive import open_archive

    with open(path, "wb") as file:
        file.write(data)
    with open_archive(path, identity=identity) as archive:
        for entry in archive:
            if entry.kind is Kind.FILE and entry.size < 50 << 20:
                with entry.open() as content:
                    for _ in content.chunks():
                        pass
        archive.finish()


def _written(directory: str, form: str) -> bytes:
    """An archive that safekept itself writes."""
    from safekept.archive.writing import write_archive
    from safekept.core.entries import BytesContent, Entry
    from support.home.entry_list import EntryList

    def file(path: str, data: bytes) -> Entry:
        return Entry(
            path, Kind.FILE, 0o600, 1_700_000_000_000_000_000, len(data), open=lambda: BytesContent(data)
        )

    entries = [file(name, data) for name, data in bad_archives.GOOD.items()]
    entries += [
        Entry("skills", Kind.DIRECTORY, 0o700, 0),
        Entry("link", Kind.SYMLINK, 0o777, 0, target="SOUL.md"),
    ]
    entries += [file("skills/large", os.urandom(3000) + bytes(1_500_000))]
    path = os.path.join(directory, f"seed.{form}")
    write_archive(EntryList(entries), path, form=form, head={"layout": "hermes"}, closing=dict)
    with open(path, "rb") as opened:
        return opened.read()


def _seed(directory: str, name: str, maker: Callable[[str], object]) -> bytes:
    path = os.path.join(directory, name)
    maker(path)
    with open(path, "rb") as file:
        return file.read()


def zip_target(directory: str) -> Target:
    seeds = [_written(directory, "zip"), _seed(directory, "plain.zip", bad_archives.good_zip)]
    seeds.append(_seed(directory, "stored.zip", _stored_zip))
    return Target(bytes_of(*seeds), functools.partial(_archive, path=os.path.join(directory, "a.zip")))


def _stored_zip(path: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in bad_archives.GOOD.items():
            archive.writestr(name, data)
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "SOUL.md")


def tar_target(directory: str) -> Target:
    seeds = [_written(directory, "tar.zst")]
    link = bad_archives.link("skills/l", "../SOUL.md")
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
            for name, data in {**bad_archives.GOOD, "skills/" + "n" * 90 + ".md": b"x" * 700}.items():
                info = tarfile.TarInfo(name)
                info.size, info.mtime = (
                    len(data),
                    1_700_000_000.5 if form == tarfile.PAX_FORMAT else 1_700_000_000,
                )
                archive.addfile(info, io.BytesIO(data))
            archive.addfile(link)
        seeds.append(buffer.getvalue())
    return Target(bytes_of(*seeds), functools.partial(_archive, path=os.path.join(directory, "a.tar")))


HEAD = {
    "format": "safekept-archive",
    "version": 1,
    "id": "x",
    "layout": "hermes",
    "complete": True,
    "damaged": [],
    "lost": ["a"],
    "counts": {"files": 1},
    "remarks": [{"path": "a", "outcome": "noted", "reason": "b", "files": 0, "bytes": 0}],
    "entries": {"member": ".safekept/entries.jsonl", "size": 5, "sha256": "0" * 64},
}
LINE = {"path": "a/b", "kind": "file", "mode": "0600", "mtime_ns": 5, "size": 2_000_000, "sha256": "0" * 64}


def manifest_target(directory: str) -> Target:
    from safekept.archive.container.manifest import check_entries, parse_head

    def take(data: bytes) -> None:
        check_entries("a.zip", parse_head("a.zip", data), 5, "0" * 64)

    return Target(values_of(HEAD), take)


def entries_target(directory: str) -> Target:
    from safekept.archive.container.limits import ArchiveNames, ReadLimits, check_target, clean_name
    from safekept.archive.container.manifest import parse_records

    def take(data: bytes) -> None:
        book = ArchiveNames("a.zip", ReadLimits())
        for record in parse_records(
            "a.zip", (data[at : at + 4096] for at in range(0, len(data), 4096)), 1000
        ):
            book.add(clean_name("a.zip", record.path, own=True), record.kind)
            if record.kind is Kind.SYMLINK:
                check_target("a.zip", record.path, record.target)
            record.database_facts
            record.line()
        book.close()

    link = {"path": "l", "kind": "symlink", "mode": "0777", "mtime_ns": 5, "target": "a"}
    database = {
        **LINE,
        "path": "s.db",
        "database": {"state": "sound", "lean": {"tables": [{"table": "x"}], "bytes": 4}},
    }
    return Target(lines_of(LINE, link, {**LINE, "path": "c", "pieces": [400, 500]}, database), take)


def landing_target(directory: str) -> Target:
    """A landing that was cut short, as its record says; what it names lies in the directory."""
    from safekept.home.landing import recover

    home = os.path.join(directory, "user", ".hermes")
    area = os.path.join(directory, "user", ".hermes.safekept", "landings")
    steps = [
        {
            "number": 0,
            "do": "put",
            "root": 0,
            "path": ".hermes/SOUL.md",
            "entry": "SOUL.md",
            "had": True,
            "staged": "0",
        },
        {"number": 1, "do": "away", "root": 0, "path": ".hermes/a", "entry": "a", "had": True},
        {"number": 2, "do": "make", "root": 0, "path": ".hermes/skills", "entry": "skills"},
    ]
    head = {
        "format": "safekept-landing",
        "version": 1,
        "operation": "20261115-000000-abcdef",
        "home": home,
        "process": 1,
        "roots": [{"label": "home", "base": os.path.dirname(home), "name": ".hermes"}],
        "verb": "land",
        "undoes": "",
        "time": 1.0,
    }
    before = {"root": 0, "path": ".hermes", "mode": 448, "mtime_ns": 5}

    def take(data: bytes) -> None:
        shutil.rmtree(open_below(os.path.join(directory, "user")), ignore_errors=True)
        place = os.path.join(area, "20261115-000000-abcdef")
        os.makedirs(os.path.join(place, "staged"), mode=0o700)
        os.makedirs(home, mode=0o700)
        for name in ("SOUL.md", "a"):
            with open(os.path.join(home, name), "w") as file:
                file.write("mine\n")
        # What is in the way leads outside, as far as anybody would follow it.
        os.symlink(outside, os.path.join(home, "link"))
        for name in ("home/.hermes/a", "home/outside/secret", "home/.hermes/link/secret"):
            os.makedirs(os.path.dirname(os.path.join(place, "replaced", name)), mode=0o700, exist_ok=True)
            with open(os.path.join(place, "replaced", name), "w") as file:
                file.write("replaced\n")
        with open(os.path.join(place, "plan.jsonl"), "wb") as file:
            file.write(data)
        recover(home, 0.0)

    outside = os.path.join(os.path.dirname(directory), "outside")
    leading = [
        f"{up}outside/{name}" for up in ("", "../../", "../../../../") for name in ("secret", "precious")
    ]
    odd = [
        "/",
        directory,
        outside,
        f"{outside}/secret",
        *leading,
        ".hermes/link/secret",
        "link/precious",
        0,
        1,
        True,
    ]
    return Target(lines_of(head, before, *steps, odd=odd), take, sample=60)


def journal_target(directory: str) -> Target:
    from safekept.core.journal import Journal

    path = os.path.join(directory, "journal.jsonl")
    lines = [
        {
            "version": 1,
            "time": 5.0,
            "operation": "20261115-000000-abcdef",
            "verb": verb,
            "state": "done",
            "facts": {},
        }
        for verb in ("backup", "import", "snapshot")
    ]

    def take(data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)
        list(Journal(path).read())
        list(Journal(path).backwards("backup", "import"))

    return Target(lines_of(*lines), take)


def vault_target(directory: str) -> Target:
    """A vault of which one file is another: opened, listed, checked and read."""
    from safekept.vault.care.checking import check
    from safekept.vault.repo.repository import Repository
    from safekept.vault.snapshots import list_snapshots
    from safekept.vault.storage import LocalStorage
    from support.vault.vaults import SECRET, new_vault, read_files, save_files, some_files

    place = os.path.join(directory, "vault")
    with new_vault(LocalStorage(place)) as vault, vault.lock() as lock:
        save_files(vault, some_files(1, count=2), lock=lock)
    files = [
        os.path.join(base, name)
        for base, _, names in os.walk(place)
        for name in names
        if "reserve" not in name
    ]
    contents = []
    for path in sorted(files):
        os.chmod(path, 0o600)
        with open(path, "rb") as file:
            contents.append((path, file.read()))

    def change(source: random.Random) -> bytes:
        number = source.randrange(len(contents))
        return bytes([number]) + bytes_of(contents[number][1])(source)

    def take(data: bytes) -> None:
        path, honest = contents[data[0] % len(contents)]
        try:
            with open(path, "wb") as file:
                file.write(data[1:])
            with Repository.open(LocalStorage(place), SECRET) as vault:
                for one in list_snapshots(vault)[0]:
                    read_files(vault, one)
                check(vault, read_data=1.0)
        finally:
            with open(path, "wb") as file:
                file.write(honest)

    make = Maker(change, (b"\0" + contents[0][1],))
    return Target(make, take, (SafekeptError, EntryLost), sample=40)


def vault_documents_target(directory: str) -> Target:
    """What lies under the seal: index, tree, snapshot, lock, config and key files of whoever has the key."""
    from safekept.vault.format.config import BadConfig, Config
    from safekept.vault.format.snapshot import BadSnapshot, Snapshot
    from safekept.vault.format.tree import BadTree, decode_tree, find_node
    from safekept.vault.repo.index import BadIndex, decode_index
    from safekept.vault.repo.lock_file import LockFile

    name = "ab" * 32
    blob = {"id": name, "type": "data", "offset": 0, "length": 100, "uncompressed_length": 200}
    node = {
        "name": "a", "type": "file", "mode": 384, "mtime": "2026-01-02T03:04:05Z", "uid": 0, "gid": 0, "size": 5,
        "content": [name],
    }  # fmt: skip
    time = "2026-01-02T03:04:05.6Z"
    documents = [
        {"supersedes": [name], "packs": [{"id": name, "blobs": [blob, {**blob, "type": "tree"}]}]},
        {"nodes": [node, {**node, "name": "d", "type": "dir", "content": None, "subtree": name}]},
        {
            "time": time,
            "tree": name,
            "paths": ["/a"],
            "hostname": "h",
            "username": "u",
            "uid": 5,
            "tags": ["a"],
        },
        {
            "time": time,
            "exclusive": True,
            "hostname": "h",
            "username": "u",
            "pid": 5,
            "safekept": {"boot": "a"},
        },
        {"version": 2, "id": name, "chunker_polynomial": "25b468838dcb75"},
    ]

    def take(data: bytes) -> None:
        for parse in (
            decode_index,
            decode_tree,
            lambda text: find_node(text, "a"),
            lambda text: Snapshot.from_json(name, text),
            lambda text: LockFile.from_json(name, text).stale,
            Config.from_json,
        ):
            with contextlib.suppress(BadIndex, BadTree, BadSnapshot, BadConfig, SafekeptError):
                parse(data)

    return Target(values_of(*documents), take)


def hook_target(directory: str) -> Target:
    """What a host sends: answered, whatever it is."""
    from safekept.integrations.hosts import handle
    from support.hosts.recorded_hosts import HOSTS, conversations, filled_in, new_user, recorded

    user = new_user(directory, {"a.txt": "old\n"})
    events = [
        filled_in(step["event"], user.project) for name in conversations() for step in recorded(name)["steps"]
    ]
    values = values_of(*events)

    def change(source: random.Random) -> bytes:
        return bytes([source.randrange(len(HOSTS))]) + values(source)

    def take(data: bytes) -> None:
        answer = handle(HOSTS[data[0] % len(HOSTS)], data[1:], user.place(), user.project)
        assert answer.exit in (0, 1)

    make = Maker(change, tuple(b"\0" + one for one in values.honest[:3]))
    return Target(make, take, (), sample=40)


def sftp_target(directory: str) -> Target:
    """What an SFTP server answers, byte for byte."""
    from safekept.core.objects.base import NotThere
    from safekept.core.objects.sftp.connections import Host
    from safekept.core.objects.sftp.place import SftpObjects

    answers = os.path.join(directory, "answers")

    def packet(kind: int, body: bytes) -> bytes:
        return struct.pack(">IB", len(body) + 1, kind) + body

    def text(value: bytes) -> bytes:
        return struct.pack(">I", len(value)) + value

    attributes = struct.pack(">IQI", 5, 5, 0o100600)
    name = text(b"config") + text(b"-rw") + attributes
    seeds = []
    for second in (
        packet(105, struct.pack(">I", 1) + attributes),
        packet(102, struct.pack(">I", 1) + text(b"h")) + packet(104, struct.pack(">II", 2, 1) + name),
        packet(101, struct.pack(">II", 1, 2) + text(b"no") + text(b"")),
    ):
        seeds.append(packet(2, struct.pack(">I", 3) + text(b"fsync@openssh.com") + text(b"1")) + second)

    def take(data: bytes) -> None:
        with open(answers, "wb") as file:
            file.write(data)
        place = SftpObjects(
            Host("h"), "/there", environment={"PATH": os.environ["PATH"]}, timeout=1.0, lanes=1
        )
        place._command = ["cat", answers]
        for work in (lambda: list(place.list("")), lambda: place.read("config"), lambda: place.present()):
            with contextlib.suppress(SafekeptError, NotThere), contextlib.closing(place):
                work()

    return Target(bytes_of(*seeds), take)


def s3_target(directory: str) -> Target:
    """What an S3 server answers: a listing, an error, and the words of the library about either."""
    from safekept.core.objects import Options, open_objects
    from safekept.core.objects.base import NotThere
    from safekept.core.objects.s3.answers import explained, understood

    given: list[bytes] = [b""]

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = given[0][1:]
            self.send_response((200, 200, 200, 403, 404, 301)[given[0][0] % 6] if given[0] else 200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/xml")
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_PUT = do_DELETE = do_POST = do_GET

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    keys = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "HOME": directory,
        "PATH": os.environ["PATH"],
    }
    options = Options(endpoint=f"http://127.0.0.1:{server.server_port}", timeout=2.0, patience=0.0)
    objects = open_objects("s3://bucket/there", environment=keys, options=options)
    item = "<Contents><Key>there/config</Key><Size>5</Size><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>"
    listing = f'<?xml version="1.0"?><ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>{item}'
    error = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    seeds = [
        b"\0" + (listing + "</ListBucketResult>").encode(),
        b"\3" + error.encode(),
        b"\4" + error.encode(),
    ]

    def take(data: bytes) -> None:
        given[0] = data
        explained("s3://b", "read it", understood(OSError(data.decode("utf-8", "replace"))))
        for work in (
            lambda: list(objects.list("")),
            lambda: objects.read("config"),
            lambda: objects.size("config"),
        ):
            with contextlib.suppress(SafekeptError, NotThere):
                work()

    return Target(bytes_of(*seeds), take, sample=40)


def layout_target(directory: str) -> Target:
    from safekept.home.layout.layout_file import read_layout

    shipped = os.path.join(os.path.dirname(os.path.dirname(_module_file("safekept.home.layout"))), "layouts")
    seeds = []
    for name in sorted(os.listdir(shipped)):
        with open(os.path.join(shipped, name), "rb") as file:
            seeds.append(file.read())
    path = os.path.join(directory, "mine.toml")

    def take(data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)
        read_layout(path)

    return Target(bytes_of(*seeds), take)


def settings_target(directory: str) -> Target:
    """Our own settings file, and an agent's `config.yaml`."""
    from safekept.home.census import count_document
    from safekept.home.copies import read_updates
    from safekept.home.layout.rules import Count
    from safekept.settings import load_settings
    from safekept.settings.policies import with_hermes

    place = os.path.join(directory, ".config", "safekept")
    os.makedirs(place)
    environment = {"HOME": directory, "XDG_CONFIG_HOME": os.path.dirname(place)}
    plain = load_settings(environment)
    counts = [Count("settings", "yaml-leaves", ()), Count("jobs", "json", (), key="jobs")]
    toml = (
        b'[checkpoints]\nmax_snapshots = 5\nexclude = ["a"]\n\n[[destination]]\nname = "x"\nurl = "/tmp/x"\n'
    )
    yaml = b"updates:\n  pre_update_backup: full\n  backup_keep: 3\ncheckpoints: {max_snapshots: 5}\na: &a [1, *a]\n"

    def take(data: bytes) -> None:
        for path in (os.path.join(place, "config.toml"), os.path.join(directory, "config.yaml")):
            with open(path, "wb") as file:
                file.write(data)
        read_updates(directory)
        with_hermes(plain, directory)
        for count in counts:
            count_document(data, count)
        load_settings(environment)

    return Target(bytes_of(toml, yaml, json.dumps({"jobs": [{"id": 1}]}).encode()), take, taken=1)


def _module_file(name: str) -> str:
    import importlib

    found = importlib.import_module(name).__file__
    assert found is not None
    return found


def _sealed(
    directory: str, name: str, identity: Identity, seals: Sequence[Callable[[bytes], bytes]], sample: int
) -> Target:
    """The sealed bytes are changed, or what is inside, and whoever knows the public key sealed it."""
    inner = bytes_of(_written(directory, "zip"), _written(directory, "tar.zst"))
    honest = tuple(seal(data) for seal in seals for data in inner.honest)

    def change(source: random.Random) -> bytes:
        if source.random() < 0.3:
            return source.choice(seals)(inner(source))
        return changed_bytes(source, honest)

    take = functools.partial(_archive, path=os.path.join(directory, name), identity=identity)
    return Target(Maker(change, honest), take, sample=sample)


def age_target(directory: str) -> Target:
    """Sealed to a key, and with a passphrase of which a stranger says how much work it is."""
    from safekept.archive.sealing.age import file as age
    from safekept.archive.sealing.age import keys
    from safekept.archive.sealing.age.keys import AgeIdentity, AgeRecipient, Passphrase
    from support.archives.seals import PASSPHRASE, opener

    # A passphrase of age's own costs 256 MB, and up to 4 GB are allowed by design; here less, so that other
    # memory is seen.
    keys.WORK_LIMIT = 14
    mine = AgeIdentity.generate()
    path = os.path.join(directory, "key.txt")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{mine.text}\n")

    def seal(data: bytes, to: AgeRecipient | Passphrase) -> bytes:
        file_key, nonce = os.urandom(age.FILE_KEY), os.urandom(age.NONCE)
        payload, parts = (
            age.Payload(file_key, nonce),
            [data[at : at + age.CHUNK] for at in range(0, len(data), age.CHUNK)],
        )
        sealed = [payload.seal(n, part, last=n >= len(parts) - 1) for n, part in enumerate(parts or [b""])]
        return age.make_header([to.wrap(file_key)], file_key) + nonce + b"".join(sealed)

    seals = [functools.partial(seal, to=one) for one in (mine.recipient, Passphrase(PASSPHRASE, 10))]
    return _sealed(directory, "a.age", opener(path, passphrase=PASSPHRASE), seals, 60)


def openpgp_target(directory: str) -> Target:
    """Sealed to a key of gpg's, as bytes and as text; the keyring is that of whoever started this."""
    from support.archives.seals import Keyring, opener

    ring = Keyring(os.environ["GNUPGHOME"])
    words = ("--trust-model", "always", "--encrypt", "--recipient", ring.make("fuzz"))

    def seal(data: bytes, *more: str) -> bytes:
        return ring.run(*more, *words, input=data)

    seals = [seal, lambda data: seal(data, "--armor")]
    return _sealed(directory, "a.gpg", opener(environment=ring.environment), seals, 10)


TARGETS: dict[str, Callable[[str], Target]] = {
    "zip": zip_target,
    "tar": tar_target,
    "age": age_target,
    "openpgp": openpgp_target,
    "manifest": manifest_target,
    "entries": entries_target,
    "landing": landing_target,
    "journal": journal_target,
    "vault": vault_target,
    "vault-documents": vault_documents_target,
    "hook": hook_target,
    "sftp": sftp_target,
    "s3": s3_target,
    "layout": layout_target,
    "settings": settings_target,
    **SERVICES,
}
