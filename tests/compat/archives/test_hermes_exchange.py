"""With the real hermes-agent 0.19.0: its archives land through us, and ours through it, nothing lost."""

import os
import subprocess

import pytest

from support.home.homes import make_hermes_home, tree_facts

pytestmark = pytest.mark.real


def hermes_run(hermes, user, home, *arguments):
    os.makedirs(user, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(user), "HERMES_HOME": str(home), "NO_COLOR": "1"}
    done = subprocess.run(
        [hermes, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_and_rows(home):
    """Bytes of files and rows of databases: what both tools promise to carry."""
    facts = {}
    for path, fact in tree_facts(home).items():
        if fact[0] == "file":
            facts[path] = ("file", *fact[3:])
        elif fact[0] == "database":
            facts[path] = ("database", fact[-1])
    return facts


def only_shared(facts, *, by_hermes):
    """Drop what one of the two leaves out on purpose; each is named here so that a new gap shows."""
    dropped = {"gateway_state.json", "processes.json"}  # bound to a machine: no import brings them
    dropped |= {path for path in facts if path.startswith("logs/")}  # Hermes writes its own while it imports
    dropped |= {path for path in facts if path.startswith("odd/raw-")}  # a zip holds such a name only for us
    if by_hermes:
        dropped |= {
            path
            for path in facts
            if path.startswith("old/")  # earlier than 1980: Hermes cannot store it
            or any(
                part in {"backups", "checkpoints", "venv", ".cache", "site-packages", ".git"}
                for part in path.split("/")
            )
            or path in {"data/zeros.db", "plugins/diun/diun.db", "data/empty.db"}  # .db, but not SQLite
        }
    return {
        path: fact for path, fact in facts.items() if path not in dropped and not path.startswith(".safekept")
    }


@pytest.fixture
def real_home(tmp_path, hermes_python):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"), hermes_python=hermes_python)
    os.unlink(os.path.join(home, "pipe"))  # `hermes backup` opens it and waits for ever
    return home


def test_hermes_imports_what_safekept_backed_up(tmp_path, hermes, safekept, real_home):
    archive = str(tmp_path / "ours.zip")
    done = safekept("backup", "--home", real_home, "-o", archive)
    assert done.returncode == 0, done.stdout + done.stderr
    target = tmp_path / "second" / ".hermes"
    target.mkdir(parents=True)
    printed = hermes_run(hermes, tmp_path / "second", target, "import", archive, "--force")
    assert "Import complete" in printed and "Warnings" not in printed
    expected = files_and_rows(real_home)
    selected = {p: f for p, f in expected.items() if os.path.lexists(target / p) or not _left_out(p)}
    assert only_shared(files_and_rows(str(target)), by_hermes=False) == only_shared(selected, by_hermes=False)


def _left_out(path):
    """What safekept leaves out by its rules, with a remark each."""
    return (
        path.startswith(
            ("hermes-agent/", "backups/", "state-snapshots/", "tools/real-venv/", "tools/web/node_modules/")
        )
        or "/__pycache__/" in path
        or path.endswith((".pid", ".sock"))
    )


def test_safekept_imports_what_hermes_backed_up(tmp_path, hermes, safekept, real_home):
    archive = str(tmp_path / "theirs.zip")
    hermes_run(hermes, tmp_path / "user", real_home, "backup", "-o", archive)
    target = str(tmp_path / "second" / ".hermes")
    done = safekept("import", archive, "--home", target, "--force")
    assert done.returncode == 0, done.stdout + done.stderr
    expected = only_shared(files_and_rows(real_home), by_hermes=True)
    landed = only_shared(files_and_rows(target), by_hermes=True)
    gone = {path for path in expected if path not in landed}
    assert {p for p in gone if not _left_out(p)} == set()
    assert {path: fact for path, fact in expected.items() if path in landed} == landed


def test_both_ways_in_a_row_give_the_same_home(tmp_path, hermes, safekept, real_home):
    """safekept → Hermes → safekept: a home that travelled through both is still the same home."""
    first, second = str(tmp_path / "first.zip"), str(tmp_path / "second.zip")
    assert safekept("backup", "--home", real_home, "-o", first).returncode == 0
    middle = tmp_path / "middle" / ".hermes"
    middle.mkdir(parents=True)
    hermes_run(hermes, tmp_path / "middle", middle, "import", first, "--force")
    hermes_run(hermes, tmp_path / "middle", middle, "backup", "-o", second)
    last = str(tmp_path / "last" / ".hermes")
    assert safekept("import", second, "--home", last, "--force").returncode == 0
    start, end = files_and_rows(real_home), files_and_rows(last)
    for path in (
        "SOUL.md",
        "memories/MEMORY.md",
        "config.yaml",
        ".env",
        "state.db",
        "profiles/coder/state.db",
        "cron/jobs.json",
        "odd/new\nline.md",
    ):
        assert end[path] == start[path], path


def test_an_archive_taken_while_hermes_writes_lands_in_hermes_with_every_earlier_row(
    tmp_path, hermes, safekept, real_home, live_writer
):
    from support.home.homes import check_copy

    archive = str(tmp_path / "live.zip")
    writer = live_writer(os.path.join(real_home, "state.db"))
    writer.wait_for(50)
    committed = writer.committed()
    assert safekept("backup", "--home", real_home, "-o", archive).returncode == 0
    writer.stop()
    target = tmp_path / "second" / ".hermes"
    target.mkdir(parents=True)
    hermes_run(hermes, tmp_path / "second", target, "import", archive, "--force")
    assert check_copy(str(target / "state.db"), at_least=committed) >= committed
