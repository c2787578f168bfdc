"""Every agent's home: found, kept, and back to the byte; secrets apart, what can be made again left out.

Homes here are made from each agent's documentation. That the programs themselves take such a home back, and
go on with their conversations, is shown where they run: `./test --hosts` (tests/hosts/test_homes.py). Goose,
Copilot CLI, Cline and Cursor were not run.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import zipfile
from contextlib import closing

import pytest

from safekept.home.layout import shipped_layout

PLANTED = "hunter2-7f3c9a"
#: layout -> its home below the user's, and what lies where, below the user's directory: `kept` comes back,
#: `secret` too, but not without secrets; `left` is in no snapshot. A name that ends in .db is a database.
HOMES = {
    "claude-code": (
        ".claude",
        ["CLAUDE.md", "settings.json", "projects/-work/1.jsonl", "history.jsonl"],
        [".credentials.json", "~/.claude.json"],
        ["statsig/x", "shell-snapshots/s.sh"],
    ),
    "codex": (
        ".codex",
        [
            "config.toml",
            "AGENTS.md",
            "sessions/2026/11/18/rollout-1.jsonl",
            "state_5.sqlite.db",
            "installation_id",
        ],
        ["auth.json"],
        ["tmp/x"],
    ),
    "gemini": (
        ".gemini",
        ["settings.json", "GEMINI.md", "projects.json", "tmp/work/chats/session-1.json", "memory.md"],
        ["oauth_creds.json", ".env"],
        ["tmp/bin/rg"],
    ),
    "opencode": (
        ".local/share/opencode",
        ["opencode.db", "plans/p.md", "~/.config/opencode/opencode.json", "~/.config/opencode/plugins/a.js"],
        ["auth.json", "mcp-auth.json"],
        ["snapshot/x/HEAD", "log/l.log", "~/.config/opencode/node_modules/a/index.js"],
    ),
    "goose": (
        ".local/share/goose",
        ["sessions/sessions.db", "~/.config/goose/config.yaml", "~/.config/goose/.goosehints"],
        ["~/.config/goose/secrets.yaml"],
        [],
    ),
    "qwen": (
        ".qwen",
        ["settings.json", "QWEN.md", "projects/-work/chats/1.jsonl", "skills/a/SKILL.md"],
        ["oauth_creds.json", ".env"],
        ["debug/latest", "bin/rg"],
    ),
    "copilot": (
        ".copilot",
        ["settings.json", "copilot-instructions.md", "session-store.db", "session-state/1/events.jsonl"],
        ["config.json", "mcp-config.json"],
        ["logs/l.log", "installed-plugins/p/index.js"],
    ),
    "cline": (
        ".cline",
        [
            "data/settings/global-settings.json",
            "data/sessions/1/messages.json",
            "data/db/cron.db",
            "rules/r.md",
        ],
        ["data/settings/providers.json"],
        [],
    ),
    "cursor": (
        ".cursor",
        ["cli-config.json", "chats/h/i/store.db", "projects/p/agent-transcripts/t.jsonl", "rules/r.md"],
        ["mcp.json"],
        ["extensions/e/package.json"],
    ),
}


def made(user: str, layout: str) -> dict[str, bytes]:
    """The home of an agent; every file of it by its path."""
    home, *groups = HOMES[layout]
    found = {}
    for names, planted in zip(groups, ("", PLANTED, ""), strict=True):
        for name in names:
            path = os.path.join(user, name[2:]) if name.startswith("~/") else os.path.join(user, home, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if name.endswith(".db"):
                with closing(sqlite3.connect(path)) as connection:
                    connection.executescript(
                        "create table session (id); create table message (id);insert into session values (1);"
                    )
            else:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(json.dumps({"of": name, "key": planted}))
            with open(path, "rb") as file:
                found[path] = file.read()
    return found


def done(said):
    assert said.code == 0, said.out + said.err
    return said.out


def left_out(user: str, layout: str, path: str) -> bool:
    return any(path.endswith("/" + name.removeprefix("~/")) for name in HOMES[layout][3])


@pytest.mark.parametrize("layout", HOMES)
def test_a_home_comes_back_whole(layout, here, say):
    user = here.places.user_home
    before = made(user, layout)
    home = os.path.join(user, HOMES[layout][0])
    done(say("snapshot", "--home", home))
    for path in before:
        shutil.rmtree(os.path.dirname(path), ignore_errors=True) if path.startswith(home) else os.unlink(path)
    done(say("restore", "latest", "--home", home, "--layout", layout, "--yes"))
    for path, content in before.items():
        if left_out(user, layout, path):
            assert not os.path.exists(path), path
        elif path.endswith(".db"):
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("select count(*) from session").fetchone() == (1,)
        else:
            with open(path, "rb") as file:
                assert file.read() == content, path


@pytest.mark.parametrize("layout", HOMES)
def test_no_secret_is_in_what_leaves_them_out(layout, here, say, tmp_path):
    user = here.places.user_home
    made(user, layout)
    archive = str(tmp_path / "archive.zip")
    done(say("backup", "--home", os.path.join(user, HOMES[layout][0]), "-o", archive, "--no-secrets"))
    with zipfile.ZipFile(archive) as packed:
        names = [one for one in packed.namelist() if not one.startswith(".safekept")]
        assert len(names) >= len(HOMES[layout][1])
        assert not [one for one in packed.namelist() if PLANTED.encode() in packed.read(one)]


def test_every_home_here_is_named_kept_and_scheduled(here, say):
    user = here.places.user_home
    for layout in HOMES:
        made(user, layout)
    homes = {os.path.join(os.path.realpath(user), home) for home, *_ in HOMES.values()}
    document = json.loads(say("status", "--json").out)
    assert {one["home"] for one in document["homes"]} == homes
    assert "ermes" not in say("status").out
    told = json.loads(done(say("snapshot", "--all", "--json")))
    assert {one["home"] for one in told["snapshots"]} == homes
    assert {one["home"] for one in json.loads(say("status", "--json").out)["homes"]} == homes


@pytest.mark.parametrize(
    ("layout", "path", "quick"),
    [
        ("codex", "state_5.sqlite", True),
        ("codex", "logs_2.sqlite", False),
        ("gemini", "projects.json", True),
        ("claude-code", "_external/.claude.json", True),
        ("opencode", "_external/.config/opencode/opencode.json", True),
    ],
)
def test_the_small_set_has_what_a_conversation_needs_and_no_telemetry(layout, path, quick):
    assert shipped_layout(layout).quick(path) is quick
