"""Vaults on a real server for restic (`rclone serve restic`), also one that can only be added to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import replace

import pytest

from safekept.actions.offsite.destination import VAULT, DestinationSetting
from safekept.actions.offsite.destinations import contents_of, examine_destination, last_push, record_rights
from safekept.actions.offsite.elsewhere import not_elsewhere
from safekept.actions.offsite.fleet import FleetRequest, look_at_fleet
from safekept.actions.offsite.pull import PullRequest, pull
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.status.destination_status import destination_statuses
from safekept.actions.status.recent import recent
from safekept.actions.vault.keys.kit_commands import copies_of
from safekept.actions.vault.opening import make_vault, open_vault
from safekept.core.objects.base import Taken
from safekept.core.objects.errors import PlaceRefused, PlaceUnreachable
from safekept.vault.care import carry_out, check, forget, plan_prune
from safekept.vault.marks import Mark, read_marks, write_mark
from safekept.vault.snapshots import list_snapshots
from support.commands.in_process import spoken
from support.offsite.fault_proxy import FaultProxy, Status
from support.offsite.pushes import machine, one_more, pointed, proven_copy, survived_by
from support.offsite.servers import RestServer, find_program
from support.restoring.rebuilds import equal, lose_a_machine
from support.users.contexts import throwaway
from support.vault.vaults import read_all, save_files, some_files

SECRET = RestServer.PASSWORD


@pytest.fixture(scope="module")
def vault_here(tmp_path_factory):
    """One machine with a vault for the whole module; tests add to it, and none takes anything away."""
    return machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture
def place(rest_server):
    return rest_server.place()


def restic(server, place, directory, key_file, tmp_path):
    """Runs restic itself on a vault that lies there."""
    program = find_program("restic")
    environment = {**place.environment, "RESTIC_CACHE_DIR": str(tmp_path / "restic-cache")}

    def run(*words):
        command = [program, "-r", server.restic(place, directory), "--password-file", key_file, "-q", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def files_in(directory):
    return {
        os.path.relpath(os.path.join(at, name), directory): os.path.join(at, name)
        for at, _, names in os.walk(directory)
        for name in names
    }


def pin(context):
    """Say something of the oldest snapshot that is no part of restic's format."""
    with open_vault(context) as repository:
        snapshots, _ = list_snapshots(repository)
        return write_mark(repository, Mark(snapshots[0].id, "pin", "", 1_794_000_000 * 10**9)).id


def test_a_push_the_way_back_and_restic_in_between(vault_here, rest_server, place, tmp_path):
    here = pointed(vault_here, place, takes=(VAULT,))
    assert push(here, PushRequest("far")).complete
    mark = pin(here)
    one_more(here, 50)
    second = push(here, PushRequest("far"))
    assert (second.mirrored.snapshots, second.mirrored.files >= 3) == (1, True)
    assert push(here, PushRequest("far")).mirrored.files == 0
    assert proven_copy(here, "far") >= 3
    with open_vault(here) as own:
        directory = own.id[:16]
    run = restic(rest_server, place, directory, here.places.vault_key_file, tmp_path)
    run("check", "--read-data")
    run("restore", "latest", "--target", str(tmp_path / "restored"))
    assert len(json.loads(run("snapshots", "--json"))) == proven_copy(here, "far")
    # A machine that has only the key, and the name of the place: not the vault's directory in it.
    bare = throwaway(tmp_path / "bare").changed(
        destinations=here.choices.destinations, environment=here.caller.environment
    )
    shutil.copytree(os.path.dirname(here.places.vault_key_file), os.path.dirname(bare.places.vault_key_file))
    assert pull(bare, PullRequest("far")).opens is True
    with open_vault(bare) as fetched, open_vault(here) as own:
        assert read_all(fetched) == read_all(own)
        assert mark in read_marks(fetched).texts, "what is said of a snapshot comes along"
    found = contents_of(here, "far")
    assert [(vault.directory, vault.whole) for vault in found.vaults] == [(directory, True)]
    fleet = look_at_fleet(here, FleetRequest("far"))
    assert [(vault.directory, vault.state) for vault in fleet.vaults] == [(directory, "open")]
    assert fleet.vaults[0].bytes > 100_000 and fleet.vaults[0].snapshots == found.vaults[0].snapshots


