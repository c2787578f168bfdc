"""How each agent keeps its conversations, by the word that its layout has for it."""

from __future__ import annotations

from .claude_code import ClaudeCodeFiles
from .codex import CodexFiles
from .gemini import GeminiFiles
from .transcripts import AgentFiles

_FILES: dict[str, type[AgentFiles]] = {
    "claude-code": ClaudeCodeFiles,
    "codex": CodexFiles,
    "gemini": GeminiFiles,
}


def agent_files(conversations: str) -> AgentFiles | None:
    """None: this agent keeps them in a database."""
    found = _FILES.get(conversations)
    return found() if found is not None else None
