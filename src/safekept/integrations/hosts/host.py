"""What the hosts have in common: events that mean something, tools, and one call made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from safekept.core.records import dataclass

from ..calls import Call
from ..hermes.plugin.patches import named_in
from ..hermes.plugin.tools import goes_back
from .answers import Answer
from .event import Event, fit_path, one_line, reason

# What a tool may touch, as far as its name tells: nothing, named files, or anything. Only tools that are
# known to leave files alone are let through without a checkpoint, and only those that are known to write
# nothing but the files they name are taken at their word. Every other tool, one of an MCP server or of a
# newer host among them, is treated like a shell command.

# Which files a patch names: the envelope of Codex, Hermes and opencode, and plain unified diffs. A move
# names both its ends. Headers may be indented. What cannot be read names nothing, and a patch that names
# nothing is treated like a command.

#: More names than one patch has: beyond it the full pass has to do.
_MOST = 2000


def paths_in(text: str) -> tuple[str, ...]:
    """Every file that a patch would change, make or remove, each once."""
    names = [*named_in(text), *(name for line in text.splitlines() if (name := _named(line.lstrip())))]
    return tuple(dict.fromkeys(fit_path(name) for name in names if name != "/dev/null"))[:_MOST]


def is_patch(text: str) -> bool:
    return "*** Begin Patch" in text


def _named(line: str) -> str:
    """What a line of a unified diff names."""
    if line.startswith(("--- ", "+++ ")):
        path = line[4:].split("\t")[0].strip()
        return path[2:] if path.startswith(("a/", "b/")) else path
    if line.startswith(("rename from ", "rename to ")):
        return line.partition(" ")[2].partition(" ")[2].strip()
    return ""


#: What hosts call the field that names a file, in the order of trust.
PATH_KEYS = (
    "file_path",
    "notebook_path",
    "filePath",
    "path",
    "target_file",
    "target_notebook",
    "absolute_path",
)


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one host. `patches`: tool -> the fields that may hold the text of a patch."""

    reads: frozenset[str]
    writes: frozenset[str]
    patches: Mapping[str, tuple[str, ...]]
    path_keys: tuple[str, ...] = PATH_KEYS

    def touched(self, tool: str, given: Event) -> Touched:
        """What a call of this tool may change."""
        if tool in self.reads:
            return Touched()
        fields = self.patches.get(tool, ())
        named = tuple(path for field in fields for path in paths_in(given.command(field)))
        if named:
            return Touched(named)
        if tool in self.writes and (path := given.path(*self.path_keys)):
            return Touched((path,))
        return Touched(_patched_by(given.command()), shell=True)  # noqa: S604 - a field


@dataclass(frozen=True, slots=True)
class Touched:
    """Files by name, or anything at all (`shell`); neither: nothing."""

    paths: tuple[str, ...] = ()
    shell: bool = False

    @property
    def anything(self) -> bool:
        return self.shell or bool(self.paths)


def _patched_by(command: str) -> tuple[str, ...]:
    """A shell command may carry a patch: its files are named too, since a full pass leaves ignored ones."""
    return paths_in(command) if is_patch(command) else ()


def said(prompt: str) -> str:
    """What a turn is called in lists, of what the person said; the rest of it is not kept."""
    from safekept.actions.hosts.turn_words import first_line

    return first_line(prompt)


#: What hosts call the argument with which a command, or a subagent, outlives its call.
_BACKGROUND = ("run_in_background", "is_background", "background")


def arguments(event: Event) -> Event:
    """Those of a tool, where most hosts say them."""
    return event.part("tool_input" if "tool_input" in event.fields else "args")


@dataclass(frozen=True, slots=True)
class Host:
    """One host: its events by kind, its tools, where it says what, and how it wants to be answered.

    An event that is in `kinds` as "nothing" is known to ask for nothing; one that is not there at all
    comes from a host that is older or newer than this file.
    """

    name: str
    kinds: Mapping[str, str]
    tools: Tools
    #: common(host, event, cwd): a call with who, when and where filled in, of kind "nothing".
    common: Callable[[Event, str], Call]
    #: answer(event, words): `words` is what the person should see, or "".
    answer: Callable[[str, str], Answer]
    #: Events on which words would reach the model, or no person: they wait for the next.
    mute: frozenset[str] = frozenset()
    #: refine(call, event): what only this host knows.
    refine: Callable[[Call, Event], Call] = lambda call, event: call
    #: add_context(answer, event, text): the same with words for the model; None: its contract has no way.
    add_context: Callable[[Answer, str, str], Answer] | None = None
    prompt: str = "prompt"  # where it tells what the person said; empty: not there
    #: arguments(event): of the tool, with the text of a command in `command`.
    arguments: Callable[[Event], Event] = arguments

    def knows(self, event: Event) -> bool:
        return event.name in self.kinds

    def call(self, event: Event, cwd: str) -> Call:
        """What the host said, in words that belong to no host."""
        kind = self.kinds.get(event.name, "nothing")
        call = replace(self.common(event, cwd), kind=kind)
        if kind in ("before", "after"):
            call = self.tool_call(call, event)
        if kind == "turn" and self.prompt:
            call = replace(call, words=said(event.text(self.prompt)))
        return self.refine(call, event)

    def tool_call(self, call: Call, event: Event) -> Call:
        """With the tool that is about to run or has run."""
        tool = call.tool or event.word("tool_name") or event.word("tool")
        given = self.arguments(event)
        touched = self.tools.touched(tool, given)
        # The end of each tool is marked, since the end of the turn may not be heard of: a person interrupts
        # it, closes the window, edits. What goes on in the background has not ended.
        wanted = touched.anything and not (call.kind == "after" and _goes_on(given))
        return replace(
            call,
            kind=call.kind if wanted else "nothing",
            tool=tool,
            paths=touched.paths if call.kind == "before" else (),
            shell=touched.shell,
            reason=reason(tool, given.command()) if wanted and call.kind == "before" else "",
            goes_back=call.kind == "after" and goes_back(tool, given.command()),
        )


def _goes_on(given: Event) -> bool:
    return any(given.fields.get(name) is True for name in _BACKGROUND)


def agent_of(event: Event) -> str:
    """The subagent that acts: its kind and its id, as far as the host tells."""
    return one_line(":".join(filter(None, (event.word("agent_type"), event.word("agent_id")))), 120)