def test_what_the_credential_may_do_is_told_by_having_tried(vault_here, rest_server, adding_server):
    free, held = pointed(vault_here, rest_server.place()), pointed(vault_here, adding_server.place())
    for here, may in ((held, False), (free, True)):
        tested = examine_destination(here, "far")
        assert (tested.state, tested.reason) == ("usable", "")
        assert (tested.abilities.delete, tested.abilities.overwrite) == (may, may)
        assert tested.abilities.keeps is not may
        assert bool(tested.abilities.left) is not may
        # What was tried by hand is what status says, as long as no push has tried since.
        record_rights(here, tested)
        (status,) = destination_statuses(here, recent(here))
        assert status.keeps is not may and time.time() - status.tried < 60


def test_nights_at_a_server_that_can_only_be_added_to(vault_here, adding_server, tmp_path):
    place = adding_server.place()
    here = pointed(vault_here, place, takes=(VAULT,))
    for night in range(3):
        one_more(here, 60 + night)
        assert push(here, PushRequest("far")).complete
    proven_copy(here, "far")
    last = last_push(here, "far")
    assert last.rights["keeps"] is True
    (status,) = destination_statuses(here, recent(here))
    assert status.keeps and status.tried == last.done and not status.versions
    assert survived_by(here).step == "append-only"
    with contextlib.closing(place.open()) as objects:
        (name, *_) = [one.name for one in objects.list() if "/data/" in one.name]
        with pytest.raises(PlaceRefused, match=r"does not let us delete .*: Forbidden \(403\)"):
            objects.delete(name)
        with pytest.raises(PlaceRefused, match="it can only be added to"):
            objects.write(name, b"other", replace=True)
        objects.write(name, objects.read(name), replace=True)  # the same again is no replacement
        with pytest.raises(Taken):
            objects.write(name, b"other")
    with open_vault(here) as own:
        run = restic(adding_server, place, own.id[:16], here.places.vault_key_file, tmp_path)
    run("check", "--read-data")


def test_archives_do_not_go_there_and_that_is_said(vault_here, place, tmp_path):
    archive = tmp_path / "hermes-backup-2026-11-15-033000.zip.age"
    archive.write_bytes(b"age-encryption.org/v1\n-> X25519 abc\n")
    here = pointed(vault_here, place, takes=(VAULT,))
    done = push(here, PushRequest("far", archives=(str(archive),)))
    assert done.state == "incomplete" and done.mirrored is not None
    assert done.notes == ["`far` takes no archives (it keeps vaults only)"]
    with contextlib.closing(place.open()) as objects:
        with pytest.raises(PlaceRefused, match="a REST server keeps vaults and nothing else"):
            objects.write("archives/host/x.zip.age", b"x")
    assert "archives" not in os.listdir(place.directory)


def as_rest_server(place):
    """A rule for what `rest-server` refuses and rclone does not: it checks paths, and never writes over."""
    shape = re.compile(r"(?:/[^/]+){0,2}/(?:config|(?:data|index|keys|locks|snapshots)/(?:[0-9a-f]{64})?)?")

    def rule(request):
        path = request.path.partition("?")[0]
        if not shape.fullmatch(path):
            return Status(404)
        disk = os.path.join(os.path.dirname(place.directory), path.strip("/"))
        if path.endswith("/config") and request.method == "POST" and not os.path.isdir(os.path.dirname(disk)):
            return Status(500)
        kind, name = os.path.split(disk)
        disk = os.path.join(kind, name[:2], name) if kind.endswith("/data") else disk
        if request.method == "POST" and os.path.isfile(disk):
            return Status(403)
        if request.method == "GET" and path.endswith("/") and not os.path.isdir(disk):
            return Status(404)
        return None

    return rule


