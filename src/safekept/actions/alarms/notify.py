"""Notices: a ping, a message, a mail or a command, when something is wrong and only then.

Nothing here can fail or hold up the work: every target has the same few seconds, all of them at once, and
whatever goes wrong becomes a line in the journal. When all is well nothing is sent, except a
healthchecks-style URL, which is notified of every start and every good end so that it can miss one.

A target is named by its kind and its host. Its whole URL, which is often the only secret, is in no message,
no record and no error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial

from safekept.core.events import Event, Listener, silent
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.core.worker import Worker

from ..base.context import UserContext
from ..base.record import record

#: What a person may hear of, and may choose from with `notify.events`.
EVENTS = ("failure", "overdue", "loss", "drill", "destination")
#: What only a healthchecks-style URL hears of, once at each end of a run: the others are quiet when all is
#: well, and were told already of what is not.
HEARTBEATS = ("start", "success", "fail")
KINDS = (*EVENTS, "test", *HEARTBEATS)
#: Seconds for all targets together, unless the settings say otherwise.
DEADLINE = 5.0
#: So long an agent waits at most, in the middle of its work; the alarm itself is in the journal by then.
AGENT_WAITS = 1.0


#: What to do where the program that sends mail is not there.
INSTALL_MAILER = "Install one that sends mail (msmtp-mta, postfix, exim), or name it in `notify.sendmail`"


@dataclass(frozen=True, slots=True)
class NotifyTargets:
    """Who is notified, and of what; an empty one sends nothing."""

    ping: str = ""  # a healthchecks-style URL; `/start` and `/fail` are added
    ntfy: str = ""  # the URL of a topic
    webhook: str = ""  # gets a JSON document by POST
    email: tuple[str, ...] = ()  # addresses, through `sendmail`
    sendmail: str = "/usr/sbin/sendmail"
    command: tuple[str, ...] = ()  # its words; run without a shell
    events: tuple[str, ...] = EVENTS
    deadline: float = DEADLINE

    def __repr__(self) -> str:
        """Without any URL: a traceback or a log must not show one."""
        return f"NotifyTargets({', '.join(self.names()) or 'none'})"

    def names(self) -> tuple[str, ...]:
        """The targets as they may be shown: `ntfy at ntfy.sh`."""
        from .notify_ways import host_of

        found = [f"{kind} at {host_of(url)}" for kind, url in self.urls().items() if url]
        found += [f"email to {', '.join(self.email)}"] if self.email else []
        return (*found, *([f"command {self.command[0]}"] if self.command else []))

    @property
    def missing_mailer(self) -> str:
        """The program that mail needs and that cannot be run here; empty where there is one, or no mail."""
        import shutil

        return self.sendmail if self.email and shutil.which(self.sendmail) is None else ""

    def urls(self) -> dict[str, str]:
        return {"ping": self.ping, "ntfy": self.ntfy, "webhook": self.webhook}


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell: what happened in a line, and in a few."""

    kind: str  # one of KINDS
    title: str
    text: str = ""
    home: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    time: float = field(default_factory=time.time)

    def as_dict(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "title": self.title,
            "text": self.text,
            "home": self.home,
            "host": os.uname().nodename,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.time)),
            "facts": dict(self.facts),
        }


@dataclass(slots=True)
class Delivery:
    """How it went with one target."""

    target: str  # as it may be shown
    reason: str = "it did not answer in time"  # why it was not reached; empty: it was
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.reason

    def as_dict(self) -> dict[str, object]:
        return {
            "target": self.target,
            "ok": self.ok,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
        }


def notify(context: UserContext, notice: Notice, listener: Listener = silent) -> None:
    """Notify the targets that are set up, if any. Never raises, never slow."""
    try:
        deliveries = deliver(context, notice, wait=notice.kind != "start")
        if deliveries:
            _write_down(context, notice, deliveries, listener)
    except Exception as error:  # whatever it is, the work it was about matters more
        listener(Event("notify", text=f"Note: no notification could be sent: {type(error).__name__}"))


