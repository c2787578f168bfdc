"""opencode: its plugins are JavaScript, so a small file of ours tells safekept what is about to happen.

The file is ours as a whole. It waits for the answer before a tool runs, never throws into opencode, gives
up after a while, and shows what safekept has to say as a toast. What the model has to know goes into the
person's message as a part of its own, which opencode does not show.
"""

from __future__ import annotations

import json
import os
import re

from safekept.actions.base.context import UserContext

from ...hosts.opencode import TOOLS
from ..host import SECONDS, SHARED, HostSettings, OwnFile
from ..program import Program, calls_us

_MARK = b"// Written by `safekept connect opencode`"
_COMMAND = re.compile(rb"^const command = (\[.*\])$", re.MULTILINE)
_SHIM = """\
// Written by `safekept connect opencode`; `safekept connect opencode --remove` takes it away.
// Tells safekept what a tool is about to change, so that it can be rolled back. It never throws.
import { spawn } from "node:child_process"

const command = COMMAND
const reading = new Set(READING)
const sessions = new Set(["session.idle", "session.error", "session.created", "session.deleted"])

export const Safekept = async ({ client, directory, worktree }) => {
  const tell = (told) =>
    new Promise((done) => {
      try {
        const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
        const end = setTimeout(() => { child.kill(); done("") }, MILLISECONDS)
        let said = ""
        child.on("error", () => { clearTimeout(end); done("") })
        child.on("close", () => { clearTimeout(end); done(said) })
        child.stdout.on("data", (data) => { said += data })
        child.stdin.on("error", () => {})
        child.stdin.end(JSON.stringify({ ...told, directory, worktree }))
      } catch { done("") }
    }).then(async (said) => {
      try {
        const { message, context } = said.trim() ? JSON.parse(said) : {}
        if (message) await client?.tui?.showToast?.({ body: { message, variant: "warning" } })
        return context
      } catch {}
    })
  const add = (text, sessionID, { message, parts }) => {
    const id = parts.at(-1).id + "s" // after the last one, since opencode sorts them
    parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
  }
  return {
    "chat.message": async (input, output) => {
      const { sessionID } = input ?? {}
      const messageID = input?.messageID ?? output?.message?.id
      const typed = output?.parts?.find?.((one) => one?.type === "text" && !one.synthetic)?.text
      const prompt = typeof typed === "string" ? typed.slice(0, 4000) : undefined
      const context = await tell({ hook: "chat.message", sessionID, messageID, prompt })
      try { if (context) add(context, sessionID, output) } catch {}
    },
    "tool.execute.before": async (input, output) => {
      const { tool, sessionID, callID } = input ?? {}
      const args = output?.args
      if (!reading.has(tool)) await tell({ hook: "tool.execute.before", tool, sessionID, callID, args })
    },
    "tool.execute.after": async (input) => {
      const { tool, sessionID, callID, args } = input ?? {}
      if (!reading.has(tool)) await tell({ hook: "tool.execute.after", tool, sessionID, callID, args })
    },
    event: async (input) => {
      const { type, properties } = input?.event ?? {}
      const sessionID = properties?.sessionID ?? properties?.info?.id
      if (sessions.has(type) && sessionID) await tell({ hook: type, sessionID })
    },
  }
}
"""


def shim(program: Program) -> bytes:
    text = _SHIM.replace("READING", json.dumps(sorted(TOOLS.reads))).replace(
        "MILLISECONDS", f"{SECONDS * 1000}"
    )
    return text.replace("COMMAND", json.dumps(list(program.hook("opencode")))).encode()


def _read(content: bytes) -> tuple[str, ...]:
    found = _COMMAND.search(content)
    try:
        words = tuple(map(str, json.loads(found[1]))) if found else ()
    except ValueError:
        return ()
    return words if calls_us(words, "opencode") else ()


def directory(context: UserContext) -> str:
    above = context.caller.environment.get("XDG_CONFIG_HOME", "")
    return os.path.join(above or os.path.join(context.places.user_home, ".config"), "opencode")


def files(context: UserContext, project: str) -> list[OwnFile]:
    above = os.path.join(project, ".opencode") if project else directory(context)
    return [OwnFile(os.path.join(above, "plugins", "safekept.js"), shim, _MARK, _read)]


def notes(context: UserContext, project: str) -> tuple[str, ...]:
    return (
        "Restart opencode: plugins are loaded when it starts",
        "With a plugin opencode asks npm for a package at each start, and starts late without npm",
        *((SHARED,) if project else ()),
    )


HOST = HostSettings(
    "opencode", "opencode", ("opencode",), directory, files, notes, waiting="restart opencode"
)