def test_a_push_keeps_to_what_rest_server_allows(vault_here, rest_server):
    with FaultProxy(rest_server.port) as proxy:
        place = rest_server.place(proxy.port)
        proxy.rule = as_rest_server(place)
        here = pointed(vault_here, place, takes=(VAULT,))
        pin(here)
        assert push(here, PushRequest("far")).complete
        one_more(here, 80)
        assert push(here, PushRequest("far")).complete
        proven_copy(here, "far")
        assert [vault.whole for vault in contents_of(here, "far").vaults] == [True]
        rights = examine_destination(here, "far").abilities
        assert (rights.overwrite, rights.delete, rights.write_once) == (True, True, True)
    for name, path in files_in(place.directory).items():
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        # It holds every file but `config` against its name.
        assert os.path.basename(name) in ("config", digest), name


def test_the_vault_itself_may_live_there(rest_server, place, tmp_path):
    here = throwaway(tmp_path, vault=f"{place.url}/own", environment=place.environment)
    with make_vault(here) as repository:
        for number in range(3):
            save_files(repository, some_files(number), time_ns=(1_794_000_000 + number) * 10**9)
    mark = pin(here)
    with open_vault(here) as repository:
        assert mark in read_marks(repository).texts
        snapshots, _ = list_snapshots(repository)
        now = 1_794_100_000 * 10**9
        with repository.lock(exclusive=True) as lock:
            forget(repository, snapshots[-1:], lock, now_ns=now)
            plan = plan_prune(repository, now_ns=now + 10**15, grace=0, max_unused=0)
            assert carry_out(repository, plan, lock).packs_deleted
    run = restic(rest_server, place, "own", here.places.vault_key_file, tmp_path)
    run("check", "--read-data")
    run("unlock")
    run("snapshots")
    with open_vault(here) as repository:
        save_files(repository, some_files(7), time_ns=1_794_000_100 * 10**9)
        assert [finding.what for finding in check(repository, read_data=1.0).damage] == []
    assert sorted(os.listdir(place.directory)) == ["own", "own-escrow", "own-marks"]


def test_a_bare_machine_is_rebuilt_from_the_address_alone(rest_server, place, tmp_path, monkeypatch):
    gone = lose_a_machine(str(tmp_path / "gone"), small=True)
    here = pointed(gone.here, place, takes=(VAULT,))
    with open_vault(here) as repository:
        vault = repository.id
        assert copies_of(here, repository) == [
            f"{place.url} (for restic: VAULT={place.url.replace('@', ':PASSWORD@')}/{vault[:16]})"
        ]
    with open(os.path.join(here.places.data_directory, "kits.json"), "w") as file:
        json.dump({"version": 1, "vaults": {vault: {"acknowledged": 1.0}}}, file)
    done = push(here, PushRequest("far"))
    assert done.complete
    bare = tmp_path / "bare"
    bare.mkdir()
    netrc = bare / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login {RestServer.USER} password {SECRET}\n")
    netrc.chmod(0o600)
    say = spoken(monkeypatch, str(bare))
    answer = say("rebuild", place.url, "--key-file", gone.key, "--json")
    assert answer.code == 0, answer.err + answer.out
    equal(gone.home, str(bare / ".hermes"))
    assert SECRET not in answer.out + answer.err


# The password


def told(error):
    return "\n".join([str(error), repr(error), str(error.as_dict()), repr(error.__context__)])


def test_a_wrong_password_is_a_clear_error_and_is_nowhere(vault_here, place):
    wrong = {**place.environment, "RESTIC_REST_PASSWORD": "hunter2-hunter2"}
    here = pointed(vault_here, replace(place, environment=wrong))
    with pytest.raises(
        PlaceRefused, match=r"the user or the password is wrong: Unauthorized \(401\)"
    ) as raised:
        push(here, PushRequest("far"))
    with open(here.journal.path) as journal:
        assert "hunter2" not in journal.read() + told(raised.value)


