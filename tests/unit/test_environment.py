"""The set-up says what to run when it may not do it itself, and knows a half-made environment."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess

import pytest

from support.places import CHECKOUT


@pytest.fixture
def environment():
    path = os.path.join(CHECKOUT, "workshop", "environment.py")
    specification = importlib.util.spec_from_file_location("workshop_environment", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_who_may_not_install_is_told_the_one_command(environment, monkeypatch):
    monkeypatch.setattr(environment.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(environment.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(environment.CannotPrepare) as caught:
        environment.install_packages(["python3.11-venv"], "Python's venv part")
    assert str(caught.value) == (
        "Python's venv part is missing. Install it with:\n"
        "  sudo apt-get install -y --no-install-recommends python3.11-venv"
    )


def test_root_installs_after_an_update_of_the_package_lists(environment, monkeypatch):
    called = []

    def run(command, **options):
        called.append(command[1])
        return subprocess.CompletedProcess(
            command, 0 if called.count("install") != 1 else 100, "", "no lists"
        )

    monkeypatch.setattr(environment.os, "geteuid", lambda: 0)
    monkeypatch.setattr(environment.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(environment.subprocess, "run", run)
    environment.install_packages(["zstd"], "zstd")
    assert called == ["install", "update", "install"]


def test_a_missing_real_part_is_a_failure_only_under_ci(environment, monkeypatch, capsys):
    def no_network(*_):
        raise environment.CannotPrepare("the index cannot be reached")

    monkeypatch.setattr(environment, "ensure", no_network)
    monkeypatch.setattr(environment.newer_restic, "fetch", lambda setup: False)
    monkeypatch.setattr(environment, "TOOLS", {})
    monkeypatch.delenv("CI", raising=False)
    environment.prepare_peers()
    assert (
        "*** MISSING REAL PART ***\nhermes-agent 0.19.0: the index cannot be reached"
        in capsys.readouterr().err
    )
    monkeypatch.setenv("CI", "true")
    with pytest.raises(environment.CannotPrepare, match="Under CI every real part must be there"):
        environment.prepare_peers()


def test_an_environment_is_current_only_with_its_own_lock(environment, tmp_path):
    place, lock = tmp_path / "venv", tmp_path / "requirements.lock"
    (place / "bin").mkdir(parents=True)
    lock.write_text("click==1 --hash=x\n")
    assert not environment.is_current(str(place), str(lock))
    (place / "bin" / "python").write_text("")
    (place / "bin" / "python").chmod(0o755)
    assert not environment.is_current(str(place), str(lock))
    (place / "safekept.lock").write_text("click==1 --hash=x\n")
    assert environment.is_current(str(place), str(lock))
    lock.write_text("click==2 --hash=x\n")
    assert not environment.is_current(str(place), str(lock))


def test_the_lock_files_pin_by_hash_and_name_no_place():
    locks = sorted(name for name in os.listdir(CHECKOUT) if name.endswith(".lock"))
    assert len(locks) >= 5
    for name in locks:
        with open(os.path.join(CHECKOUT, name), encoding="utf-8") as file:
            lines = [line for line in file if not line.lstrip().startswith("#")]
        assert not [line for line in lines if "://" in line or line.startswith(("-", "/"))], name
        pins = [line for line in lines if "==" in line]
        assert pins
        assert all(line.rstrip().endswith("\\") for line in pins), f"{name}: every pin has hashes"


def test_the_locks_agree_with_each_other_and_with_what_is_declared():
    import tomllib

    def pins(name: str) -> dict[str, str]:
        with open(os.path.join(CHECKOUT, name), encoding="utf-8") as file:
            found = (line.split()[0].split("==") for line in file if "==" in line and line[0] not in " #")
            return dict(found)

    run, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert run.items() <= dev.items()
    ui, mcp = pins("requirements-ui.lock"), pins("requirements-mcp.lock")
    assert (
        run.items() <= ui.items()
        and {name for name in ui.keys() & mcp.keys() if ui[name] != mcp[name]} == set()
    )
    with open(os.path.join(CHECKOUT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)["project"]
    names = {line.split(">")[0].replace(".", "-") for line in project["dependencies"]}
    assert names <= run.keys()
    assert {re.split(r"[\[>]", line)[0] for line in project["optional-dependencies"]["dev"]} <= dev.keys()
    assert pins("requirements-hermes.lock")["hermes-agent"] == "0.19.0"


def test_the_newer_restic_comes_from_the_mirror_that_this_machine_uses(environment, monkeypatch, tmp_path):
    newer = environment.newer_restic
    called = []

    def run(command, directory):
        called.append(command)
        if "indextargets" in command:
            return (
                "MIRROR/security/ oldstable-security bookworm-security\nMIRROR/debian/ oldstable bookworm\n"
            )
        if "download" in command:
            open(os.path.join(directory, "restic_1_amd64.deb"), "w").close()
        if command[0] == "dpkg-deb":
            os.makedirs(os.path.join(command[3], "usr", "bin"))
            with open(os.path.join(command[3], "usr", "bin", "restic"), "w") as file:
                os.chmod(file.fileno(), 0o755)
        return ""

    monkeypatch.setattr(newer, "_run", run)
    monkeypatch.setattr(newer, "_codename", lambda: "bookworm")
    monkeypatch.setattr(newer.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert newer.fetch(str(tmp_path)) is True
    assert os.listdir(tmp_path) == ["restic-newer"] and os.listdir(tmp_path / "restic-newer") == ["restic"]
    assert newer.source_line("MIRROR/debian/").endswith("MIRROR/debian/ trixie main\n")
    apt = next(command for command in called if "update" in command)
    private = [
        word for word in apt if word.startswith(("Dir::State=", "Dir::Cache=", "Dir::Etc::SourceList="))
    ]
    assert len(private) == 3 and all(str(tmp_path) in word for word in private), (
        "nothing of the system is used"
    )
    called.clear()
    assert newer.fetch(str(tmp_path)) is False and called == []


def test_without_a_newer_restic_it_says_what_to_do(environment, monkeypatch, tmp_path):
    newer = environment.newer_restic
    monkeypatch.setattr(newer.shutil, "which", lambda name: None)
    with pytest.raises(newer.CannotFetch) as caught:
        newer.fetch(str(tmp_path))
    assert str(caught.value) == (
        f"apt-get is not here. Put a restic newer than 0.14 at {tmp_path}/restic-newer/restic"
    )
    monkeypatch.setattr(newer.shutil, "which", lambda name: name)
    monkeypatch.setattr(newer, "_run", lambda command, directory: "")
    with pytest.raises(newer.CannotFetch, match="no package source of its own release"):
        newer.fetch(str(tmp_path))


def test_a_newer_restic_that_cannot_be_had_is_said_loudly(environment, monkeypatch, capsys):
    def offline(setup):
        raise environment.newer_restic.CannotFetch("the mirror cannot be reached")

    monkeypatch.setattr(environment, "ensure", lambda *_: None)
    monkeypatch.setattr(environment, "TOOLS", {})
    monkeypatch.setattr(environment.newer_restic, "fetch", offline)
    monkeypatch.delenv("CI", raising=False)
    environment.prepare_peers()
    said = capsys.readouterr().err
    assert "*** MISSING REAL PART ***\nA second, newer restic: the mirror cannot be reached" in said


def test_the_set_up_names_no_host():
    for name in ("environment.py", "newer_restic.py", "prepare"):
        with open(os.path.join(CHECKOUT, "workshop", name), encoding="utf-8") as file:
            assert "://" not in file.read(), name
