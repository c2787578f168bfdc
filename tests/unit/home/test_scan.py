"""The scanner: everything that is there becomes an entry or a remark, and nothing else is touched."""

from __future__ import annotations

import errno
import gc
import os
import socket
import stat

import pytest

from safekept.core.entries import Kind, Outcome
from safekept.home.scan.scanning import Selection
from support.home.scanned import HERMES, consume, look, paths, plant, read, remarks
from support.users.unprivileged import as_nobody, nobodys

__all__ = ["nobodys"]


def test_parents_come_first_and_names_are_sorted(tmp_path: object) -> None:
    home = plant(tmp_path, {"b/2": "x", "b/1": "x", "a": "x", "c/d/e": "x", "empty": None})
    assert paths(look(home)) == ["a", "b", "b/1", "b/2", "c", "c/d", "c/d/e", "empty"]


@pytest.mark.needs("modes", "it looks at modes")
def test_modes_times_and_empty_directories_are_seen(tmp_path: object) -> None:
    home = plant(tmp_path, {"run.sh": "x", "empty/inner": None})
    os.chmod(f"{home}/run.sh", 0o750)
    os.chmod(f"{home}/empty/inner", 0o711)
    os.utime(f"{home}/run.sh", ns=(1, -86_400_000_000_123))
    os.utime(f"{home}/empty/inner", ns=(1, 1_700_000_000_123_456_789))
    seen = {entry.path: entry for entry in look(home)}
    assert (seen["run.sh"].mode, seen["run.sh"].mtime_ns) == (0o750, -86_400_000_000_123)
    assert seen["empty/inner"].kind is Kind.DIRECTORY
    assert (seen["empty/inner"].mode, seen["empty/inner"].mtime_ns) == (0o711, 1_700_000_000_123_456_789)


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_odd_names_survive(tmp_path: object) -> None:
    names = [
        "new\nline",
        "q?#%20&=+",
        "sp ace ",
        "ünïcode",
        "\udcff\udcfe",
        "-dash",
        "[x]*",
        "a\\b",
        "~tilde",
    ]
    home = plant(tmp_path, {})
    for name in names:
        os.mkdir(os.path.join(home, "d" + name))
        with open(os.path.join(home, "d" + name, name), "wb") as file:
            file.write(os.fsencode(name))
    taken, said = consume(look(home))
    assert taken == {f"d{name}/{name}": os.fsencode(name) for name in names}
    assert said == []


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_a_home_whose_own_path_is_odd_is_read(tmp_path: object) -> None:
    home = plant(os.path.join(str(tmp_path), "a ?#%\n\udcff"), {"config.yaml": "a: 1"})
    taken, _ = consume(look(home))
    assert taken == {"config.yaml": b"a: 1"}


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_links_are_links_and_said_when_they_lead_away(tmp_path: object) -> None:
    # #66876: a linked skills tree was left out in silence; #25289: content from outside was stored.
    home = plant(os.path.join(str(tmp_path), "home"), {"inside/x": "x"})
    outside = plant(os.path.join(str(tmp_path), "outside"), {"secret": "s"})
    os.symlink(outside, f"{home}/skills")
    os.symlink("inside/x", f"{home}/near")
    os.symlink("nowhere", f"{home}/broken")
    os.symlink(f"{outside}/secret", f"{home}/file")
    source = look(home)
    seen = {entry.path: entry for entry in source}
    assert {path: entry.target for path, entry in seen.items() if entry.kind is Kind.SYMLINK} == {
        "skills": outside,
        "near": "inside/x",
        "broken": "nowhere",
        "file": f"{outside}/secret",
    }
    noted = remarks(source, Outcome.NOTED)
    assert set(noted) == {"broken", "file"}
    assert noted["file"].reason == (
        f"a link to `{outside}/secret`, outside this home: the link is kept, what it points to is not"
    )
    assert set(remarks(source, Outcome.OUTSIDE)) == {"skills"}
    assert "is not there" in noted["broken"].reason
    assert not any(path.startswith("skills/") for path in seen)


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_sockets_pipes_and_devices_are_passed_over(tmp_path: object) -> None:
    # #93347: every backup with the gateway running was "incomplete".
    home = plant(tmp_path, {"config.yaml": "x"})
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(home)
        try:
            server.bind("gateway.sock")
        finally:
            os.chdir(here)
        os.mkfifo(f"{home}/pipe")
        if os.getuid() == 0:
            os.mknod(f"{home}/null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        source = look(home)
        assert paths(source) == ["config.yaml"]
    passed = remarks(source, Outcome.PASSED_OVER)
    assert passed["gateway.sock"].reason == "a socket: there are no bytes to keep"
    assert "pipe" in passed
    assert ("null" in passed) == (os.getuid() == 0)
    assert not any(remark.incomplete for remark in source.remarks)


def test_every_exclusion_is_reported_once_with_count_and_bytes(tmp_path: object) -> None:
    home = plant(tmp_path, {"hermes-agent/a": "12345", "hermes-agent/b/c": "123", "config.yaml": "x"})
    source = look(home)
    assert paths(source) == ["config.yaml"]
    (remark,) = source.remarks
    assert (remark.path, remark.outcome, remark.files, remark.bytes) == (
        "hermes-agent",
        Outcome.EXCLUDED,
        2,
        8,
    )
    assert remark.reason == "Hermes's own code; `hermes update` brings it back"


def test_what_looks_like_junk_inside_skills_stays(tmp_path: object) -> None:
    kept = [
        "skills/foo/backups/x",  # V-02
        "skills/foo/checkpoints/x",
        "skills/foo/venv/x",
        "skills/foo/.cache/x",
        "skills/foo/site-packages/x",
        "skills/foo/.git/HEAD",
        "skills/foo/node_modules/x",  # no package.json beside it
        "skills/autonomous-ai-agents/hermes-agent/SKILL.md",  # #35376(2), V-01
        "profiles/coder/skills/hermes-agent/SKILL.md",
        "cache/images/sent.png",
        "cache/web/page.md",
        "bin/my-own-tool",
        "node/notes.txt",  # not a Node runtime
        "sandboxes/docker/x",
    ]
    home = plant(tmp_path, dict.fromkeys(kept, "x"))
    source = look(home)
    assert [entry.path for entry in source if entry.kind is Kind.FILE] == sorted(kept, key=_walk_order)
    assert source.remarks == []


def _walk_order(path: str) -> list[tuple[bool, str]]:
    *parents, name = path.split("/")
    return [*((True, parent) for parent in parents), (False, name)]


def test_trees_that_prove_what_they_are_stay_out_at_any_depth(tmp_path: object) -> None:
    tag = "Signature: 8a477f597d28d172789f06886806bc55\n# made by a tool\n"
    home = plant(
        tmp_path,
        {
            "plugins/a/anyname/pyvenv.cfg": "home = /usr",
            "plugins/a/anyname/lib/x.py": "x",
            "plugins/a/package.json": "{}",
            "plugins/a/node_modules/left/pad.js": "x",
            "plugins/a/__pycache__/x.pyc": "x",
            "plugins/a/cachey/CACHEDIR.TAG": tag,
            "plugins/a/notcachey/CACHEDIR.TAG": "something else",
            "plugins/a/main.py": "x",
            "node/bin/node": "x",
            "profiles/c/cache/browser/Local State": "{}",
            "profiles/c/cache/browser/Default/Cookies": "x",
            "documents/Local State": "mine",
        },
    )
    source = look(home)
    assert [entry.path for entry in source if entry.kind is Kind.FILE] == [
        "documents/Local State",
        "plugins/a/main.py",
        "plugins/a/package.json",
        "plugins/a/notcachey/CACHEDIR.TAG",
    ]
    assert set(remarks(source, Outcome.EXCLUDED)) == {
        "plugins/a/anyname",
        "plugins/a/node_modules",
        "plugins/a/__pycache__",
        "plugins/a/cachey",
        "node",
        "profiles/c/cache/browser",
    }
    assert remarks(source, Outcome.EXCLUDED)["plugins/a/anyname"].files == 2


def test_counting_what_is_left_out_stops_after_a_moment(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safekept.home.scan.frame._MOST_ENTRIES", 5)
    home = plant(tmp_path, {"config.yaml": "x", **{f"hermes-agent/{number}/x": "x" for number in range(20)}})
    source = look(home)
    list(source)
    (remark,) = source.remarks
    assert remark.files < 20
    assert "at least" in remark.reason


def test_our_own_work_area_never_comes_along(tmp_path: object) -> None:
    home = plant(
        tmp_path,
        {".safekept/manifest.json": "x", ".safekept-tmp-1-ab": "x", "a/.safekept-tmp-2-cd": "x", "b": "x"},
    )
    assert paths(look(home, Selection(include=(".safekept", "**/.safekept-tmp-*")))) == ["b", "a"]


def test_a_database_of_another_kind_is_plain_bytes(tmp_path: object) -> None:
    # #75724: one BoltDB file threw away the whole archive, 23 times.
    bolt = b"\x00" * 16 + b"\xed\xda\x0c\xed" + b"\x01" * 4076
    home = plant(tmp_path, {"plugins/diun/diun.db": bolt, "odd.db": b"SQLite format 3"})
    source = look(home)
    assert not any(entry.database for entry in source)
    taken, said = consume(source)
    assert taken == {"plugins/diun/diun.db": bolt, "odd.db": b"SQLite format 3"}
    assert said == []


def test_a_mount_point_is_entered_and_said(tmp_path: object, small_filesystem: object) -> None:
    outer = small_filesystem(256)  # type: ignore[operator]
    home = plant(os.path.dirname(outer), {"config.yaml": "x"})
    plant(outer, {"inside": "x"})
    source = look(home)
    name = os.path.basename(outer)
    assert f"{name}/inside" in paths(source)
    assert "another filesystem" in remarks(source, Outcome.NOTED)[name].reason


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_the_output_and_our_stores_are_never_inside(tmp_path: object) -> None:
    home = plant(tmp_path, {"out.zip": "old", "vault/data": "x", "vault2": "x", "keep": "x"})
    os.symlink(f"{home}/vault", f"{home}/link-to-vault")
    avoid = [f"{home}/out.zip", f"{home}/link-to-vault", f"{home}/not/yet.zip", "/elsewhere"]
    source = look(home, Selection(include=("/vault", "/out.zip")), avoid=avoid)
    plant(home, {"not/yet.zip": "half", "not/other": "x"})
    assert paths(source) == ["keep", "vault2", "not", "not/other"]
    excluded = remarks(source, Outcome.EXCLUDED)
    assert {"out.zip", "vault", "not/yet.zip"} <= set(excluded)
    assert "where this backup" in excluded["vault"].reason


@pytest.mark.needs("hard-links", "it makes a second name of a file")
def test_a_hard_link_to_the_output_is_known_by_its_identity(tmp_path: object) -> None:
    home = plant(os.path.join(str(tmp_path), "home"), {"keep": "x"})
    elsewhere = plant(os.path.join(str(tmp_path), "else"), {"out.zip": "x"})
    os.link(f"{elsewhere}/out.zip", f"{home}/same")
    assert paths(look(home, avoid=[f"{elsewhere}/out.zip"])) == ["keep"]


def test_a_dry_run_selects_what_a_run_reads(hermes_home: str) -> None:
    source = look(hermes_home)
    planned = [entry.path for entry in source if entry.kind is Kind.FILE]
    planned_remarks = list(source.remarks)
    files, size = source.measure()
    taken, _ = consume(source)
    assert list(taken) == planned
    assert source.remarks == planned_remarks
    links = sum(entry.kind is Kind.SYMLINK for entry in source)
    assert files == len(planned) + links
    assert size == sum(entry.size for entry in source)


def test_nothing_is_left_open_and_the_home_is_untouched(hermes_home: str) -> None:
    before = {path: os.lstat(path) for path in _everything(hermes_home)}
    gc.collect()  # what earlier tests left may not go in the middle of this one
    descriptors = len(os.listdir("/proc/self/fd"))
    consume(look(hermes_home))
    iterator = iter(look(hermes_home))
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == descriptors
    after = {path: os.lstat(path) for path in _everything(hermes_home)}
    assert before.keys() == after.keys()
    for path, status in after.items():
        assert (status.st_ino, status.st_mtime_ns, status.st_mode, status.st_size) == (
            before[path].st_ino,
            before[path].st_mtime_ns,
            before[path].st_mode,
            before[path].st_size,
        )


def _everything(root: str) -> list[str]:
    return [os.path.join(parent, name) for parent, down, up in os.walk(root) for name in down + up]


def test_a_tree_deeper_than_descriptors_and_path_lengths_allow(tmp_path: object) -> None:
    home = plant(tmp_path, {"config.yaml": "x"})
    directory = os.open(home, os.O_RDONLY)
    for _ in range(150):
        name = "d" * 40
        os.mkdir(name, dir_fd=directory)
        below = os.open(name, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    written = os.open("leaf", os.O_WRONLY | os.O_CREAT, dir_fd=directory)
    os.write(written, b"deep")
    os.close(written)
    os.close(directory)
    try:
        taken, said = consume(look(home))
        leaf = "/".join(["d" * 40] * 150 + ["leaf"])
        assert len(leaf) > 4096
        assert taken[leaf] == b"deep"
        assert said == []
    finally:
        _remove_deep(home)


def _remove_deep(home: str) -> None:
    """`rmtree` by path names cannot go so deep."""
    chain = [os.open(home, os.O_RDONLY)]
    try:
        while True:
            chain.append(os.open("d" * 40, os.O_RDONLY, dir_fd=chain[-1]))
    except FileNotFoundError:
        os.unlink("leaf", dir_fd=chain[-1])
    while len(chain) > 1:
        os.close(chain.pop())
        os.rmdir("d" * 40, dir_fd=chain[-1])
    os.close(chain.pop())


@pytest.mark.needs("owners", "it gives files to another user")
def test_what_may_not_be_read_is_named_and_the_rest_is_taken(nobodys: str) -> None:
    home = plant(nobodys, {"closed/x": "x", "shut": "x", "open/y": "y", "blind/z": "z"})
    os.chmod(f"{home}/closed", 0)
    os.chmod(f"{home}/shut", 0)
    os.chmod(f"{home}/blind", 0o444)  # names can be seen, nothing else

    def attempt() -> tuple[dict[str, bytes], list[str], list[tuple[str, str, str]]]:
        source = look(home)
        taken, said = consume(source)
        told = [(remark.path, remark.outcome.value, remark.reason) for remark in [*source.remarks, *said]]
        return taken, paths(source), told

    taken, seen, told = as_nobody(attempt)
    assert taken == {"open/y": b"y"}
    assert seen == ["shut", "blind", "closed", "open", "open/y"]  # the directories exist, with their modes
    assert sorted(told) == [
        ("blind/z", "unreadable", "cannot be read: Permission denied"),
        ("closed", "unreadable", "cannot be read: Permission denied"),
        ("shut", "unreadable", "cannot be read: Permission denied"),
    ]


def test_what_vanishes_during_the_scan_is_not_an_error(tmp_path: object) -> None:
    # #118062, #82042: a complete archive was reported partial.
    home = plant(tmp_path, {"a/x": "x", "b/y": "y", "desktop/interrupted_turns.json": "{}"})
    source = look(home)
    iterator = iter(source)
    assert next(iterator).path == "a"
    os.unlink(f"{home}/desktop/interrupted_turns.json")
    os.unlink(f"{home}/b/y")
    os.rmdir(f"{home}/b")
    assert [entry.path for entry in iterator] == ["a/x", "desktop"]
    assert [remark.outcome for remark in source.remarks] == [Outcome.GONE]
    assert not any(remark.incomplete for remark in source.remarks)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_directory_swapped_for_a_link_is_not_followed(tmp_path: object) -> None:
    home = plant(os.path.join(str(tmp_path), "home"), {"a/x": "x", "b/secret": "mine"})
    outside = plant(os.path.join(str(tmp_path), "outside"), {"secret": "theirs"})
    source = look(home)
    iterator = iter(source)
    assert next(iterator).path == "a"
    os.rename(f"{home}/b", f"{home}/was-b")
    os.symlink(outside, f"{home}/b")
    assert [entry.path for entry in iterator] == ["a/x"]
    assert remarks(source, Outcome.GONE)["b"].reason == "vanished during the scan"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_file_behind_a_swapped_directory_is_not_read_elsewhere(tmp_path: object) -> None:
    home = plant(os.path.join(str(tmp_path), "home"), {"b/secret": "mine"})
    outside = plant(os.path.join(str(tmp_path), "outside"), {"secret": "theirs"})
    entry = next(entry for entry in look(home) if entry.path == "b/secret")
    os.rename(f"{home}/b", f"{home}/was-b")
    os.symlink(outside, f"{home}/b")
    data, said = read(entry)
    assert data is None
    assert said[0].outcome is Outcome.GONE


def test_a_postgres_cluster_is_said_to_be_unprotected(tmp_path: object) -> None:
    home = plant(tmp_path, {"pg/PG_VERSION": "16", "pg/base/1": "x"})
    source = look(home)
    assert "pg/base/1" in paths(source)
    assert "may not start" in remarks(source, Outcome.NOTED)["pg"].reason


def test_provider_state_outside_the_home_comes_along(tmp_path: object) -> None:
    # #50325
    user = plant(
        tmp_path,
        {
            ".hermes/config.yaml": "memory:\n  provider: honcho\n",
            ".hermes/profiles/c/config.yaml": "memory: {provider: openviking}\n",
            ".honcho/config.json": "{}",
            ".honcho/deep/x": "x",
            ".openviking/ovcli.conf": "conf",
            ".openviking/other": "no",
            ".hindsight/config.json": "not active",
        },
    )
    source = look(f"{user}/.hermes", user_home=user)
    taken, _ = consume(source)
    outside = {path: data for path, data in taken.items() if path.startswith("_external/")}
    assert outside == {
        "_external/.honcho/config.json": b"{}",
        "_external/.honcho/deep/x": b"x",
        "_external/.openviking/ovcli.conf": b"conf",
    }
    assert "_external/.honcho" in paths(source)
    bare = look(
        f"{user}/.hermes", Selection(secrets=False, exclude=("/_external/.honcho/deep",)), user_home=user
    )
    assert [path for path in paths(bare) if path.startswith("_external")] == ["_external/.honcho"]


def test_only_one_profile_brings_only_its_provider(tmp_path: object) -> None:
    user = plant(
        tmp_path,
        {
            ".hermes/config.yaml": "memory:\n  provider: honcho\n",
            ".hermes/profiles/c/config.yaml": "memory: {provider: hindsight}\n",
            ".honcho/config.json": "{}",
            ".hindsight/config.json": "{}",
        },
    )
    source = look(f"{user}/.hermes", Selection(profile="c"), user_home=user)
    assert paths(source) == [
        "profiles",
        "profiles/c",
        "profiles/c/config.yaml",
        "_external/.hindsight",
        "_external/.hindsight/config.json",
    ]
    assert "PostgreSQL" in remarks(source, Outcome.NOTED)["_external/.hindsight"].reason


def test_provider_state_beyond_the_users_home_is_left_and_said(tmp_path: object) -> None:
    user = plant(
        os.path.join(str(tmp_path), "user"), {".hermes/config.yaml": "memory: {provider: openviking}"}
    )
    far = plant(os.path.join(str(tmp_path), "far"), {"ov.conf": "x"})
    environment = {"OPENVIKING_CLI_CONFIG_FILE": f"{far}/ov.conf"}
    source = look(f"{user}/.hermes", user_home=user, environment=environment)
    assert paths(source) == ["config.yaml"]
    assert "outside the user's home directory" in source.remarks[0].reason


@pytest.mark.parametrize(
    "text", ["memory: [", "memory: honcho", "honcho", "", "\xff", "memory: {provider: [honcho]}"]
)
def test_settings_that_cannot_be_understood_bring_nothing(tmp_path: object, text: str) -> None:
    user = plant(tmp_path, {".hermes/config.yaml": text.encode("latin-1"), ".honcho/config.json": "{}"})
    assert paths(look(f"{user}/.hermes", user_home=user)) == ["config.yaml"]


def test_of_a_setting_given_twice_the_last_one_holds(tmp_path: object) -> None:
    text = "memory: {provider: honcho}\nmemory:\n  provider: hindsight\n"
    user = plant(tmp_path, {".hermes/config.yaml": text, ".honcho/x": "x", ".hindsight/x": "x"})
    assert "_external/.hindsight/x" in paths(look(f"{user}/.hermes", user_home=user))
    assert "_external/.honcho/x" not in paths(look(f"{user}/.hermes", user_home=user))


def test_events_tell_how_far_the_scan_is(tmp_path: object) -> None:
    home = plant(tmp_path, {f"d{number % 7}/f{number}": "x" for number in range(1500)})
    events: list[object] = []
    list(look(home, listener=events.append))
    assert events
    assert all(event.phase == "scan" and event.unit == "files" for event in events)  # type: ignore[attr-defined]


def test_layouts_without_profiles_have_none(tmp_path: object) -> None:
    from safekept.home.layout.layout import load_layouts

    home = plant(tmp_path, {"profiles/x/.credentials.json": "k", ".credentials.json": "k"})
    layout = load_layouts()["claude-code"]
    source = look(home, Selection(secrets=False), layout=layout)
    assert paths(source) == ["profiles", "profiles/x", "profiles/x/.credentials.json"]
    assert HERMES.profiles == "profiles"


ESSENTIAL = {
    "state.db": "state.db",
    "SOUL.md": "persona.md",
    "memories": "notes/",
    "skills": "abilities/",
    "skills/x/helper": "tools/",
    ".env": "secrets",
    "profiles/coder": "coder/",
}


@pytest.mark.parametrize("link", ESSENTIAL)
@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_what_matters_behind_a_link_out_of_the_home_is_incomplete(tmp_path: object, link: str) -> None:
    place = ESSENTIAL[link]
    home = plant(os.path.join(str(tmp_path), "home"), {"config.yaml": "a: 1"})
    outside = plant(os.path.join(str(tmp_path), "outside"), {place + ("x" if "/" in place else ""): "y"})
    os.makedirs(os.path.dirname(f"{home}/{link}"), exist_ok=True)
    os.symlink(f"{outside}/{place}", f"{home}/{link}")
    source = look(home)
    consume(source)
    (remark,) = remarks(source, Outcome.OUTSIDE).values()
    assert remark.path == link
    assert remark.incomplete
    assert f"`{outside}/{place}`" in remark.reason
    assert f"`--exclude /{link}`" in remark.reason


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_that_is_swapped_while_it_is_followed_stops_no_scan(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own `realpath` looks twice, and raises where the link is gone at its second look."""
    home = plant(os.path.join(str(tmp_path), "home"), {"config.yaml": "a: 1", "inside": "x"})
    os.symlink("inside", f"{home}/SOUL.md")
    readlink = os.readlink

    def swapped(path: str, *, dir_fd: int | None = None) -> str:
        if dir_fd is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return readlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "readlink", swapped)
    source = look(home)
    consume(source)
    assert remarks(source, Outcome.OUTSIDE)["SOUL.md"].incomplete  # nobody knows where it leads


@pytest.mark.parametrize("left_out", [errno.ENOENT, errno.EINVAL])
@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_that_is_none_any_more_is_named(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, left_out: int
) -> None:
    home = plant(os.path.join(str(tmp_path), "home"), {"config.yaml": "a: 1", "inside": "x"})
    os.symlink("inside", f"{home}/SOUL.md")

    def swapped(path: str, *, dir_fd: int | None = None) -> str:
        raise OSError(left_out, os.strerror(left_out), path)

    monkeypatch.setattr(os, "readlink", swapped)
    source = look(home)
    consume(source)
    outcome = Outcome.GONE if left_out == errno.ENOENT else Outcome.UNREADABLE
    assert remarks(source, outcome)["SOUL.md"].incomplete is (left_out == errno.EINVAL)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_other_links_out_of_the_home_are_only_noted(tmp_path: object) -> None:
    home = plant(os.path.join(str(tmp_path), "home"), {"config.yaml": "a: 1"})
    outside = plant(os.path.join(str(tmp_path), "outside"), {"x": "y"})
    os.symlink(outside, f"{home}/workspace")
    os.symlink(f"{outside}/x", f"{home}/note")
    source = look(home)
    consume(source)
    assert not any(remark.incomplete for remark in source.remarks)
    assert set(remarks(source, Outcome.NOTED)) == {"workspace", "note"}


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_into_provider_state_that_comes_along_is_covered(tmp_path: object) -> None:
    user = os.path.join(str(tmp_path), "user")
    home = plant(f"{user}/.hermes", {"config.yaml": "memory:\n  provider: honcho\n"})
    plant(f"{user}/.honcho", {"config.json": "{}"})
    os.symlink(f"{user}/.honcho/config.json", f"{home}/honcho.json")
    source = look(home, user_home=user)
    consume(source)
    assert not any(remark.incomplete for remark in source.remarks)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_the_census_knows_nothing_of_what_is_behind_links(tmp_path: object) -> None:
    home = plant(
        os.path.join(str(tmp_path), "home"),
        {"skills/a/SKILL.md": "x", "data/jobs.json": "[1]", "profiles/one/config.yaml": "a: 1"},
    )
    outside = plant(os.path.join(str(tmp_path), "outside"), {"memories/MEMORY.md": "x", "b/SKILL.md": "y"})
    os.mkdir(f"{home}/cron")
    os.symlink("../data/jobs.json", f"{home}/cron/jobs.json")
    os.symlink(f"{outside}/memories", f"{home}/memories")
    os.symlink(f"{outside}/gone.yaml", f"{home}/config.yaml")
    os.symlink(f"{outside}/b", f"{home}/profiles/one/skills")
    os.symlink(f"{outside}", f"{home}/profiles/two")
    source = look(home)
    consume(source)
    census = source.census()
    default = census["default"]
    assert (default["memories"], default["settings"], default["cron_jobs"]) == (None, None, None)
    assert (default["skills"], default["sessions"]) == (1, 0)
    assert (census["profiles/one"]["skills"], census["profiles/one"]["settings"]) == (None, 1)
    assert set(census["profiles/two"].values()) == {None}


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_profiles_behind_a_link_are_named_and_not_counted(tmp_path: object) -> None:
    home = plant(os.path.join(str(tmp_path), "home"), {"config.yaml": "a: 1"})
    outside = plant(os.path.join(str(tmp_path), "outside"), {"coder/config.yaml": "a: 1"})
    os.symlink(outside, f"{home}/profiles")
    source = look(home)
    consume(source)
    assert set(remarks(source, Outcome.OUTSIDE)) == {"profiles"}
    assert source.census()["default"]["settings"] == 1
    assert set(source.census()["profiles/coder"].values()) == {None}


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_known_database_behind_a_broken_link_is_incomplete(tmp_path: object) -> None:
    # A disk that is not mounted: the chat history is somewhere, and not in this backup.
    home = plant(tmp_path, {"config.yaml": "a: 1"})
    os.symlink("/nowhere/state.db", f"{home}/state.db")
    os.symlink("/nowhere/x", f"{home}/broken")
    source = look(home)
    consume(source)
    assert set(remarks(source, Outcome.OUTSIDE)) == {"state.db"}
    assert "is not there" in remarks(source, Outcome.OUTSIDE)["state.db"].reason
    assert source.census()["default"]["sessions"] is None


def test_archives_of_our_own_making_are_not_packed_again(tmp_path: object) -> None:
    home = plant(
        tmp_path,
        {"out/old.zip": "ours", "out/old.tar.zst": "ours!", "out/theirs.zip": "t", "out/ours.txt": "ours"},
    )
    asked: list[str] = []

    def own_archive(path: str) -> bool:
        asked.append(path)
        return "old" in path

    source = look(home, own_archive=own_archive)
    assert paths(source) == ["out", "out/ours.txt", "out/theirs.zip"]
    assert sorted(asked) == [f"{home}/out/{name}" for name in ("old.tar.zst", "old.zip", "theirs.zip")]
    left = remarks(source, Outcome.EXCLUDED)
    assert {path: (remark.reason, remark.bytes) for path, remark in left.items()} == {
        "out/old.zip": ("an older archive that safekept made", 4),
        "out/old.tar.zst": ("an older archive that safekept made", 5),
    }
    wanted = look(home, Selection(include=("/out/old.zip",)), own_archive=own_archive)
    assert "out/old.zip" in paths(wanted)
