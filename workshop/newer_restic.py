"""Fetches a second, newer restic: that of Debian's next release, unpacked and not installed.

The package comes from the mirror that this machine already uses, checked by the keys that it already
trusts, with lists and caches of its own below `.setup`: nothing of the system is touched, so it needs
no rights. What is there is there whole: the directory gets its name last.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess

#: The release after Debian 12, whose restic is the one that most people have.
SUITE = "trixie"
PROGRAM = "restic"
#: Debian's own keys, the next release's included; where they are not, apt asks those it trusts anyway.
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


class CannotFetch(Exception):
    """Why there is no newer restic, and what to do about it."""


def fetch(setup: str) -> bool:
    """Put it at `<setup>/restic-newer/restic`; False where it was there already."""
    place = os.path.join(setup, "restic-newer")
    if os.access(os.path.join(place, PROGRAM), os.X_OK):
        return False
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise CannotFetch(f"{tool} is not here. Put a restic newer than 0.14 at {place}/{PROGRAM}")
    work = place + ".new"
    shutil.rmtree(work, ignore_errors=True)
    for directory in ("state/lists/partial", "cache/archives/partial", "unpacked"):
        os.makedirs(os.path.join(work, directory))
    with open(os.path.join(work, "sources"), "w") as file:
        file.write(source_line(mirror()))
    _apt(work, "update")
    _apt(work, "download", PROGRAM)
    (package,) = glob.glob(os.path.join(work, f"{PROGRAM}_*.deb"))
    _run(["dpkg-deb", "-x", package, os.path.join(work, "unpacked")], work)
    found = os.path.join(work, "unpacked", "usr", "bin", PROGRAM)
    _run([found, "version"], work)
    shutil.rmtree(place, ignore_errors=True)
    final = os.path.join(work, "final")
    os.mkdir(final)
    os.rename(found, os.path.join(final, PROGRAM))
    os.rename(final, place)
    shutil.rmtree(work, ignore_errors=True)
    return True


def mirror() -> str:
    """Where this machine gets the main part of its own release from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE) $(RELEASE)"]
    listed = _run([*command, "Created-By: Packages", "Component: main"], None).splitlines()
    own = _codename()
    for line in listed:
        words = line.split()
        if len(words) >= 3 and own and own in words[1:3]:
            return words[0]
    raise CannotFetch("this machine has no package source of its own release that could be asked")


def source_line(address: str) -> str:
    trust = f" [signed-by={KEYS}]" if os.path.exists(KEYS) else ""
    return f"deb{trust} {address} {SUITE} main\n"


def _codename() -> str:
    try:
        with open("/etc/os-release") as file:
            facts = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    except OSError:
        return ""
    return facts.get("VERSION_CODENAME", "").strip('"')


def _apt(work: str, *words: str) -> None:
    options = {
        "Dir::State": os.path.join(work, "state"),
        "Dir::Cache": os.path.join(work, "cache"),
        "Dir::Etc::SourceList": os.path.join(work, "sources"),
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Status": "/dev/null",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
    }
    settings = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    _run(["apt-get", "-q", *settings, *words], work)


def _run(command: list[str], directory: str | None) -> str:
    result = subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if result.returncode != 0:
        raise CannotFetch(f"{' '.join(command[:2])} failed: {result.stderr.strip()[-400:]}")
    return result.stdout
