"""A bucket with versions and a default retention: what cannot be deleted, and how it is read as it was."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import time
from dataclasses import replace

import pytest

from safekept.actions.offsite.destinations import examine_destination, last_push
from safekept.actions.offsite.pull import PullRequest, pull
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.vault.opening import open_vault
from safekept.core.objects import Options
from safekept.vault.care import carry_out, forget, plan_prune
from safekept.vault.errors import NoSuchVault
from safekept.vault.snapshots import list_snapshots
from support.commands.waiting import wait_until
from support.offsite.locked_bucket import BUCKET, LockedBucket
from support.offsite.pushes import NOW, machine, one_more, pointed, proven_copy, survived_by
from support.offsite.servers import KEY, SECRET, find_program
from support.users.contexts import throwaway
from support.vault.vaults import read_all


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    with LockedBucket(str(tmp_path_factory.mktemp("bucket"))) as made:
        yield made


@pytest.fixture
def place(bucket, request):
    bucket.refuse = set()
    return bucket.place(request.node.name[:60])


def prefix_of(place):
    return place.url.removeprefix(f"s3://{BUCKET}/")


def test_a_bucket_that_wants_checksums_takes_pushes_night_after_night(place, tmp_path):
    here = pointed(machine(tmp_path), place)
    for night in range(2):
        one_more(here, 10 + night)
        assert push(here, PushRequest("far")).complete
    assert proven_copy(here, "far") == 4


def test_what_the_canary_finds_is_what_the_credential_may_do(bucket, place, tmp_path):
    here = pointed(machine(tmp_path), place)
    rights = examine_destination(here, "far").abilities
    # A delete is not refused: it hides what was there, and the versions stay.
    assert (rights.delete, rights.versioning, rights.keeps) == (True, True, False)
    bucket.refuse = {"DELETE"}
    assert push(here, PushRequest("far")).complete
    rights = examine_destination(here, "far").abilities
    assert (rights.delete, rights.versioning, rights.keeps) == (False, True, True)
    assert last_push(here, "far").rights["keeps"] is True
    assert survived_by(here).step == "object-lock"


def test_a_prune_that_may_not_delete_says_so_and_leaves_a_whole_copy(bucket, place, tmp_path):
    here = pointed(machine(tmp_path, snapshots=3), place)
    assert push(here, PushRequest("far")).complete
    with open_vault(here) as repository, repository.lock(exclusive=True) as lock:
        snapshots, _ = list_snapshots(repository)
        forget(repository, snapshots[:1], lock, now_ns=NOW)
    assert push(here, PushRequest("far")).complete
    with open_vault(here) as repository, repository.lock(exclusive=True) as lock:
        carry_out(repository, plan_prune(repository, now_ns=NOW + 10**15, grace=0), lock)
    bucket.refuse = {"DELETE"}
    done = push(here, PushRequest("far", prune=True))
    assert done.state == "incomplete" and done.mirrored.problems == []
    (note,) = [note for note in done.notes if "stays there" in note]
    assert note.endswith("does not let us delete there: Access Denied (403)")
    proven_copy(here, "far")
    bucket.refuse = set()
    done = push(here, PushRequest("far", prune=True))
    assert done.complete and done.mirrored.deleted["snapshots"] == 1
    proven_copy(here, "far")


def test_a_bucket_is_read_as_it_was_before_everything_was_deleted(bucket, place, tmp_path):
    find_program("rclone")
    here = pointed(machine(tmp_path / "machine"), place)
    assert push(here, PushRequest("far")).complete
    then = int(time.time()) + 1
    wait_until(lambda: time.time() > then + 1)  # a bucket tells times by the second
    # Whoever took over the machine: a delete marker over everything, then every version that can be deleted.
    with contextlib.closing(place.open()) as objects:
        for stored in list(objects.list()):
            objects.delete(stored.name)
    refused = 0
    for key, version in bucket.versions(prefix_of(place)):
        try:
            bucket.client.delete_object(Bucket=BUCKET, Key=key, VersionId=version)
        except bucket.client.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied"
            refused += 1
    assert refused > 5
    with pytest.raises(NoSuchVault):
        open_vault(here.changed(source_vault="far"))
    # The recipe of the guide.
    moment = datetime.datetime.fromtimestamp(then, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = tmp_path / "rclone.conf"
    config.write_text(
        f"[then]\ntype = s3\nprovider = Other\nendpoint = {bucket.endpoint}\nregion = us-east-1\n"
        f"access_key_id = {KEY}\nsecret_access_key = {SECRET}\nversion_at = {moment}\n"
    )
    before = replace(
        place,
        url=f"rclone:then:{BUCKET}/{prefix_of(place)}",
        options=Options(rclone_config=str(config), timeout=30.0),
    )
    bare = pointed(throwaway(tmp_path / "bare"), before, name="before")
    shutil.copytree(
        here.places.vault_key_file.rpartition("/")[0], bare.places.vault_key_file.rpartition("/")[0]
    )
    assert pull(bare, PullRequest("before")).opens is True
    with open_vault(bare) as fetched, open_vault(here) as own:
        assert read_all(fetched) == read_all(own)
