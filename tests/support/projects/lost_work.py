"""Forty ways in which a shell command loses work, and the project that it happens to.

What is compared afterwards is what a person would miss: each byte, mode and time of the tree, the rows of the
databases, and where a way is about the repository, its refs, HEAD, index and stashes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess

from support.projects.checkpoints import put, tree_on_disk
from support.projects.hidden_halves import git
from support.projects.repositories import picture

WAYS = {
    "git clean of what is ignored": "git clean -fdX",
    "git clean of everything": "git clean -fdx",
    "git clean in one directory": "cd data && git clean -fdx .",
    "a secret emptied": ": > .env",
    "a secret deleted": "rm .env config/.env.local",
    "a secret overwritten by its template": "cp .env.example .env",
    "a secret edited in place": "sed -i 's/KEY/WORSE/' .env",
    "a secret edited, its time put back": "touch -r .env t; sed -i s/KEY/YEK/ .env; touch -r t .env; rm t",
    "a secret that everybody may read": "chmod 777 .env config/.env.local",
    "a secret replaced by a link": "rm .env && ln -s config/.env.local .env",
    "a secret replaced by a directory": "rm .env && mkdir .env && touch .env/x",
    "a key shredded": "shred -u certs/server.key",
    "a database deleted with its log": "rm data/app.db*",
    "a live database deleted with its log": "rm data/live.db*",
    "rows deleted": "sqlite3 data/app.db 'delete from t'",
    "rows deleted from a live database": "sqlite3 data/live.db 'delete from t'",
    "a table dropped": "sqlite3 data/app.db 'drop table t'",
    "a database truncated": "truncate -s 0 data/app.db",
    "a database replaced": "rm data/app.db && sqlite3 data/app.db 'create table t (x)'",
    "the data directory deleted": "rm -rf data",
    "the data directory moved away": "mv data old-data",
    "uploads found and deleted": "find data -name '*.pdf' -delete",
    "an archive unpacked over files": "tar xf spoiled.tar",
    "uploads edited in place": "perl -pi -e 's/PDF/FDP/' data/uploads/*.pdf",
    "a large file truncated": "truncate -s 100 model.bin",
    "a large file deleted": "rm model.bin",
    "ignored files of one kind deleted": "rm -f *.pdf",
    "rules that hide everything, then damage": "echo '*' > .gitignore; echo bad > src/a.py; rm -rf data .env",
    "a marker planted, then damage": "touch data/pyvenv.cfg && rm -r data/uploads",
    "all that can be seen, and the rest": "find . -mindepth 1 -not -path './.git*' -delete",
    "everything replaced by a fresh checkout": "git stash -uaq && git stash drop -q",
    "source files written over": "for f in src/*.py; do dd if=/dev/zero of=$f count=1 status=none; done",
}
#: Those that take the repository with them: `rollback 1 --git`.
REPOSITORY_WAYS = {
    "git reset --hard": "git reset -q --hard HEAD~1",
    "git checkout of what was not committed": "git checkout -q HEAD -- . && git reset -q",
    "stashes dropped": "git stash drop -q && git stash clear",
    "a branch deleted": "git branch -qD feature",
    "a history rewritten": "git stash clear; git reset -q --hard; FILTER_BRANCH_SQUELCH_WARNING=1 git "
    "filter-branch -f --index-filter 'git rm -q --cached --ignore-unmatch src/a.py' master feature",
    "garbage collected after a reset": "git reset -q --hard HEAD~1; git branch -qD feature; git stash clear;"
    " git reflog expire --expire=now --all; git gc -q --prune=now",
    "a rebase gone wrong": "git stash -q; git rebase -q --onto HEAD~1 HEAD feature; git branch -f master",
    "the repository deleted": "rm -rf .git",
}
DATABASES = ("data/app.db", "data/live.db")


def make_victim(project: str, aside: str) -> None:
    """A project with everything that git hides in it, and a repository with stashes and a branch."""
    for name in "abc":
        put(os.path.join(project, "src", f"{name}.py"), f"print('{name}')\n")
    put(os.path.join(project, ".gitignore"), "data/\n*.pdf\n/spoiled.tar\n.env*\n!.env.example\n")
    put(os.path.join(project, ".env"), "KEY=1\n" * 100, 0o600)
    put(os.path.join(project, ".env.example"), "KEY=\n")
    put(os.path.join(project, "config", ".env.local"), "LOCAL=1\n", 0o640)
    for number in range(5):
        put(os.path.join(project, "data", "uploads", f"{number}.pdf"), b"%PDF" + os.urandom(3000))
    put(os.path.join(project, "paper.pdf"), b"%PDF" + os.urandom(3000))
    put(os.path.join(aside, ".env"), "SPOILED=1\n")
    put(os.path.join(aside, "data", "uploads", "0.pdf"), "spoiled\n")
    subprocess.run(["tar", "cf", os.path.join(project, "spoiled.tar"), "-C", aside, "."], check=True)
    for name in DATABASES:
        database = sqlite3.connect(os.path.join(project, name))
        if name == "data/live.db":
            database.execute("pragma journal_mode=wal")
        with database:
            database.execute("create table t (x)")
            database.executemany("insert into t values (?)", [(number,) for number in range(50)])
        database.close()
    git(project, "init", "-q", "-b", "master")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    git(project, "branch", "feature")
    put(os.path.join(project, "src", "a.py"), "print('second')\n")
    git(project, "commit", "-qam", "second")
    for number in (1, 2):
        put(os.path.join(project, "src", "b.py"), f"print('stash {number}')\n")
        git(project, "stash", "-q")
    put(os.path.join(project, "certs", "server.key"), "-----KEY-----\n", 0o400)
    put(os.path.join(project, "model.bin"), os.urandom(11 << 20))
    put(os.path.join(project, "src", "staged.py"), "print('staged')\n")
    git(project, "add", "src/staged.py")


def state(project: str, aside: str, repository: bool) -> dict[str, object]:
    """Everything that a person would miss; of databases their rows."""
    found: dict[str, object] = {
        path: facts for path, facts in tree_on_disk(project).items() if not path.startswith(DATABASES)
    }
    for name in DATABASES:
        found[name] = _rows(os.path.join(project, name), os.path.join(aside, "copy.db"))
    if repository:
        found |= {f"git: {name}": facts for name, facts in picture(project).items() if name != "files"}
    return found


def _rows(path: str, copy: str) -> object:
    if not os.path.exists(path):
        return "gone"
    for suffix in ("", "-wal"):
        if os.path.exists(path + suffix):
            shutil.copyfile(path + suffix, copy + suffix)
    database = sqlite3.connect(copy)
    try:
        return database.execute("select x from t order by x").fetchall()
    except sqlite3.DatabaseError as error:
        return str(error)
    finally:
        database.close()
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(copy + suffix):
                os.unlink(copy + suffix)
