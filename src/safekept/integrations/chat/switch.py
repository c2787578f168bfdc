"""`/safekept` and `/checkpoint` in a chat: the switch of a session, how it stands, and a point by hand.

Each returns what to say, the same as data, and whether it was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safekept.actions.hosts.sessions import SWITCH, set_switch, switch
from safekept.core.ages import ago_text
from safekept.core.errors import SafekeptError

if TYPE_CHECKING:
    from .chat import Conversation

Said = tuple[str, dict[str, object], bool]


def status(conversation: Conversation) -> Said:
    """Whether checkpoints are taken in this session, of which project, and what the hosts say."""
    from safekept.actions.hosts.calls import read_host_calls

    context = conversation.context
    found = switch(context.places.data_directory, context.caller.environment, conversation.session)
    lines = [_switch_text(found.on, found.by)]
    if found.strange:
        lines.append(f"{SWITCH} is `{found.strange[:20]}`, which is neither 0 nor 1.")
    project, count, newest = _project(conversation)
    if project:
        age = f", the last one {ago_text(newest / 1e9)}" if count else ""
        lines.append(f"{project}: {count} checkpoint{'s' * (count != 1)}{age}.")
    else:
        lines.append(f"{conversation.directory} is not a project: only files that a tool names are kept.")
    hosts = read_host_calls(context)
    for host in hosts:
        if host.failing:
            lines.append(f"{host.host}: the last call was not protected: {host.last_failure.get('what')}")
    data: dict[str, object] = {
        "on": found.on,
        "by": found.by,
        "session": conversation.session,
        "project": project,
        "checkpoints": count,
        "newest_ns": newest,
        "hosts": [host.as_dict() for host in hosts],
    }
    return "\n".join(lines), data, True


def turn_on(conversation: Conversation) -> Said:
    return _turn(conversation, True)


def turn_off(conversation: Conversation) -> Said:
    return _turn(conversation, False)


def take(conversation: Conversation, words: list[str]) -> Said:
    """A checkpoint by hand; the words say what for."""
    from safekept.actions.projects.checkpoint import take_checkpoint

    done = take_checkpoint(
        conversation.context,
        conversation.directory,
        conversation.policy,
        reason=" ".join(words),
        session=conversation.session,
        listener=conversation.listener,
    )
    point = done.taken.checkpoint or done.taken.latest
    name = point.id if point else ""
    data: dict[str, object] = {
        "checkpoint": point.as_dict() if point else None,
        "project": done.project,
        "skipped": [{"path": one.path, "reason": one.reason} for one in done.taken.skipped],
    }
    lines = [f"✅ Checkpoint {name} of {done.project}", f"/rollback {name} comes back to it."]
    if done.taken.skipped:
        lines.append(f"Not covered: {len(done.taken.skipped)} paths, such as {done.taken.skipped[0].path}")
    return "\n".join(lines), data, True


def _turn(conversation: Conversation, on: bool) -> Said:
    set_switch(conversation.context.places.data_directory, conversation.session, on)
    text = _switch_text(on, "session")
    if not conversation.session:
        text += "\nThis front end gives its sessions no names, so that holds for all of its kind."
    if not on:
        text += "\nWhat the agent changes from now on cannot be undone; `/safekept on` switches it on again."
    return text, {"on": on, "by": "session", "session": conversation.session}, True


def _switch_text(on: bool, by: str) -> str:
    who = {"session": " (/safekept)", "variable": f" ({SWITCH})"}.get(by, "")
    return f"Checkpoints are {'on' if on else 'off'} in this session{who}."


def _project(conversation: Conversation) -> tuple[str, int, int]:
    """The project around the directory, its numbered checkpoints and when the newest was taken."""
    from safekept.actions.projects.checkpoint import project_around
    from safekept.actions.projects.project import checkpoint_directory
    from safekept.checkpoints.store import Store

    try:
        project = project_around(conversation.context, conversation.directory)
    except SafekeptError:
        return "", 0, 0
    try:
        with Store.open(checkpoint_directory(conversation.context)) as store:
            points = [point for point in store.checkpoints(project) if point.numbered]
    except (SafekeptError, OSError):
        return project, 0, 0
    return project, len(points), max((point.time_ns for point in points), default=0)
