"""Each row of a drill sees what is wrong on disk, and says nothing of what it cannot know."""

from __future__ import annotations

import os
import sys

import pytest

from safekept.actions.drill import landing as drill_landing
from safekept.actions.drill.checks.essentials import _brackets_match
from safekept.actions.drill.checks.hermes import blanked
from safekept.actions.drill.checks.interpreter import find_python
from safekept.actions.drill.landing import LocalDamage, choose_small
from safekept.actions.drill.subject import is_archive
from safekept.core.agents import compose
from safekept.core.entries import Content, Entry, EntryLost, Kind, no_content
from safekept.home.layout.layout import load_layouts
from support.home.entry_list import EntryList
from support.restoring.drills import (
    build,
    change_database,
    drilled,
    failed,
    put,
    states,
    with_copied_home,
    with_copied_vault,
)
from support.users.unprivileged import NOBODY, as_nobody, nobodys  # noqa: F401
from support.vault.snapshots import take


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(str(tmp_path_factory.mktemp("built")))


def append(path):
    with open(path, "ab") as file:
        file.write(b"!")


ON_DISK = {
    "a byte too many": (lambda home: append(f"{home}/logs/agent.log"), {"files", "metadata"}),
    "a file that did not land": (lambda home: os.unlink(f"{home}/logs/agent.log"), {"files"}),
    "another mode": (lambda home: os.chmod(f"{home}/skills/keeper/SKILL.md", 0o777), {"metadata"}),
    "another time": (lambda home: os.utime(f"{home}/skills/keeper/SKILL.md", ns=(5, 5)), {"metadata"}),
    "a link that leads elsewhere": (
        lambda home: (os.unlink(f"{home}/persona.md"), os.symlink("/etc/passwd", f"{home}/persona.md")),
        {"metadata"},
    ),
    "an empty directory that is missing": (lambda home: os.rmdir(f"{home}/workspace/empty"), {"metadata"}),
    "a secret that others can read": (lambda home: os.chmod(f"{home}/.env", 0o644), {"metadata", "secrets"}),
}


@pytest.mark.parametrize("name", ON_DISK)
def test_what_a_restore_left_wrong_on_disk_is_seen(built, tmp_path, monkeypatch, name):
    """The bytes of the store are sound here; what the landing left behind is not."""
    harm, expected = ON_DISK[name]
    here = with_copied_vault(built, str(tmp_path))
    honest = drill_landing.land

    def land(source, plan, **options):
        landed = honest(source, plan, **options)
        harm(plan.home)
        return landed

    monkeypatch.setattr(drill_landing, "land", land)
    # A directory gets another time where something in it was changed by hand; that is not what is meant.
    done = drilled(here, home=built.home)
    assert expected <= failed(done.receipt) <= expected | {"metadata"}, done.receipt.rows


def test_a_file_that_nobody_may_read_is_proven_all_the_same(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    os.chmod(os.path.join(home, "logs", "agent.log"), 0o200)
    if os.geteuid() != 0:
        pytest.skip("only root could store it")
    take(here, home)
    assert drilled(here, home=home).receipt.ok


def test_a_secret_in_a_closed_home_is_not_exposed(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    os.chmod(os.path.join(home, ".env"), 0o644)
    os.chmod(home, 0o700)
    take(here, home)
    assert states(drilled(here, home=home).receipt)["secrets"] == "passed"


def test_what_was_left_out_on_purpose_is_no_loss(built, tmp_path):
    from safekept.home.scan.scanning import Selection

    here, home = with_copied_home(built, str(tmp_path))
    chosen = Selection(exclude=("/SOUL.md", "profiles"), secrets=False)
    take(here, home, selection=chosen)
    done = drilled(here, home=home)
    assert done.receipt.ok, done.receipt.rows
    os.unlink(os.path.join(home, "memories", "MEMORY.md"))
    take(here, home, selection=Selection(quick=True), kind="quick")
    assert drilled(here, "1", home).receipt.ok


def test_a_small_drill_takes_the_state_files_and_some_of_the_rest():
    layout = load_layouts()["hermes"]
    names = ["state.db", "config.yaml", "SOUL.md", *(f"images/{n}.png" for n in range(900)), "state.db-wal"]
    entries = [Entry("images", Kind.DIRECTORY, 0o755, 0)]
    entries += [Entry(name, Kind.FILE, 0o644, 0, size=1000, open=no_content) for name in names]
    first, second = choose_small(entries, layout, "one"), choose_small(entries, layout, "two")
    assert {"state.db", "state.db-wal", "config.yaml", "SOUL.md", "images"} <= first
    assert 150 < len(first) <= 5 + 200
    assert first != second
    huge = [Entry("a.bin", Kind.FILE, 0o644, 0, size=10**12)]
    assert choose_small(huge, layout, "one") == set()


def test_a_small_drill_counts_only_what_it_restored(built, tmp_path, monkeypatch):
    from safekept.actions.drill import landing as drill_source

    monkeypatch.setattr(drill_source, "_SAMPLE_FILES", 0)
    here = with_copied_vault(built, str(tmp_path))
    done = drilled(here, home=built.home, small=True)
    assert done.receipt.ok, done.receipt.rows
    (row,) = (row for row in done.receipt.rows if row.check == "census")
    assert row.text == "14 counts as recorded"  # all but the skills of two homes
    (row,) = (row for row in done.receipt.rows if row.check == "files")
    assert "other files not restored" in row.text


def test_damage_of_any_kind_is_the_loss_of_one_file():
    class Short(Content):
        size, mtime_ns = 5, 0

        def chunks(self):
            yield b"abc"

        def close(self):
            pass

    source = LocalDamage(EntryList([]), [Entry("a", Kind.FILE, 0o600, 0, 5, open=Short)])
    (entry,) = source
    with pytest.raises(EntryLost), entry.open() as content:
        list(content.chunks())
    assert source.lost == {"a": "3 bytes came where 5 were announced"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("latest", False),
        ("3", False),
        ("ab12cd34", False),
        ("x.zip", True),
        ("./x", True),
        ("a.tar.zst", True),
    ],
)
def test_a_file_is_told_from_a_snapshot(word, expected):
    assert is_archive(word) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, 2]}', True),
        ("{ // it's a comment }}}\n a: 'x]', }", True),
        ('{"a": [1, 2}', False),
        ('{"a": "unclosed}', False),
        ('/* { */ {"a": 1}', True),
    ],
)
def test_brackets_are_matched_in_any_dialect(text, expected):
    assert _brackets_match(text) is expected


