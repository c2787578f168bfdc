"""Hermes itself opens the restored session store and configuration: the last word on whether it will.

It gets a home of its own with copies of nothing but the database and `config.yaml`, credentials blanked:
no plugins, no skills, no gateway, no keys. Its process cannot reach the network: the kernel takes it
away where that is allowed (`unshare --net`), and every socket is refused inside the process as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from safekept.core.agents import compose, members
from safekept.core.events import Event, Listener
from safekept.core.files import quick_write
from safekept.core.files.small import read_regular
from safekept.core.records import dataclass
from safekept.core.sqlite.check import count as ask
from safekept.core.sqlite.format import connect

from ..receipts import LEFT_OUT, UNKNOWN
from .interpreter import USUAL_PATH, Interpreter, agents_place, find_interpreter, is_there
from .restored import Findings, Problems, RestoredHome, plural

# Settings without their credentials: what may be handed to a program that is only to read them.

_SECRET_KEY = re.compile(r"key|token|secret|passw|credential|bearer|cookie|auth", re.IGNORECASE)


def blanked(text: str) -> str:
    """A YAML text with the values of everything that may be a credential taken out.

    Only the values go, in place: the rest stays as it was written, character for character.
    """
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    try:
        root = compose(text)
    except ValueError:
        return re.sub(r"(?im)^(\s*[\w-]*(?:key|token|secret|passw)[\w-]*\s*:).*$", r"\1 ''", text)
    spans: list[tuple[int, int]] = []
    seen: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        node, secret = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, MappingNode):
            for key, value in node.value:
                waiting.append((value, secret or bool(_SECRET_KEY.search(str(key.value)))))
        elif isinstance(node, SequenceNode):
            waiting += [(item, secret) for item in node.value]
        elif isinstance(node, ScalarNode) and secret and node.tag == "tag:yaml.org,2002:str":
            spans.append((node.start_mark.index, node.end_mark.index))
    for start, end in sorted(spans, reverse=True):
        # A block of text ends at the next line; what follows it must stay on a line of its own.
        tail = "\n" if text[start:end].endswith("\n") else ""
        text = text[:start] + "''" + tail + text[end:]
    return text


AGENT = "agent"

#: Seconds for one home; a cold start of Hermes takes one or two.
_PATIENCE = 120.0
#: So many profiles are opened; the rest is proven like them by every other row.
_MOST = 8

_NOT_UNDERSTOOD = ("ModuleNotFoundError", "ImportError", "AttributeError", "TypeError")

#: Runs in Hermes's own interpreter. One line of JSON comes out.
_SCRIPT = """
import json, os, pathlib, socket, sys


def refuse(*arguments, **options):
    raise OSError("the network is cut off during a drill")


class NoSocket(socket.socket):
    connect = connect_ex = bind = sendto = refuse


socket.socket = NoSocket
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refuse
answer = {"sessions": None, "messages": None, "settings": None, "problem": ""}
home = pathlib.Path(os.environ["HERMES_HOME"])
try:
    if (home / "state.db").exists():
        import hermes_state

        store = hermes_state.SessionDB(home / "state.db")
        try:
            answer["messages"] = store.message_count()
            try:
                answer["sessions"] = store.session_count(include_archived=True)
            except TypeError:
                answer["sessions"] = store.session_count()
        finally:
            store.close()
    if (home / "config.yaml").exists():
        from hermes_cli.config import load_config

        answer["settings"] = sorted(map(str, load_config()))
except BaseException as error:
    answer["problem"] = f"{type(error).__name__}: {error}"
