"""A throwaway user with a project and an agent's home, and the official SDK's client beside our server."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, ListRootsResult, Root

from safekept.integrations.mcp.caller import Roots, fallback_roots
from safekept.integrations.mcp.server import make_server
from support.home.homes import tree_facts
from support.projects.checkpoints import put

#: Both ways in which a client may speak: the handshake of 2025-11-25, and 2026-07-28 without one.
MODES = ("legacy", "auto")


class Said:
    """What a tool answered."""

    def __init__(self, result: CallToolResult) -> None:
        self.failed = bool(result.is_error)
        self.text = "\n".join(getattr(part, "text", "") for part in result.content)
        self.data: dict[str, Any] = dict(result.structured_content or {})

    @property
    def token(self) -> str:
        return str(self.data["confirm"])

    def __repr__(self) -> str:
        return f"Said(failed={self.failed})\n{self.text}"


class Agent:
    """A client, with short words."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: object) -> Said:
        return Said(await self.client.call_tool(tool, arguments))

    async def done(self, tool: str, **arguments: object) -> Said:
        """A destructive tool: its plan, and then the deed."""
        plan = await self.call(tool, **arguments)
        assert not plan.failed, plan
        return await self.call(tool, **arguments, confirm=plan.token)


class Ground:
    """A user, his project and his agent's home."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.project = os.path.join(user, "work", "project")
        self.home = os.path.join(user, ".hermes")
        put(os.path.join(self.project, "pyproject.toml"), "[project]\n")
        put(os.path.join(self.project, "a.txt"), "one\n")
        put(os.path.join(self.project, "src", "b.txt"), "b\n")

    def path(self, *parts: str) -> str:
        return os.path.join(self.project, *parts)

    def write(self, name: str, text: str) -> None:
        put(self.path(name), text)

    def read(self, name: str) -> str:
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def tree(self) -> Mapping[str, object]:
        return tree_facts(self.project)

    def roots(self, *given: str) -> Roots:
        return fallback_roots(given, {}, self.project)

    def roots_at(self, directory: str) -> Roots:
        """A server that was started somewhere else."""
        return fallback_roots((), {}, directory)

    def run(
        self,
        play: Callable[[Agent], Awaitable[None]],
        *,
        mode: str = "auto",
        roots: Roots | None = None,
        named: list[str] | None = None,
        server: object = None,
    ) -> None:
        """Drive our server in this process. `named`: the roots that the client names, as addresses."""
        server = server or make_server(roots or self.roots())

        async def main() -> None:
            async with talking(server, mode=mode, named=named) as agent:
                await play(agent)

        anyio.run(main)

    def program(self, *options: str, environment: Mapping[str, str] | None = None) -> StdioServerParameters:
        """The real program, as a host starts it."""
        return StdioServerParameters(
            command=sys.executable,
            args=["-m", "safekept", "mcp", *options],
            cwd=self.project,
            env={
                "HOME": self.user,
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                **(environment or {}),
            },
        )


@contextlib.asynccontextmanager
async def talking(server: Any, *, mode: str = "auto", named: list[str] | None = None) -> AsyncIterator[Agent]:
    async def answer(context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=uri) for uri in named or ()])  # type: ignore[arg-type]

    callback = answer if named is not None else None
    async with Client(server, mode=mode, list_roots_callback=callback) as client:  # type: ignore[arg-type]
        yield Agent(client)
