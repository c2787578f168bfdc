"""Every key that `--json` prints is documented, so that a script can rely on it."""

from __future__ import annotations

import json
import os
import re

import pytest

from support.home.homes import make_hermes_home
from support.places import CHECKOUT


@pytest.fixture
def documented():
    with open(os.path.join(CHECKOUT, "docs", "reference", "json.md"), encoding="utf-8") as file:
        parts = re.split(r"^## (\w+)$", file.read(), flags=re.MULTILINE)
    return {
        name: set(re.findall(r"`([a-z_]+)`", body))
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.fixture
def home(tmp_path):
    make_hermes_home(str(tmp_path / "user" / ".hermes"))


def keys(document: dict[str, object], inside: tuple[str, ...] = ()) -> set[str]:
    found = set(document)
    for name in inside:
        if isinstance(document.get(name), dict):
            found |= set(document[name])
    return found


def run(safekept, *words: str, code: int = 0) -> dict[str, object]:
    result = safekept(*words, "--json")
    assert result.returncode == code, (result.stdout, result.stderr)
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document.pop("version") == 1
    return document


def test_backup(safekept, home, documented):
    made = run(safekept, "backup")
    assert keys(made) - documented["backup"] == set()
    assert keys(run(safekept, "backup", "--dry-run")) - documented["backup"] == set()
    for remark in made["remarks"]:
        assert set(remark) - documented["Remarks"] == set()


def test_import_and_undo(safekept, home, documented):
    archive = run(safekept, "backup")["path"]
    planned = run(safekept, "import", archive, "--dry-run")
    assert keys(planned, ("plan",)) - documented["import"] == set()
    done = run(safekept, "import", archive, "--force")
    assert keys(done, ("plan", "landed")) - documented["import"] - documented["undo"] == set()
    for wrapper in done["wrappers"]:
        assert set(wrapper) - documented["import"] == set()


def test_demo(safekept, documented):
    assert keys(run(safekept, "demo")) - documented["demo"] == set()


def test_errors(safekept, documented):
    failed = run(safekept, "import", "missing.zip", code=1)
    assert failed["error"]["code"] == "archive-not-found"
    wrong = run(safekept, "backup", "--nope", code=2)
    assert wrong["error"]["code"] == "usage"
    text = " ".join(sorted(documented["Errors"]))
    assert all(name in text for name in ("retry", "facts", "what"))


def test_every_key_of_a_snapshot_is_documented(safekept, home, documented):
    assert keys(run(safekept, "snapshot", "create")) <= documented["snapshot"]
    assert keys(run(safekept, "backup", "--quick")) <= documented["snapshot"]
    assert keys(run(safekept, "snapshot", "create", "--dry-run")) <= documented["snapshot"]
    protection = run(safekept, "snapshot", "create", "--kind", "pre-update", "--backup")
    assert keys(protection, ("snapshot",)) <= documented["snapshot"]
    assert keys(protection["zip"]) <= documented["backup"]


def test_every_key_of_the_vault_is_documented(safekept, home, documented):
    found = keys(run(safekept, "vault", "init"))
    run(safekept, "snapshot", "create")
    for words in (
        ("check", "--read-data"),
        ("stats",),
        ("key", "list"),
        ("key", "export"),
        ("kit",),
        ("unlock",),
        ("prune",),
    ):
        found |= keys(run(safekept, "vault", *words))
    found |= keys(run(safekept, "vault", "key", "list")["keys"][0])
    added = run(safekept, "vault", "key", "add", "--passphrase-command", "echo four words are enough")
    found |= keys(added) | keys(run(safekept, "vault", "key", "remove", added["key"], "--yes"))
    assert found <= documented["vault"]


def test_every_key_of_an_adoption_is_documented(safekept, home, documented):
    adoption = run(safekept, "snapshot", "adopt", code=3)
    assert keys(adoption) | keys(adoption["copies"][0]) <= documented["adopt"]
