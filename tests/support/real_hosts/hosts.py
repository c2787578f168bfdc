"""The real hosts that are driven here, by the name that `safekept connect` knows."""

from __future__ import annotations

from .claude_code import ClaudeCode
from .cline import Cline
from .codex import Codex
from .copilot import Copilot
from .gemini import Gemini
from .host import RealHost
from .opencode import Opencode
from .qwen import Qwen

HOSTS: dict[str, RealHost] = {
    host.name: host for host in (ClaudeCode(), Codex(), Gemini(), Opencode(), Qwen(), Copilot(), Cline())
}

#: Those that go on with a conversation without a person. Cline does in its terminal interface alone.
GO_ON = [name for name in HOSTS if name != "cline"]

#: Where each keeps what it knows, below the user's directory; what lies beside it comes with it.
HOMES = {
    "claude-code": (".claude", ".claude.json"),
    "codex": (".codex",),
    "gemini": (".gemini",),
    "opencode": (".local/share/opencode", ".config/opencode/opencode.json"),
    "qwen": (".qwen",),
    "copilot": (".copilot",),
    "cline": (".cline",),
}
