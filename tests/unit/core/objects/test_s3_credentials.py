"""Where the keys of an S3 place come from, in which order, and that none is ever shown."""

from __future__ import annotations

import pytest

from safekept.core.objects import Options, open_objects
from safekept.core.objects.errors import PlaceRefused
from safekept.core.objects.s3.client import s3_access

IN_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "from-env",
    "AWS_SECRET_ACCESS_KEY": "env-secret",
    "AWS_SESSION_TOKEN": "t",
}


@pytest.fixture
def home(tmp_path):
    aws = tmp_path / ".aws"
    aws.mkdir()
    (aws / "credentials").write_text(
        "[default]\naws_access_key_id = from-default\naws_secret_access_key = default-secret\n"
        "[work]\naws_access_key_id = from-work\naws_secret_access_key = work-secret\naws_session_token = wt\n"
    )
    (aws / "config").write_text(
        "[default]\nregion = eu-west-1\n"
        "[profile work]\nregion = eu-central-1\nendpoint_url = https://s3.work.example\n"
        "[profile outside]\ncredential_process = /bin/sh -c 'echo \"$ANSWER\"'\n"
        "[profile empty]\nregion = eu-north-1\n"
        "[work]\nregion = never-this-one\n"
    )
    return str(tmp_path)


def test_the_default_profile_is_the_last_resort(home):
    access = s3_access("s3://b", {"HOME": home})
    assert (access.key, access.secret, access.region) == ("from-default", "default-secret", "eu-west-1")
    assert (access.endpoint, access.from_machine) == ("", False)


def test_keys_in_the_environment_win_over_the_default_profile(home):
    access = s3_access("s3://b", {"HOME": home, **IN_ENVIRONMENT, "AWS_REGION": "ap-south-1"})
    assert (access.key, access.secret, access.token) == ("from-env", "env-secret", "t")
    assert access.region == "ap-south-1"


def test_a_named_profile_wins_over_keys_in_the_environment(home):
    access = s3_access("s3://b", {"HOME": home, **IN_ENVIRONMENT}, profile="work")
    assert (access.key, access.secret, access.token) == ("from-work", "work-secret", "wt")
    assert (access.region, access.endpoint) == ("eu-central-1", "https://s3.work.example")


def test_what_is_said_explicitly_wins_over_the_profile(home):
    access = s3_access("s3://b", {"HOME": home}, profile="work", endpoint="https://x.example", region="r")
    assert (access.region, access.endpoint) == ("r", "https://x.example")


def test_other_files_can_be_named(home, tmp_path):
    other = tmp_path / "other"
    other.write_text("[default]\naws_access_key_id = from-other\naws_secret_access_key = s\n")
    environment = {"HOME": home, "AWS_SHARED_CREDENTIALS_FILE": str(other), "AWS_CONFIG_FILE": "/nowhere"}
    access = s3_access("s3://b", environment)
    assert (access.key, access.region) == ("from-other", "us-east-1")


def test_a_command_can_give_the_keys(home):
    answer = '{"Version": 1, "AccessKeyId": "from-process", "SecretAccessKey": "ps", "SessionToken": "pt"}'
    access = s3_access("s3://b", {"HOME": home, "PATH": "/bin", "ANSWER": answer}, profile="outside")
    assert (access.key, access.secret, access.token) == ("from-process", "ps", "pt")


@pytest.mark.parametrize("answer", ["", "not json", '{"AccessKeyId": "only-half"}', "[]"])
def test_a_command_that_gives_none_is_named_without_its_words(home, answer):
    environment = {"HOME": home, "PATH": "/bin", "ANSWER": answer}
    with pytest.raises(PlaceRefused) as caught:
        s3_access("s3://b", environment, profile="outside")
    assert caught.value.what == "The `credential_process` of the profile for `s3://b` gave no keys"
    assert "only-half" not in str(caught.value.as_dict())


def test_a_profile_without_keys_is_refused(home):
    with pytest.raises(PlaceRefused, match=r"`empty` gives no keys .*: it has no `aws_access_key_id`"):
        s3_access("s3://b", {"HOME": home}, profile="empty")


def test_without_any_keys_the_error_says_where_they_were_looked_for(tmp_path):
    environment = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    objects = open_objects("s3://bucket/p", environment=environment)
    with pytest.raises(PlaceRefused) as caught:
        list(objects.list())
    assert caught.value.what.startswith("There are no keys for `s3://bucket/p`: AWS_ACCESS_KEY_ID in the")
    assert f"`{tmp_path}/.aws/credentials`" in caught.value.what
    assert caught.value.advice()[0].startswith("Put a key pair into a profile")


def test_a_machine_without_a_key_service_is_told_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    environment = {"HOME": str(tmp_path)}
    options = Options(endpoint="http://127.0.0.1:1", timeout=5.0, patience=0.1)
    objects = open_objects("s3://bucket/p", environment=environment, options=options)
    with pytest.raises(PlaceRefused, match="There are no keys for `s3://bucket/p"):
        list(objects.list())


def test_a_broken_file_is_passed_over(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_bytes(b"\xff\xfe no ini file")
    assert s3_access("s3://b", {"HOME": str(tmp_path), **IN_ENVIRONMENT}).key == "from-env"


def test_no_key_is_ever_shown(home):
    access = s3_access("s3://b", {"HOME": home, **IN_ENVIRONMENT})
    objects = open_objects("s3://b/p", environment={"HOME": home, **IN_ENVIRONMENT})
    for text in (repr(access), str(access), repr(objects), repr(objects.place), objects.location):
        assert not any(secret in text for secret in IN_ENVIRONMENT.values() if len(secret) > 1)
