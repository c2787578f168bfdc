"""The steps of a recording that are about a home: the vault, archives, and what came back from them."""

from __future__ import annotations

import os
import random
import shutil

from recorder import ARCHIVES, SECOND, VAULT, Recorder

from support.home.homes import make_chat_database, make_hermes_home
from support.users.fixed_place import HOME, PLACE, PROJECT, USER, change_database

CONFIG = """\
# Nothing here depends on the day on which it is used again.
[import]
keep_days = 36500
[checkpoints]
auto_prune = false
retention_days = 0
min_interval_hours = 876000.0
[backup]
output = "/srv/archives"
[schedule]
at = "03:30"
archives = "/srv/archives/scheduled"
[notify]
command = "/srv/bin/notice"
[[destination]]
name = "disk"
url = "file:/srv/disk"
same_disk = true
"""


def furnish(recorder: Recorder) -> None:
    place = recorder.place
    place.furnish()
    small_home(place.at(HOME), seed=1)
    place.put(f"{USER}/.config/safekept/config.toml", CONFIG, 0o600)
    for name, text in (
        ("pyproject.toml", "[project]\nname = 'thing'\n"),
        (".gitignore", "*.local\nbuild/\n"),
        ("main.py", "print('first')\n"),
        ("docs/guide.md", "# Guide\n"),
    ):
        recorder.write(name, text)
    os.symlink("main.py", place.at(f"{PROJECT}/link.py"))
    os.makedirs(place.at(ARCHIVES))
    os.makedirs(place.at(f"{PLACE}/disk"))


def small_home(path: str, seed: int) -> None:
    """A home with everything awkward in it, and little of everything else."""
    make_hermes_home(path, profiles=(), seed=seed)
    for name in ("plugins/diun/diun.db", "gateway.sock", "data/sparse.img", "logs/agent.log", "state.db"):
        os.unlink(os.path.join(path, name))
    for name in (
        "sessions/session-001.jsonl",
        "sessions/session-002.jsonl",
        "cron/output/job0/2026-06-01.md",
    ):
        os.unlink(os.path.join(path, name))
    database = os.path.join(path, "state.db")
    make_chat_database(database, random.Random(seed), sessions=4, messages=0)
    change_database(
        database,
        *(
            "insert into messages(session_id, role, content, timestamp)"
            f" values ('session-{number % 4}', 'user', 'message {number} of {seed}', {1_780_000_000})"
            for number in range(8)
        ),
    )


def snapshots(recorder: Recorder) -> None:
    do, ask = recorder.do, recorder.ask
    do("vault", "init")
    ids: dict[str, str] = {}
    for label, *words in (
        ("first",),
        ("quick", "--quick"),
        ("by the clock", "--kind", "scheduled"),
        ("without keys", "--no-secrets"),
        ("pinned",),
        ("let go",),
        ("let go for good", "--quick"),
        ("called back",),
    ):
        recorder.remember(label)
        ids[label] = ask("snapshot", "-l", label, *words)["id"]
    do("snapshot", "pin", ids["pinned"])
    do("snapshot", "pin", ids["first"], "--days", "30")
    do("snapshot", "pin", ids["first"], "--off")
    do("snapshot", "--kind", "pre-update", "--backup", code=(0, 3))
    do("snapshot", "--kind", "pre-migration", code=(0, 3))
    do("snapshot", "forget", ids["let go"], ids["called back"], "--yes")
    do("snapshot", "forget", ids["called back"], "--undo")
    do("snapshot", "forget", ids["let go for good"], "--yes")
    do("snapshot", "prune", "20", "--yes", code=(0, 3))
    do("vault", "prune", "--yes", code=(0, 3))
    do("snapshot", "adopt", code=(0, 3))
    for name in os.listdir(recorder.place.at(f"{HOME}/backups")):
        os.unlink(recorder.place.at(f"{HOME}/backups/{name}"))


def vault_care(recorder: Recorder) -> None:
    do, ask, place = recorder.do, recorder.ask, recorder.place
    do("vault", "check")
    do("vault", "check", "--read-data")
    index = os.path.join(place.at(VAULT), "index")
    lost = os.path.join(index, sorted(os.listdir(index))[0])
    os.unlink(lost)
    do("vault", "repair", "--yes", code=(0, 3))
    for name in ("recovery", "other"):
        place.put(f"{USER}/{name}.phrase", f"a {name} passphrase of the recording\n", 0o600)
    do("vault", "key", "add", "--recovery", "--passphrase-file", f"{USER}/recovery.phrase")
    other = ask("vault", "key", "add", "--passphrase-file", f"{USER}/other.phrase")
    do(
        "vault",
        "key",
        "remove",
        next(str(v) for k, v in other.items() if k in ("id", "key", "added")),
        "--yes",
    )
    do("vault", "kit", "-o", f"{PLACE}/kit")
    do("vault", "unlock")
    do("push", "disk", "--acknowledge-kit")
    do("pull", "disk", "--into", f"{PLACE}/pulled")
    key = f"{USER}/.config/safekept/vault.key"
    do("vault", "init", "--from", VAULT, "--key-file", key, "--yes", user=SECOND, cwd=SECOND)
    do("destinations", "test", "disk")
    shutil.rmtree(place.at(f"{PLACE}/pulled"))


def archives(recorder: Recorder) -> None:
    do, ask = recorder.do, recorder.ask
    keys = ask("backup", "keygen", "-o", f"{USER}/archive.key")
    recipient = next(str(value) for value in keys.values() if str(value).startswith("age1"))
    do("backup", "-o", f"{ARCHIVES}/plain.zip", "--exclude", "logs", code=(0, 3))
    do("backup", "-o", f"{ARCHIVES}/packed.tar.zst", "--format", "tar.zst", code=(0, 3))
    do("backup", "-o", f"{ARCHIVES}/sealed.tar.zst", "--format", "tar.zst", "--seal", recipient, code=(0, 3))
    for _ in range(2):
        do(
            "backup",
            "-o",
            f"{ARCHIVES}/rotated/",
            "--quick",
            "--format",
            "tar.zst",
            "--keep",
            "1",
            code=(0, 3),
        )
        recorder.remember("between two archives")


def landings(recorder: Recorder) -> None:
    """Homes that were changed: some of it taken back, some still to be."""
    do, place = recorder.do, recorder.place
    place.put(f"{HOME}/SOUL.md", "# Soul\n\nSomebody else.\n")
    do("import", f"{ARCHIVES}/plain.zip", "--force", code=(0, 3))
    do("undo")
    do("undo")  # and so it is done again
    place.put(f"{HOME}/SOUL.md", "# Soul\n\nAnother one.\n")
    do("snapshot", "restore", "first", "SOUL.md", "--yes", code=(0, 3))
    do("undo", recorder.last("restore"))
    do("snapshot", "restore", "first", "memories/MEMORY.md", "--yes", code=(0, 3))
    database = place.at(f"{HOME}/state.db")
    for session in ("session-1", "session-2"):
        change_database(
            database,
            f"delete from messages where session_id = '{session}'",
            f"delete from sessions where id = '{session}'",
        )
        do("sessions", "restore", session, "--from", "first")
    do("undo", recorder.last("restore-session"))
