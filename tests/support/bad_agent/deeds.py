"""A scripted bad agent: forty things that an agent does to a project, each of them for real.

An action is an edit of one named file, a patch of several, a shell command or a piece of Python. `stays`
lists what no rollback can bring back, because no checkpoint may hold it; everything else must come back.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass

from support.bad_agent.project import LIVE, NEVER_SAVED


@dataclass(frozen=True)
class Action:
    name: str
    kind: str  # "edit", "shell", "patch" or "code"
    text: str = ""  # new content of the file, the command, or the source
    path: str = ""  # of an edit
    steps: tuple[tuple[str, str, str, str], ...] = ()  # of a patch: verb, path, old or new name, new
    stays: tuple[str, ...] = ()  # what may differ after the rollback, with everything below it

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the tool names."""
        if self.kind == "edit":
            return (self.path,)
        moved = tuple(old for verb, _, old, _ in self.steps if verb == "move")
        return tuple(path for _, path, _, _ in self.steps) + moved

    @property
    def command(self) -> str:
        """The same as one shell command, for hosts whose only tool is a shell."""
        if self.kind == "code":
            return f"{shlex.quote(sys.executable)} -c {shlex.quote(self.text)}"
        return self.text

    def patch(self, dialect: str = "hermes") -> str:
        """The patch text, as Hermes or Codex spell a move."""
        lines = ["*** Begin Patch"]
        for verb, path, old, new in self.steps:
            if verb == "update":
                lines += [f"*** Update File: {path}", "@@", f"-{old}", f"+{new}"]
            elif verb == "add":
                lines += [f"*** Add File: {path}", f"+{new}"]
            elif verb == "delete":
                lines += [f"*** Delete File: {path}"]
            elif dialect == "codex":
                lines += [f"*** Update File: {path}", f"*** Move to: {old}"]
            else:
                lines += [f"*** Move File: {path} -> {old}"]
        return "\n".join([*lines, "*** End Patch", ""])

    def perform(self, project: str) -> None:
        """Do it, as the host's tool would."""
        if self.kind == "edit":
            full = os.path.join(project, self.path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8", newline="") as file:
                file.write(self.text)
        elif self.kind == "patch":
            for step in self.steps:
                _patch(project, *step)
        else:
            run(self.command, project)


def run(command: str, project: str) -> None:
    """A command as the agent's shell runs it: whatever it answers, it happened."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.path.dirname(project), "LANG": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", command], cwd=project, env=environment, capture_output=True)
    assert done.returncode == 0, (command, done.stderr)


def _patch(project: str, verb: str, path: str, old: str, new: str) -> None:
    full = os.path.join(project, path)
    if verb == "delete":
        os.unlink(full)
    elif verb == "move":
        os.makedirs(os.path.dirname(os.path.join(project, old)), exist_ok=True)
        os.rename(full, os.path.join(project, old))
    else:
        text = ""
        if verb == "update":
            with open(full, encoding="utf-8") as file:
                text = file.read()
            assert old + "\n" in text
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text.replace(old + "\n", new + "\n") if verb == "update" else new + "\n")


def _edit(name: str, path: str, text: str, stays: tuple[str, ...] = ()) -> Action:
    return Action(name, "edit", text, path, stays=stays)


def _patched(name: str, *steps: tuple[str, str, str, str]) -> Action:
    return Action(name, "patch", steps=steps)


def _shell(name: str, text: str, *stays: str) -> Action:
    return Action(name, "shell", text, stays=stays)


def _code(name: str, text: str, *stays: str) -> Action:
    return Action(name, "code", text, stays=stays)


_GENERATE = (
    "mkdir -p gen2 && cd gen2 && for d in $(seq 20); do mkdir d$d;"
    " for f in $(seq 100); do echo $d$f > d$d/f$f; done; done"
)
_NOISE = """
import os
status = os.stat('assets/logo.bin')
with open('assets/logo.bin', 'r+b') as file:
    file.seek(500)
    file.write(b'noise')
os.utime('assets/logo.bin', ns=(status.st_atime_ns, status.st_mtime_ns))
"""
_NO_ROWS = """
import sqlite3
connection = sqlite3.connect('data/NAME')
connection.execute('delete from notes')
connection.commit()
connection.close()
"""
_OTHER_LINKS = (
    "ln -sfn ../private.txt links/in && ln -sfn nowhere links/directory"
    " && rm links/out && echo bad > links/out && rm src/app.py && ln -s ../links/in src/app.py"
)
_RENAMED = "mv README.md readme.md; cd src; mv app.py x; mv util.py app.py; mv x util.py"

ACTIONS = (
    _edit("overwrite a source file", "src/app.py", "bad = 1\n"),
    _edit("empty a file", "README.md", ""),
    _edit("overwrite an ignored file", "notes.tmp", "gone\n"),
    _edit("make a file in directories that were not there", "fresh/very/deep/new.py", "bad = 1\n"),
    _edit("write through a link", "links/in", "bad = 'through a link'\n"),
    _edit("lose the line ends of Windows", "src/crlf.txt", "one\ntwo\nbad\n"),
    _edit("overwrite a private file", "private.txt", "not private\n"),
    _edit("overwrite a file with a foreign name", "names/naïve-日本.txt", "bad\n"),
    _edit("hide the traces in .gitignore", ".gitignore", "notes.tmp\n/local/\nsrc/\nassets/\n"),
    _patched(
        "patch two files",
        ("update", "src/app.py", "old = 1", "bad = 1"),
        ("update", "src/model.py", "old = 1", "bad = 2"),
    ),
    _patched(
        "patch: add, delete and move",
        ("add", "src/added.py", "", "bad = 1"),
        ("delete", "src/view.py", "", ""),
        ("move", "src/untracked.py", "names/away.py", ""),
    ),
    _code("unlink every source file", "import glob, os\nfor p in glob.glob('src/*.py'): os.unlink(p)"),
    _code("remove a tree with shutil", "import shutil; shutil.rmtree('generated')"),
    _code("write noise into a file of the same size and time", _NOISE),
    _code("delete the rows of a database", _NO_ROWS.replace("NAME", "rest.db")),
    _code("delete the rows of a database that is open", _NO_ROWS.replace("NAME", "live.db"), LIVE),
    _shell("rm -rf of the sources", "rm -rf src"),
    _shell("find -delete of everything", "find . -mindepth 1 -delete", *NEVER_SAVED),
    _shell("sed -i over all sources", "sed -i s/old/bad/ src/*.py"),
    _shell("git checkout .", "git checkout -q .", ".git"),
    _shell("git clean -fdx", "git clean -qffdx", *NEVER_SAVED),
    _shell("git reset --hard", "git reset -q --hard", ".git"),
    _shell("git stash -u", "git stash -qu", ".git", ".env", "build"),
    _shell("move files across directories", "mkdir attic && mv src/*.py names/* attic/ && mv -- assets src/"),
    _shell("rename a directory", "mv src lib"),
    _shell("chmod -R", "chmod -R a+rwx src private.txt locked empty run.sh"),
    _shell("rewrite everything with CRLF", r"sed -i 's/$/\r/' src/*.py README.md run.sh"),
    _shell("truncate the binary files", "truncate -s 0 assets/logo.bin && truncate -s 100 assets/large.bin"),
    _shell("append to files", "for f in run.sh assets/large.bin src/mixed.txt; do echo bad >> $f; done"),
    _shell("a directory where a file was", "rm README.md && mkdir README.md && echo bad > README.md/bad.txt"),
    _shell("a file where a directory was", "rm -rf src && echo bad > src"),
    _shell("swap the links", _OTHER_LINKS),
    _shell("delete nested repositories", "rm -rf vendor/*", "vendor/lib/.git", "vendor/new/.git"),
    _shell("git init inside", "cd src && git init -q && echo bad > app.py && git add .", "src/.git"),
    _shell("generate two thousand files", _GENERATE),
    _shell("unpack an archive over the tree", "tar xf ../outside/over.tar"),
    _shell("delete .git, and a file with it", "rm -rf .git src/app.py", ".git"),
    _shell("touch everything", "find . -path ./.git -prune -o -exec touch -h {} +", *NEVER_SAVED),
    _shell("rename by case, and swap two files", _RENAMED),
    _shell("delete the whole project", "cd .. && rm -rf project", *NEVER_SAVED),
)
