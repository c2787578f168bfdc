"""From an address to a place, and what is refused before anything is contacted."""

from __future__ import annotations

import pytest

from safekept.core.objects import Options, is_address, open_objects
from safekept.core.objects.address import without_secret
from safekept.core.objects.errors import BadAddress, PlaceRefused

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA0000000000000000", "AWS_SECRET_ACCESS_KEY": "hush", "PATH": "/usr/bin"}


def location(url, environment=KEYS, **options):
    return open_objects(url, environment=environment, options=Options(**options)).location


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("file:/mnt/stick", "/mnt/stick"),
        ("file:///mnt/a%20stick", "/mnt/a stick"),
        ("file://localhost/mnt", "/mnt"),
        ("sftp://me@host:2222/srv/agent/", "sftp://me@host:2222/srv/agent"),
        ("sftp://Nickname/srv", "sftp://Nickname/srv"),
        ("sftp://host/~/agent", "sftp://host/~/agent"),
        ("sftp://host/~", "sftp://host/~"),
        ("sftp://me@[fe80::1]:22/srv", "sftp://me@[fe80::1]:22/srv"),
        ("sftp://host/a%20b", "sftp://host/a b"),
        ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
        ("s3://bucket", "s3://bucket"),
        ("rclone:drive:agent/backups", "rclone:drive:agent/backups"),
        ("rclone:drive:", "rclone:drive:"),
        ('rclone::sftp,host=h,pass="a:b,c":path', "rclone::sftp:path"),
        ("rclone:drive,token=abc:path", "rclone:drive:path"),
    ],
)
def test_an_address_is_understood_and_shown_without_secrets(url, shown):
    assert location(url) == shown


def test_the_server_of_a_bucket_is_part_of_its_name():
    assert location("s3://b/p", endpoint="https://s3.example.org/") == "s3://b/p at s3.example.org"
    environment = {
        **KEYS,
        "AWS_ENDPOINT_URL": "https://a.example",
        "AWS_ENDPOINT_URL_S3": "https://b.example",
    }
    assert location("s3://b/p", environment) == "s3://b/p at b.example"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://host/path", "it starts with none of"),
        ("/mnt/stick", "it starts with none of"),
        ("file:relative", "must begin with `/`"),
        ("file://server/share", "a `file:` address has no host"),
        ("sftp:///srv", "it names no host"),
        ("sftp://host", "it names no directory"),
        ("sftp://host/", "it names no directory"),
        ("sftp://-oProxyCommand=evil/srv", "it names no host"),
        ("sftp://-l@host/srv", "it names no host"),
        ("sftp://host/srv/../etc", "the path goes back up"),
        ("sftp://host:99999/srv", "its host or port cannot be understood"),
        ("sftp://host:port/srv", "its host or port cannot be understood"),
        ("sftp://host/srv?x=1", "have no meaning here"),
        ("s3:///prefix", "write `s3://bucket/prefix`"),
        ("s3://bucket:9000/prefix", "write `s3://bucket/prefix`"),
        ("s3://AKIA@bucket/prefix", "write `s3://bucket/prefix`"),
        ("s3://bucket/../other", "the path goes back up"),
        ("rclone:drive", "write `rclone:REMOTE:PATH`"),
        ("rclone:", "write `rclone:REMOTE:PATH`"),
    ],
)
def test_what_is_no_address_is_refused_with_its_reason(url, reason):
    with pytest.raises(BadAddress) as caught:
        location(url)
    assert reason in caught.value.what
    assert caught.value.kept == "Nothing was contacted or changed"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("url", ["sftp://me:hunter2@host/srv", "s3://AKIA:hunter2@bucket/p"])
def test_a_password_in_an_address_is_refused_and_not_repeated(url):
    with pytest.raises(BadAddress, match="it holds a password") as caught:
        location(url)
    assert "hunter2" not in str(caught.value.as_dict())
    assert "hunter2" not in without_secret(url)


@pytest.mark.parametrize(
    "endpoint", ["s3.example.org", "ftp://s3.example.org", "https://key:hunter2@s3.example.org"]
)
def test_an_endpoint_must_be_a_plain_url(endpoint):
    with pytest.raises(BadAddress, match="its `endpoint`") as caught:
        location("s3://b/p", endpoint=endpoint)
    assert "hunter2" not in str(caught.value.as_dict())


def test_words_are_told_apart_from_addresses():
    assert is_address("s3://b/p") and is_address("rclone:x:y") and is_address("file:/x")
    assert not is_address("stick") and not is_address("/mnt/stick") and not is_address("a:b")
    assert is_address("ftp://host")  # nobody's path: it is refused as an address


def test_an_unknown_profile_is_refused_before_anything_is_contacted(tmp_path):
    with pytest.raises(PlaceRefused, match="`work` gives no keys for `s3://b/p`: it does not exist"):
        location("s3://b/p", {"HOME": str(tmp_path)}, profile="work")
