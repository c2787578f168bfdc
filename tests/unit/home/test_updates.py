"""`updates` in a home's `config.yaml`, read as Hermes reads it."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from safekept.home.copies import UpdateSettings, read_updates

VALUES = [
    ("", "quick"),
    ("quick", "quick"),
    ("full", "full"),
    ("off", "off"),
    ("Off", "off"),
    ("no", "off"),
    ("yes", "full"),
    ("on", "full"),
    ("true", "full"),
    ("false", "off"),
    ('"true"', "full"),
    ('"false"', "off"),
    ('"no"', "quick"),
    ('"yes"', "quick"),
    ('"off"', "off"),
    ("zip", "full"),
    ("ZIP", "full"),
    ("none", "off"),
    ("disabled", "off"),
    ("null", "off"),
    ("~", "off"),
    ("nonsense", "quick"),
    ("[full]", "quick"),
    ("7", "quick"),
    ('" full "', "full"),
]


def write(home, text: str) -> str:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text)
    return str(home)


@pytest.mark.parametrize(("value", "mode"), VALUES)
def test_every_word_means_what_it_means_to_hermes(tmp_path, value, mode):
    text = f"model: x\nupdates:\n  pre_update_backup: {value}\n" if value else "model: x\n"
    assert read_updates(write(tmp_path / "home", text)).mode == mode


@pytest.mark.parametrize(
    ("value", "keep"), [("3", 3), ("1", 1), ("0", 1), ("-4", 1), ("many", 5), ("[]", 5), ('"7"', 7)]
)
def test_how_many_stay_is_at_least_one(tmp_path, value, keep):
    assert read_updates(write(tmp_path / "home", f"updates: {{backup_keep: {value}}}\n")).keep == keep


@pytest.mark.parametrize(
    "text", ["", "updates: off\n", "updates: [1]\n", ": : :\n\t-", "updates:\n", "\x00\x01"]
)
def test_a_config_that_is_none_switches_nothing_off(tmp_path, text):
    assert read_updates(write(tmp_path / "home", text)) == UpdateSettings("quick", 5)


def test_a_missing_or_strange_config_is_the_default(tmp_path):
    assert read_updates(str(tmp_path)) == UpdateSettings()
    (tmp_path / "config.yaml").mkdir()
    assert read_updates(str(tmp_path)) == UpdateSettings()


def test_a_config_with_a_byte_order_mark_is_read(tmp_path):
    (tmp_path / "config.yaml").write_bytes("\ufeffupdates: {pre_update_backup: full}\n".encode())
    assert read_updates(str(tmp_path)).mode == "full"


def test_the_real_hermes_agrees(hermes_python, tmp_path):
    """The same words, asked of Hermes itself."""
    script = """
import json, os, sys, types
from hermes_cli.main import _resolve_pre_update_backup_mode as resolve
import hermes_cli.config as config
import yaml
answers = []
for text in json.load(sys.stdin):
    loaded = yaml.safe_load(text) or {}
    config.load_config = lambda loaded=loaded: loaded
    answers.append(resolve(types.SimpleNamespace(no_backup=False, backup=False)))
sys.stdout.write("\\n" + json.dumps(answers))
"""
    texts = [f"updates:\n  pre_update_backup: {value}\n" if value else "model: x\n" for value, _ in VALUES]
    user = tmp_path / "user"
    user.mkdir()
    environment = {**os.environ, "HOME": str(user), "HERMES_HOME": str(user / ".hermes")}
    done = subprocess.run(
        [hermes_python, "-c", script],
        input=json.dumps(texts),
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    assert answers == [mode for _, mode in VALUES]