def test_without_a_password_it_is_said_where_it_belongs(place, rest_server):
    without = {name: value for name, value in place.environment.items() if "REST" not in name}
    nobody = place.url.replace(f"{RestServer.USER}@", "")
    for url, who in ((place.url, RestServer.USER), (nobody, "USER")):
        with contextlib.closing(replace(place, url=url, environment=without).open()) as objects:
            with pytest.raises(PlaceRefused) as raised:
                objects.exists("config")
            line = f"`machine 127.0.0.1 login {who} password PASSWORD`"
            assert line in raised.value.advice()[0] and "RESTIC_REST_PASSWORD" in raised.value.advice()[1]


def test_the_password_comes_from_a_netrc_that_nobody_else_can_read(place, tmp_path):
    path = tmp_path / ".netrc"
    path.write_text(f"machine 127.0.0.1 login {RestServer.USER} password {SECRET}\n")
    without = {name: value for name, value in place.environment.items() if "REST" not in name}
    with_netrc = replace(place, environment={**without, "HOME": str(tmp_path)})
    path.chmod(0o644)
    with contextlib.closing(with_netrc.open()) as objects:
        with pytest.raises(PlaceRefused, match=f"others can read `{path}`"):
            objects.exists("config")
    path.chmod(0o600)
    with contextlib.closing(with_netrc.open()) as objects:
        assert not objects.exists("config")
    path.write_text(f"machine 127.0.0.1 login x {SECRET}\n")
    with contextlib.closing(with_netrc.open()) as objects:
        with pytest.raises(PlaceRefused, match="netrc` cannot be understood") as raised:
            objects.exists("config")
    assert SECRET not in told(raised.value)


def test_no_secret_is_in_any_result_journal_or_process_list(vault_here, place):
    here = pointed(vault_here, place, takes=(VAULT,))
    said = str(push(here, PushRequest("far")).as_dict())
    said += str(examine_destination(here, "far").as_dict()) + str(contents_of(here, "far").as_dict())
    with open(here.journal.path) as journal:
        said += journal.read()
    with contextlib.closing(place.open()) as objects:
        said += repr(objects) + objects.location
    with open("/proc/self/cmdline") as file:
        said += file.read()
    assert SECRET not in said


# The connection


def test_over_tls_the_servers_own_certificate_is_named_or_refused(server_root, vault_here, tmp_path):
    certificate, key = str(tmp_path / "server.pem"), str(tmp_path / "server.key")
    words = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=here -addext subjectAltName=IP:127.0.0.1"
    )
    command = [*words.split(), "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    server = RestServer(str(tmp_path), "--cert", certificate, "--key", key)
    try:
        place = server.place()
        place = replace(place, url=place.url.replace("http:", "https:"))
        with contextlib.closing(place.open()) as objects:
            with pytest.raises(PlaceRefused, match="its certificate is not trusted") as raised:
                objects.exists("config")
            assert "`ca_file`" in raised.value.advice()[0]
        trusting = replace(place, options=replace(place.options, ca_file=certificate))
        here = pointed(vault_here, trusting, takes=(VAULT,))
        assert push(here, PushRequest("far")).complete
        proven_copy(here, "far")
    finally:
        server.end()


def test_a_server_that_is_not_there_is_unreachable(rest_server):
    place = rest_server.place()
    away = replace(place, url=re.sub(r":\d+/", ":9/", place.url))
    with contextlib.closing(away.open(patience=0.1)) as objects:
        with pytest.raises(PlaceUnreachable, match="connection refused"):
            objects.exists("config")


def test_a_server_on_this_machine_is_no_copy_elsewhere(vault_here, place):
    far = DestinationSetting("far", "rest:https://ada@nas.example.org:8000/ada/", (VAULT,))
    assert not_elsewhere(vault_here, far) == ""
    assert not_elsewhere(vault_here, replace(far, url=place.url)) == "is this very machine"
