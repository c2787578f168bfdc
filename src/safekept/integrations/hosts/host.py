"""What the hosts have in common: events that mean something, tools, and one call made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..calls import Call
from ..hermes.plugin.tools import goes_back
from .answers import Answer
from .event import Event, one_line, reason
from .tools import Tools

#: What hosts call the argument with which a command, or a subagent, outlives its call.
_BACKGROUND = ("run_in_background", "is_background", "background")


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
    #: Events on which words would reach the model, or nobody: they wait for the next.
    mute: frozenset[str] = frozenset()
    #: refine(call, event): what only this host knows.
    refine: Callable[[Call, Event], Call] = lambda call, event: call
    #: told(answer, event, text): the same with words for the model; None: its contract has no way.
    told: Callable[[Answer, str, str], Answer] | None = None

    def knows(self, event: Event) -> bool:
        return event.name in self.kinds

    def call(self, event: Event, cwd: str) -> Call:
        """What the host said, in words that belong to no host."""
        kind = self.kinds.get(event.name, "nothing")
        call = replace(self.common(event, cwd), kind=kind)
        if kind in ("before", "after"):
            call = self.tool_call(call, event)
        return self.refine(call, event)

    def tool_call(self, call: Call, event: Event) -> Call:
        """With the tool that is about to run or has run."""
        tool = call.tool or event.word("tool_name") or event.word("tool")
        given = event.part("tool_input" if "tool_input" in event.fields else "args")
        touched = self.tools.touched(tool, given)
        # The end of a tool that wrote what it named tells nothing new: the turn's end marks it.
        # Nor is it the end of a command that goes on in the background: what it writes then is its own.
        wanted = touched.anything if call.kind == "before" else touched.shell and not _goes_on(given)
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
