"""A project that lays traps for whoever reads it: pipes, devices, huge files and links where rules belong.

A checkpoint is taken all the same, a hook answers, and what else is in the project is stored.
"""

from __future__ import annotations

import json
import os

import pytest


def pipe(path):
    remove(path)
    os.mkfifo(path)


def sparse(path):
    remove(path)
    with open(path, "wb") as file:
        file.truncate(1_200_000_000)


def endless(path):
    remove(path)
    os.symlink("/dev/zero", path)


def loop(path):
    remove(path)
    os.symlink(os.path.basename(path), path)


def directory(path):
    remove(path)
    os.mkdir(path)


def terminal(path):
    remove(path)
    os.symlink("/dev/tty", path)


def zeros(path):
    """What a disk leaves after a power cut: a file of the right name and length, full of nothing."""
    remove(path)
    with open(path, "wb") as file:
        file.write(b"gitdir: " * (os.path.basename(path) == ".git") + bytes(300))


def remove(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil

        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


TRAPS = {
    "pipe": pipe,
    "sparse": sparse,
    "endless": endless,
    "loop": loop,
    "directory": directory,
    "zeros": zeros,
}
#: Every file that somebody might read in a project to learn something about it.
PLACES = [
    ".gitignore",
    "src/.gitignore",
    ".git",
    ".git/index",
    ".git/HEAD",
    ".git/commondir",
    ".git/info/exclude",
    ".git/config",
    ".git/packed-refs",
    ".git/refs/heads/main",
    ".gitattributes",
    "pyproject.toml",
    "package.json",
    "venv/pyvenv.cfg",
    "AGENTS.md",
]
CHOSEN = [
    (place, name)
    for place in PLACES
    for name in TRAPS
    # The whole table is what `--soak hostile` runs; what was found wanting and one kind of each runs always.
    if name == "pipe"
    or place in (".gitignore", ".git", ".git/index", ".git/info/exclude")
    or (place, name) == (".git/commondir", "zeros")
]
REST = [(place, name) for place in PLACES for name in TRAPS if (place, name) not in CHOSEN]


def before_a_write(project, *, path="main.py"):
    return json.dumps(
        {
            "session_id": "s",
            "cwd": project,
            "hook_event_name": "PreToolUse",
            "tool_name": "Write",
            "tool_input": {"file_path": os.path.join(project, path), "content": "x"},
        }
    ).encode()


def before_a_command(project):
    return json.dumps(
        {
            "session_id": "s",
            "cwd": project,
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "make"},
        }
    ).encode()


def held(run, project, place, name):
    TRAPS[name](os.path.join(project, place))
    hooked = run("hook", "claude-code", data=before_a_command(project), cwd=project)
    assert hooked.code == 0, hooked
    assert not hooked.out or "is no file of rules" in json.loads(hooked.out)["systemMessage"], hooked
    taken = run("checkpoint", project, "--json", cwd=project)
    assert taken.code in (0, 3), taken
    point = json.loads(taken.out)["checkpoint"]["id"]
    with open(os.path.join(project, "main.py"), "w") as file:
        file.write("broken\n")
    # Whatever the trap is, the last change is undone and the file is as it was.
    back = run("rollback", point, "main.py", "--dir", project, cwd=project)
    assert back.code in (0, 3), back
    with open(os.path.join(project, "main.py")) as file:
        assert file.read() == "print('hello')\n"
    for words in (("checkpoint", "list"), ("status",)):
        assert run(*words, cwd=project).code in (0, 3, 4), words


@pytest.mark.parametrize(("place", "name"), CHOSEN)
def test_a_trap_in_a_project_stops_no_checkpoint_and_no_hook(place, name, project, run):
    held(run, project, place, name)


@pytest.mark.soak("hostile")
@pytest.mark.parametrize(("place", "name"), REST)
def test_every_trap_at_every_place(place, name, project, run):
    held(run, project, place, name)


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        ("ref: ../../../secret.txt\n", ""),
        ("ref: refs/../../secret.txt\n", ""),
        ("a password that somebody linked here\n", ""),
        ("ref: refs/heads/main\n", "refs/heads/main"),
        ("0123456789abcdef0123456789abcdef01234567\n", "0123456789abcdef0123456789abcdef01234567"),
    ],
)
def test_nothing_but_a_commit_is_read_out_of_a_head(project, head, shown):
    """A checkpoint's own record goes to whoever may read the store: no line of another file gets there."""
    from safekept.checkpoints.store.metadata import git_head

    secret = os.path.join(os.path.dirname(project), "secret.txt")
    with open(secret, "w") as file:
        file.write("5ec2e7" * 6 + "abcd\n")  # a token that has the shape of a commit's name
    with open(os.path.join(project, ".git", "HEAD"), "w") as file:
        file.write(head)
    assert git_head(os.fsencode(project)) == shown
    os.unlink(os.path.join(project, ".git", "HEAD"))
    os.symlink(secret, os.path.join(project, ".git", "HEAD"))
    assert git_head(os.fsencode(project)) == ""
    os.unlink(os.path.join(project, ".git", "HEAD"))
    with open(os.path.join(project, ".git", "HEAD"), "w") as file:
        file.write("ref: refs/heads/main\n")
    os.symlink(secret, os.path.join(project, ".git", "refs", "heads", "main"))
    assert git_head(os.fsencode(project)) == "refs/heads/main"
