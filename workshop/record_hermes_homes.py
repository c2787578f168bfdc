"""Makes a small home with each of several real versions of Hermes, for tests/compat/test_hermes_versions.py.

    .venv/bin/python workshop/record_hermes_homes.py [DIRECTORY]

Of each version only its own files are fetched from PyPI; it runs in the environment of the one that the tests
have, whose dependencies it shares. What it makes lies in tests/recorded/hermes-homes, one archive for each
version, so that `./test` installs nothing; `./test --soak hermes-versions` makes them again and compares.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.path.join(HERE, "tests", "recorded", "hermes-homes")
PYTHON = os.path.join(HERE, ".setup", "hermes", "bin", "python")
VERSIONS = ("0.13.0", "0.15.2", "0.17.0", "0.18.2", "0.19.0")

#: Runs inside that Hermes: its first start, a conversation with a tool, one below another, one to be lost.
MAKE = """
import os, pathlib, sys
import hermes_state
from hermes_cli import config
home = pathlib.Path(os.environ["HERMES_HOME"])
config.ensure_hermes_home()
config.save_config(config.load_config())
db = hermes_state.SessionDB(home / "state.db")
db.create_session("root", "cli", model="some/model")
for number in range(4):
    db.append_message("root", ("user", "assistant")[number % 2], f"root turn {number} about kumquats")
db.create_session("tip", "cli", model="some/model", parent_session_id="root")
db.append_message("tip", "user", "where did we leave the quetzalcoatl essay?")
calls = [{"id": "1", "function": {"name": "read_file", "arguments": "{}"}}]
db.append_message("tip", "assistant", "at the serpent", tool_calls=calls)
db.append_message("tip", "tool", "feathers of the serpent", tool_name="read_file", tool_call_id="1")
db.set_session_title("tip", "The essay")
db.create_session("cron_1", "cron")
db.append_message("cron_1", "user", "the nightly platypus report")
db.close()
"""
FILES = {
    "memories/MEMORY.md": "the user likes short answers\n\u00a7\nthe server is called heron\n",
    "skills/writing/essay/SKILL.md": "---\nname: essay\n---\nwrite it\n",
    "profiles/coder/config.yaml": "model:\n  default: some/model\n",
    "profiles/coder/SOUL.md": "a coder\n",
}


def fetched(version: str, directory: str) -> str:
    """The files of one version, unpacked."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", directory]
    subprocess.run([*command, f"hermes-agent=={version}"], check=True, stderr=subprocess.DEVNULL)
    (name,) = (one for one in os.listdir(directory) if one.endswith(".whl"))
    place = os.path.join(directory, "files")
    with zipfile.ZipFile(os.path.join(directory, name)) as wheel:
        wheel.extractall(place)
    return place


def make_home(version: str, home: str) -> None:
    """What that version leaves in a home after its first start and a few conversations."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": directory,
            "HERMES_HOME": home,
            "PYTHONPATH": fetched(version, os.path.join(directory, "wheel")),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        os.makedirs(home)
        subprocess.run([PYTHON, "-c", MAKE], env=environment, cwd=directory, check=True)
    for name, text in FILES.items():
        path = os.path.join(home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def main() -> None:
    place = sys.argv[1] if len(sys.argv) > 1 else PLACE
    os.makedirs(place, exist_ok=True)
    for version in VERSIONS:
        with tempfile.TemporaryDirectory() as directory:
            home = os.path.join(directory, "home")
            make_home(version, home)
            with tarfile.open(os.path.join(place, f"{version}.tar.xz"), "w:xz") as archive:
                archive.add(home, "home")
        sys.stdout.write(f"{version}: {os.path.getsize(os.path.join(place, f'{version}.tar.xz')):,} bytes\n")


if __name__ == "__main__":
    main()
