"""Codex: `codex exec`, with a provider of its own; its hooks run once they are trusted."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any

from . import host
from .deeds import Await, Deed, Delegate, Edit, Read, Seek, Shell, Use, Write
from .ground import Ground
from .model import Call, Model
from .wires import responses

_CONFIG = """\
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "Scripted"
base_url = "URL/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[features]
tool_search = false
"""


_TRUSTED = re.compile(r"\n\[hooks\.state\..*\]\ntrusted_hash = .*\n")


class Codex(host.RealHost):
    name, package, program = "codex", "@openai/codex", "codex"
    wire = responses

    def spell(self, deed: Deed) -> Call | None:
        match deed:
            case Read(_):
                return None  # it reads by commands, and patches what it has not read
            case Write(path, content):
                body = "".join(f"+{line}\n" for line in content.splitlines())
                return "apply_patch", f"*** Begin Patch\n*** Add File: {path}\n{body}*** End Patch\n"
            case Edit(path, old, new):
                body = f"@@\n-{old}\n+{new}\n"
                return "apply_patch", f"*** Begin Patch\n*** Update File: {path}\n{body}*** End Patch\n"
            case Shell(command, background):
                return "exec_command", {"cmd": command, "yield_time_ms": 250 if background else 30_000}
            case Delegate(prompt):
                return "multi_agent_v1.spawn_agent", {"message": prompt}
            case Await(agent):
                return "multi_agent_v1.wait_agent", {"targets": [agent], "timeout_ms": 600_000}
            case Seek(words):
                return "tool_search", {"query": words}
            case Use(tool, arguments, _):
                return f"mcp__safekept.{tool}", dict(arguments)

    def set_up(self, ground: Ground, model: Model) -> dict[str, str]:
        os.makedirs(os.path.join(ground.user, ".codex"))
        with open(self._settings(ground), "w", encoding="utf-8") as file:
            file.write(_CONFIG.replace("URL", model.url))
        return {"SCRIPTED_KEY": "none"}

    def _settings(self, ground: Ground) -> str:
        return os.path.join(ground.user, ".codex", "config.toml")

    def connected(self, ground: Ground) -> None:
        """Trusts the hooks, as `/hooks` would: by the hashes that Codex itself gives them."""
        hooks = self.hooks(ground)
        assert hooks and all(hook["trustStatus"] != "trusted" for hook in hooks), hooks
        with open(self._settings(ground), "r+", encoding="utf-8") as file:
            rest = _TRUSTED.sub("", file.read())
            file.seek(0)
            file.write(rest)
            for hook in hooks:
                file.write(f"\n[hooks.state.{json.dumps(hook['key'])}]\n")
                # Of a plugin's hook the plugin's own hash follows; what is trusted is the hook.
                file.write(f'trusted_hash = "{hook["currentHash"].partition("/")[0]}"\n')
            file.truncate()

    def hooks(self, ground: Ground) -> list[dict[str, str]]:
        """What Codex finds in its settings, each with its key, its hash and whether it is trusted."""
        answer = self._asked(ground, "hooks/list", cwds=[ground.project])
        found: list[dict[str, str]] = answer["data"][0]["hooks"]
        return found

    def resume(self, prompt: str, session: str) -> list[str]:
        return [self.program, "exec", "resume", "--skip-git-repo-check", session, prompt]

    def listed(self, ground: Ground) -> str:
        return json.dumps(self._asked(ground, "thread/list", sourceKinds=["cli", "exec"]))

    def delete(self, ground: Ground, session: str) -> None:
        said, _ = ground.launch(self, [self.program, "delete", "--force", session]).communicate(timeout=300)
        assert session not in self.listed(ground), said

    def _asked(self, ground: Ground, method: str, **parameters: object) -> Any:
        """What Codex's own server answers."""
        client = {"clientInfo": {"name": "test", "version": "1"}}
        asked = [
            {"id": 0, "method": "initialize", "params": client},
            {"method": "initialized"},
            {"id": 1, "method": method, "params": parameters},
        ]
        with subprocess.Popen(
            [self.program, "app-server"],
            cwd=ground.project,
            env=ground.environment(self),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            assert server.stdin and server.stdout
            server.stdin.write("".join(json.dumps(one) + "\n" for one in asked))
            server.stdin.flush()
            answers = (json.loads(line) for line in server.stdout)
            answer = next(one for one in answers if one.get("id") == 1)
            server.stdin.close()
            server.terminate()
        return answer["result"]

    def command(self, prompt: str, again: bool = False, sandbox: bool = False) -> list[str]:
        more = ["--sandbox", "workspace-write"] if sandbox else []
        more += ["resume", "--last"] if again else []
        return [self.program, "exec", *more, "--skip-git-repo-check", prompt]

    def add_server(self, ground: Ground, command: list[str]) -> None:
        with open(self._settings(ground), "a", encoding="utf-8") as file:
            file.write(f"\n[mcp_servers.safekept]\ncommand = {command[0]!r}\nargs = {command[1:]!r}\n")
            file.write(f"startup_timeout_sec = {host.STARTED}\nrequired = true\n")
            # In its sandbox it asks the person before a tool that may destroy something.
            file.write('default_tools_approval_mode = "approve"\n')

    def open_sandbox(self, ground: Ground, directory: str) -> None:
        """Its sandbox lets commands write there, too."""
        with open(self._settings(ground), "a", encoding="utf-8") as file:
            file.write(f"\n[sandbox_workspace_write]\nwritable_roots = [{directory!r}]\n")
