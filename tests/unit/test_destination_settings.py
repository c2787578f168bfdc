"""`[[destination]]` is strict: what is wrong is an error that names the table; no secret is repeated."""

from __future__ import annotations

import os

import pytest

from safekept.actions.offsite.destination import (
    KEYS,
    DestinationSetting,
    parse_destination,
    parse_rate,
    table_of,
)
from safekept.settings import BadSetting, load_settings
from safekept.settings.context import vault_of
from support.places import CHECKOUT


def load(tmp_path, text):
    (tmp_path / "safekept").mkdir(exist_ok=True)
    (tmp_path / "safekept" / "config.toml").write_text(text)
    return load_settings({"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})


def table(**fields):
    lines = "\n".join(f"{key} = {value}" for key, value in fields.items())
    return f"[[destination]]\n{lines}\n"


def test_everything_that_can_be_set_is_taken(tmp_path):
    text = """
layout = "hermes"
[[destination]]
name = "bucket"
url = "s3://backups/agents"
takes = ["archives", "vault"]
keep = 30
rate_limit = "2.5 MB"
connections = 8
timeout = 20
unsealed = true
endpoint = "https://s3.example.org"
region = "eu"
profile = "safekept"
[[destination]]
name = "disk"
url = "/mnt/stick"
same_disk = true
"""
    bucket, disk = load(tmp_path, text).destinations
    assert bucket == DestinationSetting(
        "bucket",
        "s3://backups/agents",
        ("vault", "archives"),
        keep=30,
        rate_limit=2_621_440,
        connections=8,
        timeout=20,
        unsealed=True,
        options={"endpoint": "https://s3.example.org", "region": "eu", "profile": "safekept"},
    )
    assert (disk.url, disk.is_file, disk.keep, disk.takes) == (
        "file:/mnt/stick",
        True,
        14,
        ("vault", "archives"),
    )


def test_without_a_table_there_are_none(tmp_path):
    assert load(tmp_path, "").destinations == ()


NAS = {"name": '"nas"', "url": '"sftp://nas/srv"'}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**NAS, "ulr": '"x"'}, "`ulr` does not exist"),
        ({**NAS, "keep": "-1"}, "`keep` is not a whole number"),
        ({**NAS, "keep": "true"}, "`keep` is not a whole number"),
        ({**NAS, "keep": '"14"'}, "`keep` is not a whole number"),
        ({**NAS, "takes": "[]"}, "`takes` is not a list"),
        ({**NAS, "takes": '["vaults"]'}, "`takes` is not a list"),
        ({**NAS, "rate_limit": '"fast"'}, "`rate_limit` is not an amount"),
        ({**NAS, "connections": "1000"}, "`connections` is not a whole number from 0 to 64"),
        ({**NAS, "timeout": "0"}, "`timeout` is not"),
        ({**NAS, "unsealed": '"yes"'}, "`unsealed` is neither true nor false"),
        ({**NAS, "url": '"ftp://nas/srv"'}, "no place that safekept knows"),
        ({**NAS, "url": '"srv/backups"'}, "no place that safekept knows"),
        ({**NAS, "url": "5"}, "`url` is not a text"),
        ({"name": '"nas"'}, "`url` is missing"),
    ],
)
def test_a_mistake_names_the_table_and_the_key(tmp_path, fields, said):
    with pytest.raises(BadSetting) as raised:
        load(tmp_path, table(**fields))
    assert said in raised.value.what
    assert "the destination `nas`" in raised.value.what
    assert "config.toml" in raised.value.what


def test_a_table_without_a_name_is_counted(tmp_path):
    with pytest.raises(BadSetting) as raised:
        load(tmp_path, table(**NAS) + table(url='"/mnt"'))
    assert "destination 2: `name`" in raised.value.what


def test_two_of_one_name_are_refused(tmp_path):
    with pytest.raises(BadSetting) as raised:
        load(tmp_path, table(**NAS) + table(**NAS))
    assert "two destinations are called `nas`" in raised.value.what


@pytest.mark.parametrize("text", ['[destination]\nname = "nas"', 'destination = "nas"', "destination = [1]"])
def test_anything_but_tables_is_refused(tmp_path, text):
    with pytest.raises(BadSetting) as raised:
        load(tmp_path, text)
    assert raised.value.advice() == ("Write it as `[[destination]]`",)


SECRETS = ["sftp://me:hunter2@nas/srv", "s3://AKIA:hunter2@bucket/x", "rest:https://me:hunter2@nas/me/"]


@pytest.mark.parametrize("url", SECRETS)
def test_a_password_in_a_url_is_refused_and_not_repeated(tmp_path, url):
    with pytest.raises(BadSetting) as raised:
        load(tmp_path, table(name='"nas"', url=f'"{url}"'))
    assert "holds a password" in raised.value.what
    assert "hunter2" not in str(raised.value.as_dict())


@pytest.mark.parametrize("url", SECRETS)
def test_a_password_in_the_vaults_own_address_is_refused_and_not_repeated(tmp_path, url):
    with pytest.raises(BadSetting, match="holds a password") as raised:
        vault_of(load(tmp_path, f'[vault]\npath = "{url}"\n'))
    assert "hunter2" not in str(raised.value.as_dict())


def test_archives_for_a_server_that_keeps_vaults_only_are_refused():
    fields = {"name": "nas", "url": "rest:https://me@nas/me/"}
    assert parse_destination(fields).takes == ("vault",)
    assert table_of(parse_destination(fields)) == fields
    with pytest.raises(ValueError, match="a REST server keeps vaults only"):
        parse_destination({**fields, "takes": ["archives"]})


@pytest.mark.parametrize(
    ("text", "bytes_a_second"),
    [("2 MB", 2 << 20), ("500KB", 500 << 10), ("1.5M/s", 3 << 19), ("100", 100), (7, 7), ("1 GiB", 1 << 30)],
)
def test_rates_are_read_as_people_write_them(text, bytes_a_second):
    assert parse_rate(text) == bytes_a_second


@pytest.mark.parametrize("text", ["", "-1", "2 TB", "fast", -1, True, 1.5, None])
def test_other_rates_are_refused(text):
    with pytest.raises(ValueError, match="rate_limit"):
        parse_rate(text)


def test_every_key_of_a_destination_is_documented():
    with open(os.path.join(CHECKOUT, "docs", "reference", "settings.md"), encoding="utf-8") as file:
        body = file.read().split("## Destinations")[1].split("\n## ")[0]
    assert [key for key in KEYS if f"| `{key}` |" not in body] == []
    assert parse_destination({"name": "a", "url": "/x"}).url == "file:/x"
