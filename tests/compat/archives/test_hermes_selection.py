"""What the real Hermes backs up, we back up too; where we differ, the difference has a name."""

from __future__ import annotations

import os
import subprocess
import zipfile

import pytest

from safekept.core.entries import Kind, Outcome
from support.home.homes import make_hermes_home
from support.home.scanned import consume, look, plant, remarks

pytestmark = pytest.mark.real

#: What `hermes backup` 0.19.0 takes and we leave out, each with its reason.
DIFFERENCES = {
    "state-snapshots/20260101-000000/state.json": "copies of files that are in the backup (#86901)",
    "node/bin/node": "the runtime that Hermes installs itself (#16988)",
    "chrome-debug/Default/Preferences": "a browser profile (#16988)",
    "bin/uv": "a tool that Hermes downloads itself (#74853)",
    "gateway.lock": "a lock of a running process",
    "auth.lock": "a lock of a running process",
    "memories/MEMORY.md.lock": "a lock of a running process",
    "cron/.tick.lock": "a lock of a running process",
    "cache/bws_cache.json": "secrets that a password manager hands out again",
    "home/.npm/_cacache/x": "a download cache (#93760)",
    "profiles/coder/home/.npm/_cacache/x": "a download cache (#93760)",
    "migration/openclaw/report.json": "working files of a migration",
    "plugins/p/anyname/pyvenv.cfg": "a virtual environment under a name of its own",
    "tools/real-venv/pyvenv.cfg": "a virtual environment under a name of its own",
    "state-snapshots/20260601-000000/manifest.json": "copies of files that are in the backup (#86901)",
    ".safekept/manifest.json": "our own work area",
}
#: What we take and Hermes leaves out, each once the loss of somebody.
GAINS = {
    "skills/foo/backups/x": "V-02",
    "skills/foo/checkpoints/x": "V-02",
    "skills/foo/venv/x": "V-02",
    "skills/foo/.cache/x": "V-02",
    "skills/foo/.git/HEAD": "V-02",
    "early": "a date before 1980 (#9298)",
    "foreign.db": "a database of another kind (#75724)",
}
BOTH = (
    "cache/images/sent.png",
    "cache/documents/paper.pdf",
    "sandboxes/docker/x",
    "logs/agent.log",
    "sessions/one.json",
    "gateway_state.json",
    "processes.json",
    "skills/autonomous-ai-agents/hermes-agent/SKILL.md",
    "profiles/coder/skills/mine/SKILL.md",
)


@pytest.fixture
def user(tmp_path: object, hermes_python: str) -> str:
    user = os.path.realpath(os.path.join(str(tmp_path), "person"))
    make_hermes_home(f"{user}/.hermes", hermes_python=hermes_python)
    plant(f"{user}/.hermes", dict.fromkeys([*DIFFERENCES, *GAINS, *BOTH], "x"))
    plant(f"{user}/.hermes", {"foreign.db": b"\0" * 4096})
    os.utime(f"{user}/.hermes/early", (0, 0))
    os.unlink(f"{user}/.hermes/pipe")  # Hermes waits for ever for somebody to write into it
    plant(user, {".honcho/config.json": "{}", ".honcho/deep/peers.json": "{}"})
    with open(f"{user}/.hermes/config.yaml", "a") as file:
        file.write("\nmemory:\n  provider: honcho\n")
    return user


def members(hermes: str, user: str) -> set[str]:
    """What the real `hermes backup` puts into its zip."""
    environment = {"PATH": os.environ["PATH"], "HOME": user, "HERMES_HOME": f"{user}/.hermes"}
    output = f"{user}/hermes.zip"
    done = subprocess.run(
        [hermes, "backup", "-o", output],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(output) as archive:
        return set(archive.namelist())


def test_hermes_selection_is_a_subset_of_ours_but_for_named_differences(hermes: str, user: str) -> None:
    theirs = members(hermes, user)
    source = look(f"{user}/.hermes", user_home=user)
    taken, _ = consume(source)
    ours = set(taken)
    missing = theirs - ours
    assert missing <= DIFFERENCES.keys(), missing - DIFFERENCES.keys()
    assert missing == DIFFERENCES.keys(), "a difference that is none"
    # Each difference is one that we report, with its reason.
    said = remarks(source, Outcome.EXCLUDED)
    for path in missing:
        assert any(path == top or path.startswith(top + "/") for top in said), path
    assert GAINS.keys() <= ours - theirs
    assert {*BOTH, "_external/.honcho/config.json", "_external/.honcho/deep/peers.json"} <= ours & theirs


def test_the_quick_set_holds_all_that_hermes_quick_snapshots_hold(hermes: str, user: str) -> None:
    from safekept.home.scan.scanning import Selection

    environment = {"PATH": os.environ["PATH"], "HOME": user, "HERMES_HOME": f"{user}/.hermes"}
    known = set(os.listdir(f"{user}/.hermes/state-snapshots"))
    subprocess.run(
        [hermes, "backup", "--quick"], env=environment, check=True, capture_output=True, timeout=300
    )
    (made,) = set(os.listdir(f"{user}/.hermes/state-snapshots")) - known
    root = f"{user}/.hermes/state-snapshots/{made}"
    theirs = {
        os.path.relpath(os.path.join(parent, name), root)
        for parent, _, names in os.walk(root)
        for name in names
    } - {"manifest.json"}
    quick = look(f"{user}/.hermes", Selection(quick=True), user_home=user)
    ours = {entry.path for entry in quick if entry.kind is Kind.FILE}
    assert theirs
    assert theirs <= ours
    assert {"SOUL.md", "memories/MEMORY.md"} <= ours


def test_our_census_counts_what_hermes_counts(hermes: str, hermes_python: str, user: str) -> None:
    source = look(f"{user}/.hermes", user_home=user)
    consume(source)
    counted = source.census()["default"]
    environment = {"PATH": os.environ["PATH"], "HOME": user, "HERMES_HOME": f"{user}/.hermes"}
    code = (
        "import os; from pathlib import Path\n"
        "from tools.memory_tool import MemoryStore; from cron.jobs import load_jobs\n"
        "root = Path(os.environ['HERMES_HOME']) / 'memories'\n"
        "print(sum(len(MemoryStore._read_file(path)) for path in root.glob('*.md')), len(load_jobs()))"
    )
    done = subprocess.run(
        [hermes_python, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == [str(counted["memories"]), str(counted["cron_jobs"])]
