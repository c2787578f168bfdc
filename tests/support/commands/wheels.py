"""Wheels of safekept: built from a small repository with commits of its own, and installed for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv

from support.places import CHECKOUT

_IN_A_WHEEL = ("src", "man", "README.md", "LICENSE", "pyproject.toml")


def run(*words: str, cwd: str = "/", environment: dict[str, str] | None = None, code: int | None = 0) -> str:
    """A program's answer; with `code` None it may end as it likes."""
    done = subprocess.run(
        words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Source:
    """What a clone holds, as far as a wheel needs it, in a repository with history of its own."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        os.makedirs(os.path.join(directory, "workshop"))
        for name in _IN_A_WHEEL:
            source, target = os.path.join(CHECKOUT, name), os.path.join(directory, name)
            ignore = shutil.ignore_patterns("__pycache__")
            if os.path.isdir(source):
                shutil.copytree(source, target, ignore=ignore)
            else:
                shutil.copy2(source, target)
        hook = os.path.join("workshop", "build_hook.py")
        shutil.copy2(os.path.join(CHECKOUT, hook), os.path.join(directory, hook))
        self.git("init", "-q")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org")
        return run("git", *who, *words, cwd=self.directory).strip()

    def commit(self) -> str:
        """Everything as it is now; the commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "as it is")
        return self.git("rev-parse", "HEAD")

    def build(self, target: str, kind: str = "wheel") -> str:
        """The path of what was built."""
        words = (sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", target)
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        run(*words, cwd=self.directory, environment=environment)
        (name,) = os.listdir(target)
        return os.path.join(target, name)


def installed(wheel: str, place: str) -> str:
    """The wheel in an environment of its own, by pip; what it depends on comes from here. The program."""
    if not os.path.exists(place):
        venv.create(place, symlinks=True, with_pip=False)
        inner = run(
            os.path.join(place, "bin", "python"),
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
        ).strip()
        with open(os.path.join(inner, "what-it-depends-on.pth"), "w", encoding="utf-8") as file:
            file.write(sysconfig.get_path("purelib") + "\n")
    python = os.path.join(place, "bin", "python")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, "--force-reinstall", "--disable-pip-version-check", "--no-compile", wheel)
    return os.path.join(place, "bin", "safekept")
