"""The MCP server itself: every tool with its words, its arguments and its hints.

A tool that reads is marked read-only; one that keeps something adds and destroys nothing; one that goes
back is marked destructive, answers with a plan, and acts only with that plan's token.
"""

from __future__ import annotations

import os
import signal
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Resolve
from mcp.types import CallToolResult, ListRootsResult, ToolAnnotations
from pydantic import Field

from safekept import __version__

from . import homes, projects, undoing
from .call_queue import CallQueue, asked_roots
from .caller import Roots
from .resources import TimelineServer

INSTRUCTIONS = """safekept keeps checkpoints of projects and snapshots of the agent's home.
Use list_checkpoints and diff to see what changed, roll_back to undo changes in a project, and restore to
bring files of the agent's home back. roll_back, restore and undo answer with a plan and a token first;
nothing changes until the same call is made again with confirm=TOKEN. Show the user the plan before that.
Every roll_back and restore can itself be taken back with undo."""

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)

Named = Annotated[ListRootsResult | None, Resolve(asked_roots)]
Directory = Annotated[str, Field(description="A directory of the project; default: the first root.")]
Home = Annotated[str, Field(description="The agent's home; default: the usual one of this user.")]
Confirm = Annotated[
    str, Field(description="The token that came with the plan. Leave it empty to see the plan first.")
]
Files = Annotated[list[str], Field(description="Only these files, relative to the directory; default: all.")]
Limit = Annotated[int, Field(description="So many entries at most.", ge=1, le=500)]


def make_server(roots: Roots) -> TimelineServer:
    """A server for one user; `roots` is what holds for clients that name none."""
    desk = CallQueue(roots)
    server = TimelineServer(desk, "safekept", instructions=INSTRUCTIONS, version=__version__)
    _add_project_tools(server, desk)
    _add_home_tools(server, desk)
    server.add_timelines()
    return server


def run_server(roots: Roots) -> None:
    """Serve one client over standard input and output, until it goes or a signal ends it."""
    server = make_server(roots)

    async def serve() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_end_by_signal, server.desk)
            await server.run_stdio_async()
            group.cancel_scope.cancel()

    anyio.run(serve)


