"""Timelines and diffs as resources: `safekept://timeline/PROJECT` and `safekept://diff/PROJECT/CHECKPOINT`.

A project is named by the id that the store has for it, so that no path of this machine is part of an
address; what an address may lead to is asked again at every reading. Listed are the projects within the
roots that have checkpoints.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import InputRequiredResult, ListRootsRequest, ListRootsResult, Resource
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from safekept.checkpoints.checkpoint import NoSuchCheckpoint
from safekept.checkpoints.project import project_id
from safekept.core.spelling import shown

from . import projects
from .answers import ToolAnswer
from .call_queue import CallQueue, as_json
from .caller import Caller, Roots

_JSON, _DIFF = "application/json", "text/x-diff"
_ASKED = "roots"
#: The request that is being answered, for the list of resources, which the SDK asks for without it.
_request: ContextVar[ServerRequestContext[Any, Any] | None] = ContextVar("safekept-mcp-request", default=None)


async def _remember(ctx: ServerRequestContext[Any, Any], call_next: Any) -> Any:
    token = _request.set(ctx)
    try:
        return await call_next(ctx)
    finally:
        _request.reset(token)


class TimelineServer(MCPServer[Any]):
    """The SDK's server, with resources that come and go with the projects."""

    def __init__(self, desk: CallQueue, name: str, *, instructions: str, version: str) -> None:
        super().__init__(
            name, instructions=instructions, version=version, log_level="ERROR", middleware=[_remember]
        )
        self.desk = desk

    async def list_resources(self) -> list[Resource]:
        """The timeline and the last change of each project within the roots."""
        ctx = _request.get()
        roots = self.desk.fallback if ctx is None else await self._listed_roots(ctx)
        if ctx is None or not roots.usable:
            return []
        context = Context(request_context=ctx, mcp_server=self)
        found = await self.desk.answer(context, roots, _known_projects)
        listed = []
        for path, name in sorted(dict(found.data).items()):
            listed.append(
                Resource(
                    uri=f"safekept://timeline/{name}",
                    name=f"Timeline of {shown(path)}",
                    description="The checkpoints of this project, newest first.",
                    mime_type=_JSON,
                )
            )
            listed.append(
                Resource(
                    uri=f"safekept://diff/{name}/1",
                    name=f"Last change in {shown(path)}",
                    description="What changed since the newest checkpoint that something changed after.",
                    mime_type=_DIFF,
                )
            )
        return listed

    def add_timelines(self) -> None:
        """Register the templates."""

        @self.resource("safekept://timeline/{project}", title="Timeline of a project", mime_type=_JSON)
        async def timeline(project: str, ctx: Context) -> str | InputRequiredResult:
            """The checkpoints of a project, newest first; PROJECT is an id from the list of resources."""
            roots = await self._read_roots(ctx)
            if isinstance(roots, InputRequiredResult):
                return roots
            work = lambda caller: projects.list_checkpoints(caller, _path(caller, project), 200, False)  # noqa: E731
            return as_json(_sound(await self.desk.answer(ctx, roots, work)).document)

        @self.resource("safekept://diff/{project}/{checkpoint}", title="Changes since", mime_type=_DIFF)
        async def difference(project: str, checkpoint: str, ctx: Context) -> str | InputRequiredResult:
            """What changed in a project since a checkpoint, as a unified diff."""
            roots = await self._read_roots(ctx)
            if isinstance(roots, InputRequiredResult):
                return roots
            work = lambda caller: projects.difference(  # noqa: E731
                caller, _path(caller, project), checkpoint, (), 20_000
            )
            answer = await self.desk.answer(ctx, roots, work)
            if checkpoint == "1" and answer.failed and answer.code == NoSuchCheckpoint.code:
                return ""  # nothing to go back to: that is no change, and no error of the reader
            return str(_sound(answer).document["diff"])

    async def _read_roots(self, ctx: Context) -> Roots | InputRequiredResult:
        """What the client names; a question to it where the protocol has no other way to ask."""
        capabilities = ctx.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return self.desk.roots(None)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            answer = (ctx.input_responses or {}).get(_ASKED)
            if not isinstance(answer, ListRootsResult):
                return InputRequiredResult(input_requests={_ASKED: ListRootsRequest()})
            return self.desk.roots(answer)
        return await self._ask(ctx.request_context)

    async def _listed_roots(self, ctx: ServerRequestContext[Any, Any]) -> Roots:
        capabilities = ctx.session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return self.desk.roots(None)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # Here this protocol has no way to ask: only what a person allowed with --root is listed.
            return Roots(self.desk.fallback.bounds, self.desk.fallback.bounds)
        return await self._ask(ctx)

    async def _ask(self, ctx: ServerRequestContext[Any, Any]) -> Roots:
        metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
        answer = await ctx.session.send_request(ListRootsRequest(), ListRootsResult, metadata=metadata)
        return self.desk.roots(answer)


def _known_projects(caller: Caller) -> ToolAnswer:
    """Path and id of every project within the roots."""
    from safekept.actions.projects.rollback import checkpoint_store

    with checkpoint_store(caller.context) as store:
        known = [path for path in store.projects() if caller.roots.holds(path)]
    return ToolAnswer(data={path: project_id(path) for path in known})


def _path(caller: Caller, project: str) -> str:
    """The directory of the project with this id. One outside the roots is as unknown as any other."""
    for path, name in _known_projects(caller).data.items():
        if name == project:
            return path
    raise caller.roots.unknown(project)


def _sound(answer: ToolAnswer) -> ToolAnswer:
    if answer.failed:
        raise ResourceError(answer.text)
    return answer
