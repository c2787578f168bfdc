"""The JavaScript that opencode loads: what it tells safekept, and that nothing of ours can stop a tool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from conftest import MISSING
from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.hosts.event import read_event
from safekept.integrations.hosts.opencode import HOST as ANSWERING
from support.hosts.connected import connect, disconnect, program_in, read

#: Loads the plugin as opencode does (every export is a plugin) and drives its hooks.
DRIVER = """
const module = await import(process.argv[2])
const plugins = Object.values(module)
if (plugins.length !== 1) throw new Error("opencode would call " + plugins.length + " exports")
const toasts = []
const client = { tui: { showToast: async (told) => { toasts.push(told.body.message) } } }
const hooks = await plugins[0]({ client, directory: "/work/p", worktree: "/work" })
const sessionID = "s"
const before = (tool, callID, args) => hooks["tool.execute.before"]({ tool, sessionID, callID }, { args })
const parts = [{ id: "prt_1", type: "text", text: "please" }]
await hooks["chat.message"]({ sessionID: "s" }, { message: { id: "m" }, parts })
await before("read", "0", { filePath: "/r" })
await before("bash", "1", { command: "rm -rf x" })
await hooks["tool.execute.after"]({ tool: "bash", sessionID: "s", callID: "1", args: {} }, {})
await before("edit", "2", { filePath: "/work/p/a" })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })
await hooks.event({ event: { type: "message.updated", properties: {} } })
await hooks.event({ event: { type: "session.error", properties: { sessionID: "s", error: {} } } })
await hooks.event({ event: { type: "session.deleted", properties: { info: { id: "s" } } } })
for (const name of ["chat.message", "tool.execute.before", "tool.execute.after", "event"]) await hooks[name]()
console.log(JSON.stringify({ toasts, parts }))
"""


@pytest.fixture(scope="module")
def javascript() -> str:
    found = shutil.which("node") or shutil.which("bun")
    if found is None:
        # Neither is a part of safekept, so its lack fails nobody's run; it is listed at the end all the same.
        pytest.skip(MISSING + "node or bun: the plugin for opencode was read, but not run")
    return str(found)


def told(tmp_path, javascript: str, user, script: str) -> tuple[list[dict], dict]:
    """What a program in the place of safekept was told, and what the driver saw."""
    program = program_in(tmp_path)
    with open(program.words[0], "w", encoding="utf-8") as file:
        file.write(script.replace("LOG", str(tmp_path / "log")))
    connect(user, HOSTS["opencode"], program)
    path = os.path.join(user.places.user_home, ".config", "opencode", "plugins", "safekept.js")
    copy = tmp_path / "safekept.mjs"  # node asks for the ending, bun does not
    copy.write_bytes(read(path) or b"")
    driver = tmp_path / "driver.mjs"
    driver.write_text(DRIVER)
    done = subprocess.run([javascript, driver, copy], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    log = tmp_path / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines], json.loads(done.stdout)


def test_safekept_is_told_before_and_after_each_tool_that_may_change_something(tmp_path, javascript, user):
    script = '#!/bin/sh\n[ "$*" = "hook opencode" ] || exit 9\n(cat; echo) >> LOG\n'
    rows, seen = told(tmp_path, javascript, user, script)
    assert [row["hook"] for row in rows[:7]] == [
        "chat.message",
        "tool.execute.before",
        "tool.execute.after",
        "tool.execute.before",
        "session.idle",
        "session.error",
        "session.deleted",
    ]
    assert all(row["directory"] == "/work/p" and row["worktree"] == "/work" for row in rows)
    calls = [ANSWERING.call(read_event(json.dumps(row).encode()), "/") for row in rows[:7]]
    assert [call.kind for call in calls] == [
        *("turn", "before", "after", "before"),
        *("end", "end", "session-end"),
    ]
    assert {call.session for call in calls} == {"s"}
    assert calls[0].turn == "m" and calls[0].words == "please"
    assert calls[1].shell and calls[1].directory == "/work/p" and calls[1].session == "s"
    assert calls[3].paths == ("/work/p/a",)
    assert "read" not in {row.get("tool") for row in rows}
    assert seen["toasts"] == [] and len(seen["parts"]) == 1


def test_what_the_model_has_to_know_is_a_hidden_part_at_the_end_of_the_message(tmp_path, javascript, user):
    script = '#!/bin/sh\ncat > /dev/null; printf \'{"context": "it was undone"}\'\n'
    _, seen = told(tmp_path, javascript, user, script)
    person, ours = seen["parts"]
    assert person["text"] == "please" and seen["toasts"] == []
    assert ours.pop("id") > person["id"]
    assert ours == {
        "sessionID": "s",
        "messageID": "m",
        "type": "text",
        "text": "it was undone",
        "synthetic": True,
    }


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\nexit 3\n",
        "#!/bin/sh\nexec <&-; exec sleep 0\n",
        "#!/bin/sh\necho 'not json'; echo oops >&2; kill -9 $$\n",
        "#!/nowhere/interpreter\n",
        '#!/bin/sh\ncat > /dev/null; printf \'{"message": "nothing is protected"}\'\n',
        "#!/bin/sh\ncat > /dev/null; printf '[]'\n",
    ],
)
def test_nothing_that_safekept_does_can_stop_a_tool(tmp_path, javascript, user, script):
    rows, seen = told(tmp_path, javascript, user, script)
    assert rows == []
    assert set(seen["toasts"]) <= {"nothing is protected"}
    assert bool(seen["toasts"]) == ("message" in script)


def test_a_safekept_that_is_gone_does_not_stop_a_tool(tmp_path, javascript, user):
    program = program_in(tmp_path)
    connect(user, HOSTS["opencode"], program)
    os.unlink(program.words[0])
    path = os.path.join(user.places.user_home, ".config", "opencode", "plugins", "safekept.js")
    copy, driver = tmp_path / "safekept.mjs", tmp_path / "driver.mjs"
    copy.write_bytes(read(path) or b"")
    driver.write_text(DRIVER)
    done = subprocess.run([javascript, driver, copy], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_the_file_is_renewed_where_safekept_moved_and_goes_again(tmp_path, user):
    host = HOSTS["opencode"]
    path = os.path.join(user.places.user_home, ".config", "opencode", "plugins", "safekept.js")
    connect(user, host, program_in(tmp_path, "old"))
    assert connect(user, host, program_in(tmp_path, 'new "place"')).changes is True
    text = (read(path) or b"").decode()
    assert "old/safekept" not in text and 'new \\"place\\"/safekept' in text
    disconnect(user, host)
    assert not os.path.exists(os.path.join(user.places.user_home, ".config"))


def test_the_file_has_one_export_and_throws_nothing_as_far_as_can_be_read(tmp_path, user):
    connect(user, HOSTS["opencode"], program_in(tmp_path))
    path = os.path.join(user.places.user_home, ".config", "opencode", "plugins", "safekept.js")
    text = (read(path) or b"").decode()
    assert text.count("export ") == 1 and "throw " not in text
    for opened, closed in ("{}", "()", "[]"):
        assert text.count(opened) == text.count(closed)
    for event in ("chat.message", "tool.execute.before", "tool.execute.after", "session.idle"):
        assert f'"{event}"' in text and event in ANSWERING.kinds
