"""Words of `connect`, with and without `--remove`: the diff, the question, the list of hosts."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from safekept.actions.status.host_status import ELSEWHERE, HALF, HostStatus
from safekept.core.ages import ago_text
from safekept.core.errors import ConsentNeeded, SafekeptError

from ..console import Console, count_text, path_text
from ..screen import Screen

if TYPE_CHECKING:
    from safekept.actions.setup.survey import AgentPlace
    from safekept.integrations.connecting.plan import Plan
    from safekept.integrations.connecting.settings_file import SettingsLeftAlone

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def show_plan(console: Console, plan: Plan) -> None:
    """The diff, file by file; the files of our own plugin have a line for all of them."""
    own = Counter(edit.whole_file for edit in plan.edits if edit.changes and not edit.in_full)
    for (verb, directory), count in own.items():
        mark = "---" if verb == "removed" else "+++"
        text = f"{mark} {directory}/ (safekept's own plugin, {count_text(count, 'file')} {verb})"
        console.line(text, fg=_COLOURS[mark[0]])
    for edit in plan.edits:
        for line in edit.diff().split("\n") if edit.changes and edit.in_full else ():
            console.verbatim(line, fg=_COLOURS.get(line[:1]))
    if plan.changes:
        console.line()


#: Before the list of them.
WRITTEN = "It writes into these, and keeps a copy of each:"


def written_lines(screen: Screen, agents: Sequence[AgentPlace]) -> list[str]:
    """Which files connecting writes into: a line for each agent, and one for its profiles together."""
    lines: dict[str, list[str]] = {}
    like_the_first: dict[str, tuple[list[str], list[AgentPlace]]] = {}
    for one in agents:
        here = lines.setdefault(one.host, [])
        try:
            written = one.written()
        except SafekeptError as error:
            here.append(f"{one.name}: nothing, until this is mended: {error.clause}")
            continue
        below = [os.path.relpath(path, one.scope or "/") for path in written]
        known, profiles = like_the_first.setdefault(one.host, (below, []))
        if known is not below and known == below:
            profiles.append(one)
            continue
        files = [
            screen.path(path) + (f" ({count_text(count, 'file')})" if path.endswith("/") else "")
            for path, count in written.items()
        ]
        here.append(f"{one.name}: {', '.join(files)}" if files else f"{one.name}: no file")
    for host, (_, profiles) in like_the_first.items():
        if profiles:
            lines[host].append(f"The same in {', '.join(screen.path(one.scope) for one in profiles)}")
    return [text for of_host in lines.values() for text in of_host]


def agree(console: Console, plan: Plan, title: str, option: Sequence[str] = ()) -> None:
    """Ask; where no person can be asked, refuse with the command that needs no question."""
    if not console.can_ask():
        remove = () if plan.connecting else ("--remove",)
        again = console.command("connect", plan.host, *option, *remove)
        raise ConsentNeeded(
            f"Changing the settings of {title} needs your consent",
            kept="Nothing was changed",
            next_steps=(f"See what would change: `{again} --dry-run`", f"Agree to it: `{again} --yes`"),
        )
    question = f"Connect {title}?" if plan.connecting else f"Disconnect {title}?"
    if not console.ask(question):
        raise click.Abort


def lines_to_copy(console: Console, error: SettingsLeftAlone) -> None:
    """What a person can put in by hand, as it can be copied."""
    lines = str(error.facts.get("lines") or "")
    if lines and not console.as_json:
        console.line(f"To put into {path_text(str(error.facts.get('path')))}:")
        console.line()
        for line in lines.split("\n"):
            console.verbatim(line)
        console.line()


def show_hosts(console: Console, user_home: str, hosts: Sequence[HostStatus]) -> None:
    """Every host: those that are here with how it stands, the others by name."""
    screen = Screen(console, user_home)
    here = [one for one in hosts if one.here or one.program]
    if not here:
        console.heading("No agent that can be connected was found on this machine", good=False)
    else:
        connected = sum(one.connected for one in here)
        console.heading(
            f"{connected} of {count_text(len(here), 'agent')} on this machine connected", bool(connected)
        )
    for one in here:
        for number, text in enumerate(host_lines(console, one)):
            console.line(f"  {'' if number else one.host:<12} {screen.text(path_text(text))}", 15)
    elsewhere = [one.host for one in hosts if one not in here]
    if elsewhere:
        console.line(f"Not found here: {', '.join(elsewhere)}")


def host_lines(console: Console, one: HostStatus, now: float | None = None) -> list[str]:
    """How it stands with one host: a line, and one more for each thing that is wrong."""
    if not one.places:
        return [f"not connected: `{console.command('connect', one.host)}`"]
    wrong = [f"{text}: {console.step(step)}" for _, text, step in one.troubles]
    if all(place.trouble == ELSEWHERE for place in one.places):
        return [f"not connected here: `{console.command('connect', one.host)}`", *wrong]
    if not one.connected and any(place.half for place in one.places):
        return [HALF, *wrong]
    now = time.time() if now is None else now
    words = ["connected" if one.connected else "NOT connected any more"]
    scopes = [place.scope for place in one.places if place.option]
    if scopes and len(scopes) == len(one.places):
        words[0] += f" in {', '.join(scopes)}"
    if one.calls.last_call:
        words.append(f"last call {ago_text(one.calls.last_call, now)}")
        kept = one.calls.last_checkpoint
        words.append(f"last checkpoint {ago_text(kept, now)}" if kept else "no checkpoint yet")
        if one.silent_since and one.waiting:
            words.append(f"none since it was connected again ({one.waiting})")
    else:
        words.append(f"has not called yet ({one.waiting})" if one.waiting else "has not called yet")
    return [", ".join(words), *wrong]
