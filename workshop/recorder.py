"""Does one thing after the other in a fixed place, and stops at the first that does not end as it should."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from support.users.fixed_place import DATA, HOME, PLACE, PROJECT, USER, FixedPlace

SECOND = f"{PLACE}/second"  # another user of the same vault
KILLED = f"{PLACE}/work/killed"  # a project in which a rollback was killed
BARE = f"{PLACE}/bare"  # a user with a home that a killed import left half way
VAULT = f"{DATA}/vault"
ARCHIVES = f"{PLACE}/archives"
_KILLED = """
import os, signal, sys
sys.path.append(sys.argv.pop(1))
at, done = int(sys.argv.pop(1)), 0
def hook(event, arguments):
    global done
    if event == "os.rename" or event == "ctypes.dlsym" and arguments[1] == "renameat2":
        done += 1
        if done == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from safekept.__main__ import main
main()
"""


class Recorder:
    """Does one thing after the other in the place, and stops at the first that does not end as it should."""

    def __init__(self, place: FixedPlace, checkout: str) -> None:
        self.place, self.checkout = place, checkout

    def do(self, *words: str, code: int | Sequence[int] = 0, **options: Any) -> str:
        done = self.place.run(*words, **options)
        allowed = (code,) if isinstance(code, int) else tuple(code)
        if done.returncode not in allowed:
            told = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
            raise SystemExit(f"safekept {' '.join(words)} ended with {done.returncode}\n{told}")
        return done.stdout

    def ask(self, *words: str, code: int | Sequence[int] = 0, **options: Any) -> Any:
        return json.loads(self.do(*words, "--json", code=code, **options))

    def remember(self, text: str) -> None:
        """The home changes: one memory more."""
        path = self.place.at(f"{HOME}/memories/MEMORY.md")
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"§\n{text}\n")

    def write(self, name: str, text: str) -> None:
        self.place.put(f"{PROJECT}/{name}", text)

    def hook(self, event: str, **more: object) -> None:
        told = {
            "session_id": "session-of-claude",
            "prompt_id": "turn-1",
            "transcript_path": f"{USER}/.claude/projects/p/t.jsonl",
            "cwd": PROJECT,
            "permission_mode": "default",
            "hook_event_name": event,
            **more,
        }
        self.do("hook", "claude-code", told=json.dumps(told), cwd=PROJECT)

    def tool(self, path: str, text: str, turn: str) -> None:
        """An agent writes a file by a tool of its own."""
        about = {"file_path": path, "content": text}
        self.hook("PreToolUse", tool_name="Write", tool_input=about, tool_use_id="one", prompt_id=turn)
        self.place.put(path, text)
        told = {"filePath": path, "success": True}
        self.hook(
            "PostToolUse",
            tool_name="Write",
            tool_input=about,
            tool_response=told,
            tool_use_id="one",
            prompt_id=turn,
        )
        self.hook("Stop", stop_hook_active=False, prompt_id=turn)

    def last(self, verb: str) -> str:
        """The id of the last operation of this verb."""
        return str(self.ask("log", "--verb", verb, "-n", "1")["operations"][0]["operation"])

    def killed(self, at: int, *words: str, **options: Any) -> None:
        """The same command, killed at its so-manieth rename."""
        python = os.path.join(self.checkout, ".venv", "bin", "python")
        source = os.path.join(self.checkout, "src")
        done = self.place.run(*words, program=[python, "-I", "-c", _KILLED, source, str(at)], **options)
        if done.returncode != -9 and done.returncode != 137:
            raise SystemExit(
                f"{' '.join(words)} was not killed: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
