"""Pushing to real servers: OpenSSH, S3 and rclone, with the real restic reading what arrived there."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace

import pytest

from safekept.actions.offsite.destinations import contents_of, examine_destination
from safekept.actions.offsite.pull import PullRequest, pull
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.vault.opening import open_vault
from safekept.core.objects.errors import HostKeyRefused, PlaceRefused
from support.offsite.pushes import machine, one_more, pointed, proven_copy
from support.offsite.servers import KEY, SECRET
from support.users.contexts import throwaway
from support.vault.vaults import read_all

AGE = b"age-encryption.org/v1\n-> X25519 abc\n"


@pytest.fixture(scope="module")
def vault_here(tmp_path_factory):
    """One machine with a vault for the whole module; tests add to it, and none takes anything away."""
    return machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture(params=["s3", "sftp", "rclone", "rclone-s3"])
def kind(request):
    return request.param


@pytest.fixture
def place(kind, request):
    if kind.startswith("rclone"):
        remotes = request.getfixturevalue("rclone_remotes")
        return remotes.s3() if kind == "rclone-s3" else remotes.local()
    return request.getfixturevalue(f"{kind}_server").place()


def vault_directory(place):
    names = [name for name in os.listdir(place.directory) if len(name) == 16]
    assert len(names) == 1
    return names[0]


def test_a_push_a_second_push_and_the_way_back(vault_here, place, tmp_path):
    here = pointed(vault_here, place)
    archive = tmp_path / "hermes-backup-2026-11-15-033000.zip.age"
    archive.write_bytes(AGE + os.urandom(300_000))
    first = push(here, PushRequest("far", archives=(str(archive),)))
    assert first.state == "done"
    assert first.mirrored.files > 5
    one_more(here, 50 + len(place.url))
    second = push(here, PushRequest("far", archives=(str(archive),)))
    assert (second.mirrored.snapshots, second.archives.sent) == (1, [])
    assert proven_copy(here, "far") >= 3
    # A machine that has only the key, and the name of the place.
    bare = throwaway(tmp_path / "bare").changed(
        destinations=here.choices.destinations, environment=here.caller.environment
    )
    shutil.copytree(os.path.dirname(here.places.vault_key_file), os.path.dirname(bare.places.vault_key_file))
    assert pull(bare, PullRequest("far")).opens is True
    with open_vault(bare) as fetched, open_vault(here) as own:
        assert read_all(fetched) == read_all(own)
    back = pull(bare, PullRequest("far", archive="latest", into=str(tmp_path / "back")))
    with open(back.path, "rb") as file:
        assert file.read() == archive.read_bytes()
    found = contents_of(here, "far")
    assert [vault.whole for vault in found.vaults] == [True]
    assert [one.name for one in found.archives] == [archive.name]
    before = sorted(os.listdir(place.directory))
    tested = examine_destination(here, "far")
    assert tested.reason == ""
    assert (tested.state, tested.used, tested.readable) == ("usable", True, True)
    assert tested.abilities.delete is True
    assert tested.write_speed > 0
    assert sorted(os.listdir(place.directory)) == before, "nothing is left behind"


def restic_on(place, kind, directory, here, tmp_path, sftp_server):
    """The repository in restic's own words, its environment, and options it needs to get there."""
    environment = {**place.environment, "RESTIC_CACHE_DIR": str(tmp_path / "restic-cache")}
    words = ["restic", "--password-file", here.places.vault_key_file, "-q"]
    if kind == "s3":
        environment |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        bucket = place.url.removeprefix("s3://")
        return [*words, "-r", f"s3:{place.options.endpoint}/{bucket}/{directory}"], environment
    command = f"ssh -F {place.options.ssh_config} -p {sftp_server.port} 127.0.0.1 -s sftp"
    words += ["-o", f"sftp.command={command}", "-r", f"sftp:far:{place.directory}/{directory}"]
    return words, environment


@pytest.mark.parametrize("kind", ["s3", "sftp"], indirect=False)
def test_restic_reads_the_copy_where_it_is(vault_here, kind, request, tmp_path, sftp_server):
    place = request.getfixturevalue(f"{kind}_server").place()
    here = pointed(vault_here, place)
    push(here, PushRequest("far"))
    restic, environment = restic_on(place, kind, vault_directory(place), here, tmp_path, sftp_server)

    def run(*words):
        done = subprocess.run([*restic, *words], env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("check", "--read-data")
    target = tmp_path / "restored"
    run("restore", "latest", "--target", str(target))
    with open_vault(here) as own:
        newest = read_all(own)[-1]
    found = {}
    for directory, _, names in os.walk(target):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, target)] = file.read()
    assert found == newest
    # What restic locked it for is over, and another push goes on as before.
    one_more(here, 90 + len(kind))
    assert push(here, PushRequest("far")).mirrored.snapshots == 1
    run("check")


def test_a_wrong_host_key_stops_a_push_before_anything_is_sent(vault_here, sftp_server):
    place = sftp_server.place()
    config = sftp_server.client_config(known="known_other")
    here = pointed(vault_here, replace(place, options=replace(place.options, ssh_config=config)))
    with pytest.raises(HostKeyRefused):
        push(here, PushRequest("far"))
    assert os.listdir(place.directory) == []


def test_a_wrong_secret_is_a_clear_error_and_is_nowhere(vault_here, s3_server):
    place = s3_server.place()
    wrong = {**place.environment, "AWS_SECRET_ACCESS_KEY": "hunter2-hunter2-hunter2-hunter2"}
    here = pointed(vault_here, replace(place, environment=wrong))
    with pytest.raises(PlaceRefused) as raised:
        push(here, PushRequest("far"))
    with open(here.journal.path) as journal:
        assert "hunter2" not in journal.read() + str(raised.value.as_dict())


def test_no_secret_is_in_any_result_or_journal(vault_here, s3_server):
    here = pointed(vault_here, s3_server.place())
    said = str(push(here, PushRequest("far")).as_dict())
    said += str(examine_destination(here, "far").as_dict()) + str(contents_of(here, "far").as_dict())
    with open(here.journal.path) as journal:
        said += journal.read()
    assert SECRET not in said
    assert KEY not in said
