"""Where calls are worked off: one after the other, in a thread, with progress, and never half done.

One at a time, because two captures of one database in one process would drop each other's locks. A call
that is cancelled while it waits is not begun; one that has begun is finished, and its answer dropped:
a rollback cut in two would be worse than one that is not waited for.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import ListRoots
from mcp.types import CallToolResult, ListRootsResult, TextContent

from safekept.core.errors import SafekeptError
from safekept.core.events import Event
from safekept.core.next_step import NextStep

from ..plan_tokens import Confirmations
from .answers import ToolAnswer, refused
from .caller import Caller, Roots, client_roots

#: Seconds between two reports of progress.
_PACE = 0.25


class InternalError(SafekeptError):
    code = "mcp-internal-error"


async def asked_roots(ctx: Context) -> ListRoots | None:
    """Asks a client that has roots for them, at every call: they may change; None for one without."""
    capabilities = ctx.client_capabilities
    return ListRoots() if capabilities is not None and capabilities.roots is not None else None


class CallQueue:
    """One for each server."""

    def __init__(self, fallback: Roots) -> None:
        self.fallback = fallback
        self.confirmations = Confirmations()
        self._lane: anyio.Lock | None = None

    def roots(self, named: ListRootsResult | None) -> Roots:
        """What a call may touch, by what the client answered; None: it has no roots."""
        if named is None:
            return self.fallback
        return client_roots((str(root.uri) for root in named.roots), self.fallback)

    async def answer(self, ctx: Context, roots: Roots, work: Callable[[Caller], ToolAnswer]) -> ToolAnswer:
        """Do it in a thread, and turn what it raises into words."""
        seen = _Latest()

        def run() -> ToolAnswer:
            try:
                return work(Caller.of(roots, self.confirmations, seen.listen))
            except SafekeptError as error:
                return refused(error)
            except Exception as error:
                return refused(_unexpected(error))

        self._lane = self._lane or anyio.Lock()
        async with self._lane, anyio.create_task_group() as group:
            group.start_soon(seen.report, ctx)
            # Not abandoned when cancelled: the thread is waited for, whatever comes.
            found = await anyio.to_thread.run_sync(run)
            group.cancel_scope.cancel()
        return found

    async def at_rest(self) -> None:
        """Wait until what has begun is finished; nothing is begun after that."""
        if self._lane is not None:
            await self._lane.acquire()

    async def call(
        self, ctx: Context, named: ListRootsResult | None, work: Callable[[Caller], ToolAnswer]
    ) -> CallToolResult:
        """The same, as the answer of a tool."""
        answer = await self.answer(ctx, self.roots(named), work)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)],
            structured_content=answer.document,
            is_error=answer.failed,
        )


class _Latest:
    """The last event of the work, told to the client now and then; the work itself never waits for it."""

    def __init__(self) -> None:
        self._event: Event | None = None

    def listen(self, event: Event) -> None:
        self._event = event

    async def report(self, ctx: Context) -> None:
        step = 0
        reported: Event | None = None
        while True:
            await anyio.sleep(_PACE)
            event = self._event
            if event is None or event is reported:
                continue
            reported, step = event, step + 1
            amount = f" {event.done:,} of {event.total:,} {event.unit}" if event.total else ""
            # A client that does not listen, or is gone, is no reason to stop.
            with contextlib.suppress(Exception):
                await ctx.report_progress(step, None, str(event.text) or f"{event.phase}{amount}")


def _unexpected(error: Exception) -> InternalError:
    return InternalError(
        f"safekept did not expect this: {type(error).__name__}: {error}",
        kept="What was not finished is finished or taken back by the next command",
        next_steps=(NextStep("status", before="See how everything is:"),),
    )


def as_json(document: dict[str, object]) -> str:
    """A resource's text."""
    return json.dumps(document, indent=1, ensure_ascii=False)
