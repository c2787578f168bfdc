"""The hosts that have a hook program, by the name that `safekept hook` is called with."""

from __future__ import annotations

#: name -> the file here that knows the host.
HOSTS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "hermes": "hermes",
    "cursor": "cursor",
    "opencode": "opencode",
}