def deliver(context: UserContext, notice: Notice, *, wait: bool = True) -> list[Delivery]:
    """Tell every target that hears of this kind, all at once, and say how it went with each.

    Without `wait` no target is waited for and nothing is reported: a start ping must not hold up the start.
    """
    targets = context.choices.notify
    if targets is None:
        return []
    notice = replace(notice, title=_plain(notice.title), text=_plain(notice.text), home=_plain(notice.home))
    jobs = _jobs(context, targets, notice)
    deliveries = [Delivery(name) for name, _ in jobs]
    began = time.monotonic()
    workers = [
        Worker(partial(_tell, job, outcome, began), f"notify-{number}")
        for number, ((_, job), outcome) in enumerate(zip(jobs, deliveries, strict=True))
    ]
    if not wait:
        return []
    # A worker that is still at it keeps its own outcome; what is returned is settled now.
    patience = targets.deadline + 0.5
    if context.caller.actor.startswith("agent"):
        patience = min(patience, AGENT_WAITS)
    end = began + patience
    for worker in workers:
        worker.wait(max(0.0, end - time.monotonic()))
    return [Delivery(one.target, one.reason, one.seconds or time.monotonic() - began) for one in deliveries]


def _plain(text: str) -> str:
    """Names of files are in it, and they may hold anything: what no message can carry is shown as `?`."""
    known = text.encode("utf-8", "replace").decode()
    return "".join(sign if sign.isprintable() or sign == "\n" else "?" for sign in known)


def _tell(job: Callable[[], str], outcome: Delivery, began: float) -> None:
    try:
        reason = job()
    except Exception as error:  # the text of a strange error may hold the URL; its name does not
        reason = f"it failed ({type(error).__name__})"
    outcome.seconds = time.monotonic() - began
    outcome.reason = reason


def _jobs(
    context: UserContext, targets: NotifyTargets, notice: Notice
) -> list[tuple[str, Callable[[], str]]]:
    """The targets that hear of this, each by a name that may be shown and as something to call."""
    from . import notify_ways as notify_local
    from . import notify_ways as notify_web

    found: list[tuple[str, Callable[[], str]]] = []
    heartbeat = notice.kind in HEARTBEATS
    if not heartbeat and notice.kind != "test" and notice.kind not in targets.events:
        return []
    web = notify_web.Web(context.caller.environment, targets.deadline)
    if targets.ping:
        found.append((f"ping at {notify_web.host_of(targets.ping)}", partial(web.ping, targets.ping, notice)))
    if heartbeat:
        return found
    if targets.ntfy:
        found.append((f"ntfy at {notify_web.host_of(targets.ntfy)}", partial(web.ntfy, targets.ntfy, notice)))
    if targets.webhook:
        name = f"webhook at {notify_web.host_of(targets.webhook)}"
        found.append((name, partial(web.webhook, targets.webhook, notice)))
    local = notify_local.Local(context.caller.environment, targets.deadline)
    if targets.email:
        mail = partial(local.mail, targets.sendmail, targets.email, notice)
        found.append((f"email to {', '.join(targets.email)}", mail))
    if targets.command:
        found.append((f"command {targets.command[0]}", partial(local.command, targets.command, notice)))
    return found


def _write_down(context: UserContext, notice: Notice, deliveries: list[Delivery], listener: Listener) -> None:
    """One record of each message, whether it arrived or not; good pings leave none."""
    missed = [one for one in deliveries if not one.ok]
    for one in missed:
        listener(Event("notify", text=f"Note: {one.target} was not reached: {one.reason}"))
    if not missed and notice.kind in HEARTBEATS:
        return
    from ..base.operations.care import NotifyFacts

    targets = tuple(one.as_dict() for one in deliveries)
    work = NotifyFacts(home=notice.home, kind=notice.kind, title=notice.title, targets=targets)
    state = "done" if not missed else "incomplete" if len(missed) < len(deliveries) else "failed"
    record(context, work.line(new_id(), state), listener)
