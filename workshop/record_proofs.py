"""The steps of a recording that are about proof and trouble: drills, losses, schedule, killed commands."""

from __future__ import annotations

import json
import os
import shutil

from record_homes import small_home
from recorder import ARCHIVES, BARE, KILLED, Recorder

from support.users.fixed_place import HOME, PLACE, USER, held
from support.users.recording import journal_lines

#: The rename at which a command is killed: where it has changed some files, and not all.
LANDING_AT, BARE_AT, ROLLBACK_AT = 13, 9, 10


def proofs(recorder: Recorder) -> None:
    do, place = recorder.do, recorder.place
    do("drill", code=(0, 3))
    do("drill", "--small", code=(0, 3))
    do("drill", f"{ARCHIVES}/packed.tar.zst", code=(0, 3))
    do("drill", f"{ARCHIVES}/sealed.tar.zst.age", "--identity", f"{USER}/archive.key", code=(0, 3))
    do("drill", "--destination", "disk", code=(0, 3))
    do("drill", "--checkpoints", code=(0, 3))
    do("rebuild", f"{ARCHIVES}/packed.tar.zst", "--home", f"{PLACE}/rebuilt", "--yes", code=(0, 3))
    shutil.rmtree(place.at(f"{PLACE}/rebuilt"))
    do("guard", "--", "true")
    do("guard", "--auto-restore", "--", "sh", "-c", f"printf '[]' > {HOME}/cron/jobs.json", code=(0, 3))
    # Two losses that are noticed: one is seen to, one is over by itself, one stays.
    for _ in range(3):
        kept = place.at(f"{HOME}/memories")
        shutil.copytree(kept, kept + ".aside")
        do("guard", "--", "sh", "-c", f"rm -r {HOME}/memories", code=3)
        if _ == 0:
            do("status", "--acknowledge", code=(0, 3, 4))
        shutil.rmtree(kept, ignore_errors=True)
        os.rename(kept + ".aside", kept)
        if _ == 1:
            do("snapshot", "-l", "all there again")
    do("notify", "test")
    os.chmod(place.at(f"{HOME}/.env"), 0o644)
    do("doctor", "--fix", code=(0, 3, 4))
    do("schedule", "install", "--host", "cron", "--yes")
    do("schedule", "remove", "--yes")
    do("schedule", "install", "--host", "cron", "--yes")
    do("schedule", "run", "--now", code=(0, 1, 3))
    do("push", "disk", "--prune", "--yes")
    shutil.rmtree(place.at(f"{USER}/.cache/safekept/copies"), ignore_errors=True)
    do("snapshot", "show", "no such snapshot", code=(1, 2, 10))
    do("drill", f"{PLACE}/notices", code=(1, 2))


def cut_short(recorder: Recorder) -> None:
    """Killed half way: an import that was made right since; an import and a rollback that wait for the next
    command."""
    do, place = recorder.do, recorder.place
    archive = f"{ARCHIVES}/plain.zip"
    for name in ("SOUL.md", "memories/MEMORY.md", "memories/USER.md", "cron/output/note.md", "config.yaml"):
        place.put(f"{HOME}/{name}", "# Before what was killed\n")
    recorder.killed(LANDING_AT, "import", archive, "--force")
    do("undo", "--dry-run", code=(0, 1))
    if not any(line["state"] == "recovered" for line in journal_lines(place)):
        raise SystemExit("nothing had to be recovered: the import was killed too early")
    os.makedirs(place.at(BARE), exist_ok=True)
    small_home(place.at(f"{BARE}/.hermes"), seed=2)
    before = held(place.at(f"{BARE}/.hermes"), times=False)
    recorder.killed(BARE_AT, "import", archive, "--force", user=BARE, cwd=BARE)
    if held(place.at(f"{BARE}/.hermes"), times=False) == before:
        raise SystemExit("the import was killed before it changed anything")
    place.put(f"{BARE}/before.json", json.dumps(before))
    place.put(f"{KILLED}/pyproject.toml", "[project]\n")
    for number in range(12):
        place.put(f"{KILLED}/file-{number}.txt", "before\n")
    do("checkpoint", KILLED)
    for number in range(12):
        place.put(f"{KILLED}/file-{number}.txt", "what an agent wrote\n")
    recorder.killed(ROLLBACK_AT, "rollback", "1", cwd=KILLED)
    texts = {
        str(fact[4]) for name, fact in held(place.at(KILLED), times=False).items() if name.startswith("file-")
    }
    if len(texts) != 2:
        raise SystemExit("the rollback was killed before it changed anything, or after all of it")
