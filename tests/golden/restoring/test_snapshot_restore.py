"""Bringing a home back from the vault: exact, undoable, by whatever name, and honest about what is lost."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing

import pytest

from safekept.core.entries import Kind
from safekept.home.scan.scanning import Selection
from safekept.vault.read.homes import snapshot_source
from safekept.vault.storage import FileKind
from support.commands.error_texts import error_code
from support.home.homes import differences, make_hermes_home, tree_facts
from support.vault.snapshots import opened, take

ROOT = (".",)


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=())


def put(home, name, text):
    path = os.path.join(home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def read(home, name):
    with open(os.path.join(home, name)) as file:
        return file.read()


def listed(say, *words):
    return json.loads(say("snapshot", "list", "--json", *words).out)


# Exactness


def test_a_whole_home_comes_back_exactly_and_undo_takes_it_back(here, home, say):
    before = tree_facts(home, skip=ROOT)
    short = take(here, home).id[:8]
    shutil.rmtree(os.path.join(home, "memories"))
    put(home, "SOUL.md", "hijacked")
    put(home, "later.md", "written since")
    broken = tree_facts(home, skip=ROOT)
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 0, done.err
    now = tree_facts(home, skip=ROOT)
    assert now.pop("later.md") == broken["later.md"], "a restore lays over; it removes nothing"
    assert differences(before, now) == []
    (operation,) = re.findall(r"Take it back with: `safekept undo (\S+)`", done.out)
    assert f"Restored: {home}\n" in done.out
    assert f"  Snapshot   {short} (number 1, manual, " in done.out
    undone = say("undo", operation)
    assert undone.code == 0
    assert undone.out.startswith("Taking back the restore of "), "before it does anything"
    assert differences(broken, tree_facts(home, skip=ROOT)) == []


def test_exact_also_removes_what_came_later_and_undo_brings_it_back(here, home, say):
    before = tree_facts(home, skip=ROOT)
    take(here, home)
    put(home, "skills/later/SKILL.md", "written since")
    os.makedirs(os.path.join(home, "notes", "empty"))
    broken = tree_facts(home, skip=ROOT)
    done = say("snapshot", "restore", "1", "--exact", "--yes")
    assert done.code == 0, done.err
    assert differences(before, tree_facts(home, skip=ROOT)) == []
    assert say("undo").code == 0
    assert differences(broken, tree_facts(home, skip=ROOT)) == []


def test_an_exact_restore_of_a_quick_snapshot_removes_only_what_it_speaks_for(here, home, say):
    take(here, home, kind="quick", selection=Selection(quick=True))
    put(home, "memories/INTRUDER.md", "not there then")
    done = say("snapshot", "restore", "latest", "--exact", "--yes", "--json")
    assert done.code == 0, done.err
    plan = json.loads(done.out)["plan"]
    assert plan["remove"] == ["memories/INTRUDER.md"], "only the quick set may lose files"
    assert os.path.exists(os.path.join(home, "skills/keeper/SKILL.md"))


def test_an_exact_restore_spares_what_the_snapshot_was_told_to_leave_out(here, home, say):
    take(here, home, selection=Selection(secrets=False, exclude=("logs",)))
    done = say("snapshot", "restore", "latest", "--exact", "--yes", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["plan"]["remove"] == []
    assert os.path.exists(os.path.join(home, ".env"))


def test_one_path_comes_back_by_any_name_of_it(here, home, say, monkeypatch):
    take(here, home)
    for words, stand in (
        (("SOUL.md",), here.places.user_home),
        ((os.path.join(home, "SOUL.md"),), here.places.user_home),
        (("MEMORY.md",), os.path.join(home, "memories")),
        (("./memories/",), home),
    ):
        for name in ("SOUL.md", "memories/MEMORY.md", "config.yaml"):
            put(home, name, "changed")
        monkeypatch.chdir(stand)
        done = say("snapshot", "restore", "latest", *words, "--yes")
        assert done.code == 0, done.err
        back = "SOUL.md" if "SOUL.md" in words[0] else "memories/MEMORY.md"
        assert read(home, back) != "changed"
        assert read(home, "config.yaml") == "changed"


def test_machine_bound_files_of_the_target_stay(here, home, say):
    take(here, home)
    put(home, "gateway_state.json", "mine")
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 0 and "Not taken" in done.out
    assert read(home, "gateway_state.json") == "mine"


def test_a_restore_into_a_directory_leaves_the_home_alone(here, home, say, tmp_path):
    before = tree_facts(home, skip=ROOT)
    take(here, home)
    target = str(tmp_path / "elsewhere")
    done = say("snapshot", "restore", "latest", "--into", target)
    assert done.code == 0, done.err
    found = tree_facts(target, skip=ROOT)
    assert differences({name: before.get(name) for name in found}, found) == []
    assert len(found) > 80 and "state.db" in found and "gateway_state.json" not in found
    assert differences(before, tree_facts(home, skip=ROOT)) == []
    assert [one["kind"] for one in listed(say)["snapshots"]] == ["manual"], "no undo point for another place"


# Consent, plan, undo point


@pytest.mark.needs("modes", "it looks at modes")
def test_a_dry_run_changes_nothing_and_writes_no_snapshot(here, home, say):
    take(here, home)
    put(home, "SOUL.md", "changed")
    before = tree_facts(here.places.user_home, skip=ROOT, databases="bytes")
    done = say("snapshot", "restore", "latest", "--dry-run", "--exact")
    assert done.code == 0 and "  Replaces   1 file\n               SOUL.md\n" in done.out
    assert done.out.endswith("Nothing was changed\n")
    after = tree_facts(here.places.user_home, skip=ROOT, databases="bytes")
    moved = {name for name in after if after[name] != before.get(name)}
    assert not [name for name in moved if name.startswith(".hermes") or "/snapshots/" in name], moved


def test_a_restore_that_would_replace_something_refuses_without_a_terminal(here, home, say):
    short = take(here, home).id[:8]
    put(home, "SOUL.md", "changed")
    done = say("snapshot", "restore", "1", "SOUL.md", "--home", home)
    assert done.code == 1
    assert done.err == (
        "This restore needs your consent: 1 existing file would be replaced\n"
        "\n"
        "  Kept       Nothing was changed\n"
        f"  Next       See the plan: `safekept snapshot restore {short} SOUL.md --home {home} --dry-run`\n"
        f"             Agree to it: `safekept snapshot restore {short} SOUL.md --home {home} --yes`\n"
        "  Error      consent-needed\n"
    )
    assert read(home, "SOUL.md") == "changed"


def test_a_restore_onto_a_fresh_machine_asks_nothing(here, home, say):
    take(here, home)
    shutil.rmtree(home)
    assert say("snapshot", "restore", "latest").code == 0
    assert read(home, "SOUL.md").startswith("# Soul")


def test_what_a_restore_replaces_is_kept_as_a_snapshot_first(here, home, say):
    first = take(here, home).id
    put(home, "SOUL.md", "precious edits")
    done = say("snapshot", "restore", first[:8], "SOUL.md", "--yes", "--json")
    point = json.loads(done.out)["undo_point"]
    assert point
    kinds = [(one["kind"], one["label"]) for one in listed(say)["snapshots"]]
    assert kinds == [("pre-restore", f"before restoring {first[:8]}"), ("manual", "")]
    assert say("snapshot", "restore", point[:8], "SOUL.md", "--yes").code == 0
    assert read(home, "SOUL.md") == "precious edits"


def test_what_an_import_replaces_is_kept_as_a_snapshot_where_there_is_a_vault(here, home, say, tmp_path):
    archive = str(tmp_path / "iris.zip")
    assert say("backup", "-o", archive).code == 0
    put(home, "SOUL.md", "first edits")
    done = say("import", archive, "--force", "--json")
    assert json.loads(done.out)["undo_point"] == "", "no vault is made for that"
    assert not os.path.exists(here.places.vault)
    put(home, "SOUL.md", "second edits")
    take(here, home)
    put(home, "SOUL.md", "third edits")
    done = say("import", archive, "--force")
    assert re.search(r"^  Before     kept as snapshot [0-9a-f]{8}$", done.out, re.MULTILINE), done.out
    newest = listed(say)["snapshots"][0]
    assert (newest["kind"], newest["label"]) == ("pre-import", "before importing iris.zip")
    assert newest["number"] is None
    assert say("snapshot", "show", newest["id"], "SOUL.md").out == "third edits"
    assert say("snapshot", "show", "latest", "SOUL.md").out == "second edits", "`latest` is no undo point"


def test_a_restore_goes_on_where_no_undo_point_can_be_taken(here, home, say, monkeypatch):
    """The landing keeps what it replaces by itself; that the second net is missing is said."""
    take(here, home)
    put(home, "SOUL.md", "changed")
    import safekept.actions.snapshots.create
    from safekept.vault.errors import VaultLocked

    def refuse(*_, **__):
        raise VaultLocked("The vault is in use", kept="-", next_steps=("-",))

    monkeypatch.setattr(safekept.actions.snapshots.create, "create_snapshot", refuse)
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 0
    assert "Note: no pre-restore snapshot was taken (the vault is in use)" in done.err
    assert say("undo").code == 0 and read(home, "SOUL.md") == "changed"


# Names


def test_numbers_count_from_the_newest_and_ids_stay(here, home, say):
    ids = []
    for text in ("one", "two", "three"):
        put(home, "SOUL.md", text)
        ids.append(take(here, home, label=f"the {text}").id)
    assert [(one["number"], one["id"]) for one in listed(say)["snapshots"]] == list(
        zip((1, 2, 3), reversed(ids), strict=True)
    )
    for word, text in (("3", "one"), ("1", "three"), (ids[1][:6], "two"), ("the one", "one")):
        put(home, "SOUL.md", "broken")
        assert say("snapshot", "restore", word, "SOUL.md", "--yes").code == 0
        assert read(home, "SOUL.md") == text, word
    shown = listed(say)["snapshots"]
    assert [one["id"] for one in shown if one["number"]] == ids[::-1], "no restore moved a number"
    assert {one["kind"] for one in shown if not one["number"]} == {"pre-restore"}


def test_an_unknown_number_or_id_is_said_with_what_there_is(here, home, say):
    done = say("snapshot", "restore", "1")
    assert done.code == 10 and error_code(done.err) == "no-such-vault"
    assert (
        "  Next       Old machine gone? `safekept rebuild KIT`\n" in done.err and "vault init" not in done.err
    )
    assert say("vault", "init").code == 0
    done = say("snapshot", "restore", "latest")
    assert (
        "  Next       Old machine gone? `safekept rebuild KIT`\n             Take one: `safekept snapshot"
        in done.err
    )
    take(here, home)
    done = say("snapshot", "restore", "7")
    assert done.code == 1
    assert done.err == (
        "There is no snapshot number 7; the oldest is number 1\n"
        "\n"
        "  Kept       Nothing was changed\n"
        "  Next       See them all: `safekept snapshot list`\n"
        "  Error      no-such-snapshot\n"
    )
    done = say("snapshot", "restore", "feedbeef1234")
    assert "No snapshot starts with `feedbeef1234`\n" in done.err


def test_a_home_without_snapshots_says_that_others_have_some(here, home, say, tmp_path):
    take(here, home)
    other = make_hermes_home(str(tmp_path / "other" / ".hermes"), profiles=(), awkward=False)
    done = say("snapshot", "restore", "latest", "--home", other)
    assert done.code == 1
    assert done.err == (
        f"This vault holds no snapshots of `{other}`, but 1 of other homes\n"
        "\n"
        "  Kept       Nothing was changed\n"
        "  Next       See them: `safekept snapshot list --all`\n"
        "             One of another home can be restored here by its id\n"
        "  Error      no-such-snapshot\n"
    )


def test_a_snapshot_of_another_home_can_be_restored_by_its_id(here, home, say, tmp_path):
    short = take(here, home).id[:8]
    moved = str(tmp_path / "new-machine" / ".hermes")
    done = say("snapshot", "restore", short, "--home", moved)
    assert done.code == 0, done.err
    assert f"  Made of    {home} on " in done.out
    assert read(moved, "SOUL.md") == read(home, "SOUL.md")


def test_a_forgotten_snapshot_is_called_back_before_it_is_restored(here, home, say):
    short = take(here, home).id[:8]
    take(here, home)
    assert say("snapshot", "forget", short, "--yes").code == 0
    done = say("snapshot", "restore", short, "--yes")
    assert done.code == 1
    assert done.err == (
        f"Snapshot {short} was forgotten\n"
        "\n"
        "  Kept       It can still be brought back until the vault is pruned\n"
        f"  Next       Bring it back: `safekept snapshot forget --undo {short}`\n"
        "  Error      no-such-snapshot\n"
    )
    assert say("snapshot", "forget", "--undo", short).out == f"Snapshot {short} is back\n"
    assert say("snapshot", "restore", short, "--yes").code == 0


def test_a_prefix_that_fits_several_is_refused_with_longer_ones(here, home, say):
    ids, letter = [], ""
    while not letter:  # until two share their first sign; a digit could be a number
        ids.append(take(here, home, check="never").id)
        starts = [one[0] for one in ids if one[0].isalpha()]
        letter = next((start for start in starts if starts.count(start) > 1), "")
    done = say("snapshot", "restore", letter)
    assert done.code == 1 and error_code(done.err) == "ambiguous-snapshot", done.err
    assert f"2 snapshots start with `{letter}`" in done.err
    for one in ids:
        if one[0] == letter:
            assert f"Perhaps `{one[:8]}` of " in done.err


def test_what_becomes_shorter_is_said_with_both_sizes(here, home, say):
    for name in ("SOUL.md", "config.yaml"):
        with open(os.path.join(home, name), "w") as file:
            file.write("x: 1\n")
    take(here, home)
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("I am ada, calm and exact.\n")
    with open(os.path.join(home, "config.yaml"), "w") as file:
        file.write("y\n")
    words = ("restore", "SOUL.md", "config.yaml", "--dry-run")
    lines = say(*words).out.splitlines()
    assert "               SOUL.md (26 B now, then 5 B)" in lines and "               config.yaml" in lines
    plan = json.loads(say(*words, "--json").out)["plan"]
    assert plan["shorter"] == [{"path": "SOUL.md", "bytes_now": 26, "bytes": 5}]


def test_a_path_that_is_not_in_the_snapshot_is_said(here, home, say):
    short = take(here, home).id[:8]
    done = say("snapshot", "restore", "latest", "no/such/file", "--yes")
    assert done.code == 1
    assert done.err == (
        f"There is nothing called `no/such/file` in what is to be restored of `{home}`\n"
        "\n"
        "  Kept       Nothing was changed\n"
        f"  Next       See what this one holds: `safekept snapshot show {short}`\n"
        "  Error      nothing-matches\n"
    )


# Damage


def lose_blob_of(here, snapshot, path):
    """Flip a bit in the pack where a file's first blob lies."""
    with opened(here) as repository:
        source, _ = snapshot_source(repository, snapshot)
        node = source.node(path)
        from safekept.vault.format.blobs import BlobKind

        place = repository.index.lookup(BlobKind.DATA, node.content[:32])
        name = place.pack.hex()
    pack = os.path.join(here.places.vault, "data", name[:2], name)
    os.chmod(pack, 0o600)
    with open(pack, "r+b") as file:
        file.seek(place.offset + place.length // 2)
        byte = file.read(1)[0]
        file.seek(place.offset + place.length // 2)
        file.write(bytes([byte ^ 1]))


def test_damage_in_the_vault_costs_only_what_it_touched(here, home, say):
    result = take(here, home)
    before = tree_facts(home, skip=ROOT)
    lose_blob_of(here, result.snapshot, "logs/agent.log")
    for name in ("SOUL.md", "logs/agent.log", "config.yaml"):
        put(home, name, "changed")
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 3, done.out + done.err
    assert done.out.count("  Missing    logs/agent.log: damaged in the vault: ") == 1
    assert "Restored what can be read\n" in done.out
    now = tree_facts(home, skip=ROOT)
    assert read(home, "logs/agent.log") == "changed", "what cannot be read stays as it is"
    for facts in (before, now):
        facts.pop("logs/agent.log"), facts.pop("logs")
    assert differences(before, now) == []


def test_a_damaged_database_in_the_vault_does_not_replace_the_one_of_the_home(here, home, say):
    result = take(here, home)
    lose_blob_of(here, result.snapshot, "state.db")
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        connection.execute("delete from messages where id < 5")
        connection.commit()
    put(home, "SOUL.md", "changed")
    done = say("snapshot", "restore", "latest", "--yes", "--json")
    assert done.code == 3
    document = json.loads(done.out)
    assert [one["path"] for one in document["lost"]] == ["state.db"] and document["complete"] is False
    assert read(home, "SOUL.md") != "changed"
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        assert connection.execute("select count(*) from messages where id < 5").fetchone() == (0,)


def test_a_lost_directory_is_named_and_spared_by_an_exact_restore(here, home, say):
    result = take(here, home)
    with opened(here) as repository:
        source, _ = snapshot_source(repository, result.snapshot)
        from safekept.vault.format.blobs import BlobKind

        tree = source.node("skills").subtree
        place = repository.index.lookup(BlobKind.TREE, tree)
        name = place.pack.hex()
    pack = os.path.join(here.places.vault, "data", name[:2], name)
    os.chmod(pack, 0o600)
    with open(pack, "r+b") as file:
        file.seek(place.offset + 20)
        byte = file.read(1)[0]
        file.seek(place.offset + 20)
        file.write(bytes([byte ^ 1]))
    put(home, "SOUL.md", "changed")
    put(home, "intruder.md", "came later")
    done = say("snapshot", "restore", "latest", "--exact", "--yes", "--json")
    assert done.code == 3, done.err
    document = json.loads(done.out)
    assert [one["path"] for one in document["missing"]] == ["skills"]
    assert "this directory is damaged" in document["missing"][0]["reason"]
    assert document["plan"]["remove"] == ["intruder.md"], "nothing below what was lost is removed"
    assert os.path.exists(os.path.join(home, "skills/keeper/SKILL.md"))


def test_a_snapshot_file_that_cannot_be_read_is_named_and_hides_no_other(here, home, say):
    first, second = take(here, home).snapshot.id, take(here, home).snapshot.id
    path = os.path.join(here.places.vault, "snapshots", first)
    shutil.rmtree(here.places.cache_directory, ignore_errors=True)
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.write(b"x")
    done = say("snapshot", "list")
    assert done.code == 3
    assert f"1 snapshot file cannot be read\n  {first[:8]}  its content does not match its name\n" in done.out
    assert second[:8] in done.out
    done = say("snapshot", "restore", first[:8])
    assert done.code == 1
    assert done.err == (
        f"Snapshot {first[:8]} cannot be read: its content does not match its name\n"
        "\n"
        "  Kept       Nothing was changed\n"
        "  Next       Take another one: `safekept snapshot list`\n"
        "             See how the vault is: `safekept vault check`\n"
        "  Error      no-such-snapshot\n"
    )


def test_a_restore_holds_off_a_prune_and_a_prune_holds_off_a_restore(here, home, say, monkeypatch):
    take(here, home)
    monkeypatch.setattr("safekept.actions.snapshots.stored_home._WAIT", 0.1)
    with opened(here) as repository, repository.lock(exclusive=True):
        done = say("snapshot", "restore", "latest", "--dry-run")
    assert done.code == 11 and error_code(done.err) == "vault-locked", done.err


def test_only_a_database_that_is_wanted_is_read(here, home, say, monkeypatch):
    """One memory out of a home with a large database: only its own blob is fetched."""
    take(here, home)
    from safekept.vault.repo.loader import BlobLoader

    loaded = []
    decode = BlobLoader._decode

    def counted(self, run):
        loaded.extend(run)
        return decode(self, run)

    monkeypatch.setattr(BlobLoader, "_decode", counted)
    put(home, "memories/USER.md", "changed")
    monkeypatch.setattr("safekept.actions.restoring.prepared.take_undo_point", lambda *_, **__: "")
    assert say("snapshot", "restore", "latest", "memories/USER.md", "--yes").code == 0
    with opened(here) as repository:
        newest = listed(say)["snapshots"][0]["id"]
        assert newest
        data = sum(1 for blob, _ in loaded if repository.index.lookup("data", blob) is not None)
    assert data <= 2, "the file itself, and the account of the snapshot"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_every_kind_of_file_has_its_entry(here, home):
    """The Source of a snapshot gives directories, links and files, parents first."""
    result = take(here, home)
    with opened(here) as repository:
        source, manifest = snapshot_source(repository, result.snapshot)
        seen = set()
        for entry in source:
            parent = entry.path.rpartition("/")[0]
            assert not parent or parent in seen, entry.path
            seen.add(entry.path)
            if entry.path == "state.db":
                assert entry.database
        kinds = {entry.path: entry.kind for entry in source}
        assert (kinds["persona.md"], kinds["workspace"]) == (Kind.SYMLINK, Kind.DIRECTORY)
        assert manifest["format"] == "safekept-snapshot"
        assert not list(repository.storage.list(FileKind.LOCK)), "a look leaves no lock"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_that_the_disk_cannot_hold_is_named_and_the_rest_comes_back(say, here, home, monkeypatch):
    os.symlink("SOUL.md", os.path.join(home, "persona"))
    put(home, "SOUL.md", "me")
    assert say("snapshot", "create").code == 0
    shutil.rmtree(home)

    def no_symlinks(*arguments, **options):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "symlink", no_symlinks)
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 3, done
    assert "persona" in done.out + done.err and "has no symbolic links" in done.out + done.err, done
    assert read(home, "SOUL.md") == "me" and not os.path.lexists(os.path.join(home, "persona"))