sys.__stdout__.write("\\n" + json.dumps(answer) + "\\n")
sys.__stdout__.flush()
os._exit(0)
"""


def prove_agent(
    restored: RestoredHome,
    scratch: str,
    live_home: str,
    environment: Mapping[str, str],
    findings: Findings,
    listener: Listener,
    brought: str = "",
    stays: bool = False,
) -> None:
    """The row `agent`. Moves databases out of a copy that goes anyway, so it comes last of all.

    `stays`: the home that was restored is to be used, and nothing is taken out of it. `brought`: why code
    that lies in the home is not run, in words; empty where it may be.
    """
    if restored.layout.name != "hermes":
        findings.add(AGENT, LEFT_OUT, 0, f"nothing is known of how {restored.layout.title} opens its home")
        return
    interpreter = find_interpreter(live_home, restored.layout.code_path, environment, bool(brought))
    if interpreter is None:
        title = restored.layout.title
        there = is_there(live_home, restored.layout.code_path, environment)
        shared = f"the {title} that is installed here can be changed by others, and is not run"
        findings.add(AGENT, LEFT_OUT, 0, brought or (shared if there else f"{title} is not installed here"))
        return
    homes = [prefix for prefix in restored.homes() if _has_something(restored, prefix)]
    if not homes:
        findings.add(AGENT, LEFT_OUT, 0, "there is neither a session store nor a configuration to open")
        return
    problems: Problems = []
    unknown = ""
    for number, prefix in enumerate(homes[:_MOST]):
        listener(Event("open", number, len(homes[:_MOST]), "homes", path=prefix))
        where = prefix.rstrip("/") or "the home"
        try:
            with agents_place(interpreter.owner, scratch, number) as place:
                given = _give(restored, prefix, place.path, stays)
                place.hand_over()
                answer = _ask(interpreter, given)
        except OSError as error:
            answer = f"it could not be given to Hermes: {error.strerror or error}"
        if isinstance(answer, str):
            unknown = f"{where}: {answer}"
        else:
            problems += [(where, why) for why in _judge(given, answer)]
    opened = plural(len(homes[:_MOST]), "home")
    text = f"Hermes opened {opened}, its network cut off ({interpreter.how})"
    if unknown and not problems:
        findings.add(AGENT, UNKNOWN, len(homes), unknown)
    else:
        findings.judge(AGENT, len(homes[:_MOST]), problems, text, "home")


def _has_something(restored: RestoredHome, prefix: str) -> bool:
    return any(
        prefix + name in restored.items and restored.there(prefix + name)
        for name in ("state.db", "config.yaml")
    )


@dataclass(slots=True)
class _Given:
    """What the agent gets to open, and what is in it: known before it is given away."""

    place: str
    messages: int | None = None  # rows in its store; None: it gets none
    settings: list[str] | None = None  # the sections of its configuration; None: it gets none
    broken: bool = False  # its configuration does not parse


def _give(restored: RestoredHome, prefix: str, place: str, stays: bool) -> _Given:
    """Copies of nothing but the database and the configuration, in a home of its own."""
    home = os.path.join(place, "home")
    os.makedirs(home, mode=0o700)
    given = _Given(place)
    if prefix + "state.db" in restored.items and restored.there(prefix + "state.db"):
        database = os.path.join(home, "state.db")
        # The tree of a drill is itself a copy, and a second one may not fit: from there it is moved.
        give = shutil.copyfile if stays else shutil.move
        give(restored.full(prefix + "state.db"), database)
        with contextlib.closing(connect(database, "mode=ro")) as connection:
            given.messages = ask(connection, "SELECT count(*) FROM messages")
    if prefix + "config.yaml" in restored.items and restored.there(prefix + "config.yaml"):
        data = read_regular(restored.full(prefix + "config.yaml"), follow=False)
        text = data.decode("utf-8", "surrogateescape")
        quick_write(os.path.join(home, "config.yaml"), blanked(text).encode("utf-8", "surrogateescape"))
        try:
            given.settings = list(members(compose(blanked(text))) or {})
        except ValueError:
            given.settings, given.broken = [], True
    return given


def _ask(interpreter: Interpreter, given: _Given) -> dict[str, Any] | str:
    """What Hermes says of one home; a text where it could not be asked."""
    place, home = given.place, os.path.join(given.place, "home")
    environment = {
        "PATH": USUAL_PATH,
        "HOME": place,
        "HERMES_HOME": home,
        "TMPDIR": place,
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }
    try:
        output, errors, status = interpreter.run(_SCRIPT, home, environment, _PATIENCE)
    except OSError as error:
        return f"Hermes could not be started: {error.strerror or error}"
    except subprocess.TimeoutExpired:
        return f"Hermes did not answer within {_PATIENCE:.0f} s"
    for line in reversed(output.splitlines()):
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict) and "problem" in answer:
                # Another Hermes, with other names inside, or no room for it: that says nothing of the home.
                problem = str(answer["problem"])
                if problem.startswith(_NOT_UNDERSTOOD) or "disk is full" in problem:
                    return f"this Hermes cannot be asked: {problem}"
                return answer
    lines = errors.strip().splitlines()
    return f"Hermes gave no answer (status {status}){': ' + lines[-1] if lines else ''}"


def _judge(given: _Given, answer: Mapping[str, Any]) -> list[str]:
    """What is wrong by what Hermes said, held against what it was given."""
    if answer["problem"]:
        return [f"Hermes could not open it: {answer['problem']}"]
    found = []
    if given.messages is not None and answer.get("messages") != given.messages:
        found.append(f"Hermes sees {answer.get('messages')} messages where there are {given.messages}")
    if given.broken:
        found.append("Hermes did not load the settings: the file does not parse")
    elif given.settings is not None and (missing := _not_loaded(given.settings, answer.get("settings"))):
        found.append(f"Hermes did not load the settings: {', '.join(missing[:3])}")
    return found


def _not_loaded(written: list[str], settings: object) -> list[str]:
    """Sections of the file that Hermes does not have: it falls back to its defaults without an error."""
    loaded = {str(one) for one in settings} if isinstance(settings, list) else set()
    # An older spelling that Hermes moves to its new place is no loss.
    return [f"`{name}`" for name in written if name not in loaded and name != "max_turns"]