async def _end_by_signal(desk: CallQueue) -> None:
    """End when told to: the SDK's thread that waits for the client's next line would wait for ever."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            await desk.at_rest()
            os._exit(128 + number)


def _add_project_tools(server: MCPServer, desk: CallQueue) -> None:
    @server.tool(title="List checkpoints", annotations=READS)
    async def list_checkpoints(
        ctx: Context,
        roots: Named,
        directory: Directory = "",
        limit: Limit = 20,
        every: Annotated[bool, Field(description="Also marks and points that no number leads to.")] = False,
    ) -> CallToolResult:
        """List the points that a project can go back to, newest first, with what changed after each."""
        return await desk.call(
            ctx, roots, lambda caller: projects.list_checkpoints(caller, directory, limit, every)
        )

    @server.tool(title="Show what changed since a checkpoint", annotations=READS)
    async def diff(
        ctx: Context,
        roots: Named,
        checkpoint: Annotated[
            str, Field(description="A number or id of list_checkpoints; 1: the last change.")
        ] = "1",
        files: Files = [],  # noqa: B006 - the SDK copies it, and makes its schema from it
        directory: Directory = "",
        lines: Annotated[int, Field(description="So many lines of text at most.", ge=1, le=20_000)] = 400,
    ) -> CallToolResult:
        """Show as a unified diff what changed in a project since a checkpoint."""
        return await desk.call(
            ctx, roots, lambda caller: projects.difference(caller, directory, checkpoint, files, lines)
        )

    @server.tool(title="Take a checkpoint", annotations=ADDS)
    async def checkpoint(
        ctx: Context,
        roots: Named,
        reason: Annotated[str, Field(description="Why, in a few words.", max_length=2000)] = "",
        files: Files = [],  # noqa: B006
        directory: Directory = "",
    ) -> CallToolResult:
        """Keep a project as it is now, so that it can go back to this point."""
        return await desk.call(
            ctx, roots, lambda caller: projects.take_checkpoint(caller, directory, reason, files)
        )

    @server.tool(title="Roll a project back", annotations=CHANGES)
    async def roll_back(
        ctx: Context,
        roots: Named,
        checkpoint: Annotated[
            str, Field(description="A number or id of list_checkpoints; 1 undoes the last change.")
        ] = "1",
        files: Files = [],  # noqa: B006
        directory: Directory = "",
        overwrite_mine: Annotated[
            bool, Field(description="Also take back what the user changed after the agent.")
        ] = False,
        git: Annotated[
            bool, Field(description="Also put branches, tags, HEAD, stashes and index back; not with files.")
        ] = False,
        turn: Annotated[
            str,
            Field(
                description="The id of a turn, or `newest`: what it changed, in every project and the home."
            ),
        ] = "",
        confirm: Confirm = "",
    ) -> CallToolResult:
        """Take a project, or some files of it, back to a checkpoint. Without confirm: plan and token.

        With turn: all that this turn of an agent changed, and nothing else; no checkpoint or files then.
        """
        return await desk.call(
            ctx,
            roots,
            lambda caller: projects.roll_back(
                caller, directory, checkpoint, files, overwrite_mine, confirm, git, turn
            ),
        )

    @server.tool(title="Take a roll back or restore back", annotations=CHANGES)
    async def undo(
        ctx: Context,
        roots: Named,
        operation: Annotated[str, Field(description="The id of one; default: the last one here.")] = "",
        directory: Annotated[str, Field(description="Only rollbacks of this project.")] = "",
        home: Annotated[str, Field(description="Only restores of this home.")] = "",
        confirm: Confirm = "",
    ) -> CallToolResult:
        """Take the last roll_back or restore back. Without confirm: the plan and a token.

        The last one in the project of this session, else the last one that it may touch.
        """
        return await desk.call(
            ctx, roots, lambda caller: undoing.undo(caller, operation, directory, home, confirm)
        )


def _add_home_tools(server: MCPServer, desk: CallQueue) -> None:
    @server.tool(title="Take a snapshot of the agent's home", annotations=ADDS)
    async def snapshot(
        ctx: Context,
        roots: Named,
        quick: Annotated[bool, Field(description="Only what the agent knows and is; fast.")] = False,
        label: Annotated[str, Field(description="A few words to know it by.", max_length=200)] = "",
        home: Home = "",
    ) -> CallToolResult:
        """Keep the agent's home (persona, memories, skills, conversations) as it is now, in the vault."""
        return await desk.call(ctx, roots, lambda caller: homes.snapshot(caller, home, quick, label))

    @server.tool(title="List snapshots of the agent's home", annotations=READS)
    async def list_snapshots(
        ctx: Context, roots: Named, home: Home = "", limit: Limit = 20
    ) -> CallToolResult:
        """List the snapshots of the agent's home, newest first."""
        return await desk.call(ctx, roots, lambda caller: homes.list_snapshots(caller, home, limit))

    @server.tool(title="Restore paths of the agent's home", annotations=CHANGES)
    async def restore(
        ctx: Context,
        roots: Named,
        paths: Annotated[
            list[str], Field(description="Paths in the home, such as memories/MEMORY.md.", min_length=1)
        ],
        snapshot: Annotated[
            str, Field(description="A number, id or label of list_snapshots, or latest.")
        ] = "latest",
        home: Home = "",
        confirm: Confirm = "",
    ) -> CallToolResult:
        """Bring files or directories of the agent's home back. Without confirm: the plan and a token."""
        return await desk.call(
            ctx, roots, lambda caller: homes.restore(caller, snapshot, paths, home, confirm)
        )

    @server.tool(title="History of a file of the agent's home", annotations=READS)
    async def history(
        ctx: Context,
        roots: Named,
        path: Annotated[str, Field(description="A file of the home, such as SOUL.md.")],
        diff: Annotated[bool, Field(description="With the lines that changed between versions.")] = False,
        home: Home = "",
    ) -> CallToolResult:
        """List every version of one file of the agent's home that the snapshots hold."""
        return await desk.call(ctx, roots, lambda caller: homes.history(caller, path, home, diff))

    @server.tool(title="Am I protected?", annotations=READS)
    async def status(ctx: Context, roots: Named, home: Home = "") -> CallToolResult:
        """Say whether the agent's home and the projects are protected, and what is missing."""
        return await desk.call(ctx, roots, lambda caller: homes.status(caller, home))