def test_settings_with_comments_are_unknown_and_not_broken(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    put(home, "gateway.json", "{\n  // it's mine\n  port: 80,\n}\n")
    take(here, home)
    done = drilled(here, home=home)
    assert states(done.receipt)["settings"] == "unknown"
    put(home, "gateway.json", '{"port": [80}')
    take(here, home)
    assert failed(drilled(here, home=home).receipt) == {"settings"}


def test_credentials_are_blanked_and_nothing_else():
    text = (
        "model:\n  api_key: sk-1  # mine\n  default: some/model\n"
        "gateway: {bot_token: '12:ab', port: 80}\n"
        "secrets:\n  - one\n  - two\n"
        "password: |\n  several\n  lines\n"
        "max_turns: 90\n"
    )
    clean = blanked(text)
    for secret in ("sk-1", "12:ab", "one", "two", "several", "lines"):
        assert secret not in clean
    compose(clean)
    assert "  default: some/model\n" in clean
    assert "port: 80" in clean
    assert clean.endswith("max_turns: 90\n")
    assert "sk-2" not in blanked("a: [\napi_key: sk-2\n")


def test_the_interpreter_of_hermes_is_found(tmp_path):
    assert find_python("", "hermes-agent", {"PATH": str(tmp_path)}) == ""
    launcher = tmp_path / "hermes"
    launcher.write_text(f"#!{sys.executable} -I\n")
    launcher.chmod(0o755)
    assert find_python("", "hermes-agent", {"PATH": str(tmp_path)}) == sys.executable
    own = tmp_path / "home" / "hermes-agent" / "venv" / "bin"
    own.mkdir(parents=True)
    (own / "python").symlink_to(sys.executable)
    found = find_python(str(tmp_path / "home"), "hermes-agent", {"PATH": str(tmp_path)})
    assert found == str(own / "python")


def test_an_index_with_content_elsewhere_is_held_against_it(built, tmp_path):
    here, home = with_copied_home(built, str(tmp_path))
    change_database(
        home,
        "create table notes(id integer primary key, body text)",
        "create virtual table notes_fts using fts5(body, content='notes', content_rowid='id')",
        "insert into notes values (1, 'river stone')",
        "insert into notes_fts(rowid, body) values (1, 'river stone')",
    )
    take(here, home)
    assert drilled(here, home=home).receipt.ok
    change_database(home, "update notes set body = 'something else entirely'")
    take(here, home)
    assert failed(drilled(here, home=home).receipt) == {"full-text"}


def test_a_user_without_rights_drills_what_is_closed_even_to_himself(built, tmp_path, nobodys):  # noqa: F811
    """Directories that cannot be written and a database that is read-only come back, are proven, and go."""
    drilled(with_copied_vault(built, str(tmp_path)), home=built.home)  # what is imported late is imported now

    os.chown(nobodys, os.getuid(), os.getgid())  # it is made ready first, and his afterwards
    here, home = with_copied_home(built, nobodys)
    os.chmod(os.path.join(home, "state.db"), 0o400)
    os.chmod(os.path.join(home, "skills", "keeper"), 0o500)
    take(here, home)
    if os.getuid() == 0:
        for parent, directories, files in os.walk(nobodys):
            for name in (".", *directories, *files):
                os.chown(os.path.join(parent, name), NOBODY, NOBODY, follow_symlinks=False)

    def as_he_does():
        try:
            done = drilled(here, home=home)
        except BaseException as error:
            return repr(error), []
        left = os.listdir(os.path.join(here.places.data_directory, "scratch"))
        return [(row.check, row.state, row.text) for row in done.receipt.failed], left

    assert as_nobody(as_he_does) == ([], [])
