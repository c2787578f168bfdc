"""Hermes itself opens the restored session store and configuration: the last word on whether it will.

It gets a home of its own with copies of nothing but the database and `config.yaml`, credentials blanked:
no plugins, no skills, no gateway, no keys. Its process cannot reach the network: the kernel takes it
away where that is allowed (`unshare --net`), and every socket is refused inside the process as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safekept.core.events import Event, Listener
from safekept.core.sqlite.check import count as ask
from safekept.core.sqlite.format import connect
from safekept.home.yaml_nodes import compose, members

from ..receipts import LEFT_OUT, UNKNOWN
from .restored import Findings, Problems, Restored, plural
from .without_secrets import blanked

AGENT = "agent"

#: Seconds for one home; a cold start of Hermes takes one or two.
_PATIENCE = 120.0
#: So many profiles are opened; the rest is proven like them by every other row.
_MOST = 8
_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"

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


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that has Hermes in it, and what cuts it off the network."""

    python: str
    without_network: tuple[str, ...]  # words in front of the command; empty where the kernel refuses

    @property
    def how(self) -> str:
        return "unshare" if self.without_network else "sockets refused in its process"


def prove_agent(
    restored: Restored,
    scratch: str,
    live_home: str,
    environment: Mapping[str, str],
    findings: Findings,
    listener: Listener,
) -> None:
    """The row `agent`. Moves databases out of the restored copy, so it comes last of all."""
    if restored.layout.name != "hermes":
        findings.add(AGENT, LEFT_OUT, 0, f"nothing is known of how {restored.layout.title} opens its home")
        return
    python = find_python(live_home, restored.layout.code_path, environment)
    if not python:
        findings.add(AGENT, LEFT_OUT, 0, f"{restored.layout.title} is not installed here")
        return
    interpreter = Interpreter(python, _cut_off())
    homes = [prefix for prefix in restored.homes() if _has_something(restored, prefix)]
    if not homes:
        findings.add(AGENT, LEFT_OUT, 0, "there is neither a session store nor a configuration to open")
        return
    problems: Problems = []
    unknown = ""
    for number, prefix in enumerate(homes[:_MOST]):
        listener(Event("open", number, len(homes[:_MOST]), "homes", path=prefix))
        place = os.path.join(scratch, f"agent-{number}")
        answer = _ask(interpreter, restored, prefix, place)
        where = prefix.rstrip("/") or "the home"
        if isinstance(answer, str):
            unknown = f"{where}: {answer}"
        else:
            problems += [(where, why) for why in _judge(restored, prefix, place, answer)]
    opened = plural(len(homes[:_MOST]), "home")
    text = f"Hermes opened {opened}, its network cut off ({interpreter.how})"
    if unknown and not problems:
        findings.add(AGENT, UNKNOWN, len(homes), unknown)
    else:
        findings.judge(AGENT, len(homes[:_MOST]), problems, text, "home")


def find_python(live_home: str, code_path: str, environment: Mapping[str, str]) -> str:
    """The interpreter that Hermes runs in: of the code in the home, else of `hermes` on the PATH."""
    candidates = []
    if live_home and code_path:
        for name in ("venv", ".venv"):
            candidates.append(os.path.join(live_home, code_path, name, "bin", "python"))
    launcher = shutil.which("hermes", path=environment.get("PATH") or _USUAL_PATH)
    if launcher:
        candidates += _beside(launcher)
    return next((path for path in candidates if os.access(path, os.X_OK)), "")


def _beside(launcher: str) -> list[str]:
    """What a launcher names in its first line, and what lies beside it, links resolved."""
    found = []
    with contextlib.suppress(OSError), open(launcher, "rb") as file:
        first = os.fsdecode(file.readline(4096).strip())
        words = first[2:].split() if first.startswith("#!") else []
        if words and "python" in os.path.basename(words[0]):
            found.append(words[0])
    for path in (launcher, os.path.realpath(launcher)):
        found.append(os.path.join(os.path.dirname(path), "python"))
    return found


def _cut_off() -> tuple[str, ...]:
    """The words that take the network away from a command, where this kernel allows it."""
    program = shutil.which("unshare", path=_USUAL_PATH)
    if program is None:
        return ()
    words = (program, "--net") if os.geteuid() == 0 else (program, "--map-root-user", "--net")
    try:
        done = subprocess.run([*words, "true"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return words if done.returncode == 0 else ()


def _has_something(restored: Restored, prefix: str) -> bool:
    return any(
        prefix + name in restored.items and restored.there(prefix + name)
        for name in ("state.db", "config.yaml")
    )


def _ask(interpreter: Interpreter, restored: Restored, prefix: str, place: str) -> dict[str, Any] | str:
    """What Hermes says of one home; a text where it could not be asked."""
    home = os.path.join(place, "home")
    os.makedirs(home, mode=0o700)
    if prefix + "state.db" in restored.items and restored.there(prefix + "state.db"):
        # Moved, not copied: the restored tree is itself a copy, and a second one may not fit.
        os.rename(restored.full(prefix + "state.db"), os.path.join(home, "state.db"))
    if prefix + "config.yaml" in restored.items and restored.there(prefix + "config.yaml"):
        with open(restored.full(prefix + "config.yaml"), "rb") as file:
            text = file.read().decode("utf-8", "surrogateescape")
        with open(os.path.join(home, "config.yaml"), "wb") as file:
            file.write(blanked(text).encode("utf-8", "surrogateescape"))
    environment = {
        "PATH": _USUAL_PATH,
        "HOME": place,
        "HERMES_HOME": home,
        "TMPDIR": place,
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }
    command = [*interpreter.without_network, interpreter.python, "-I", "-B", "-c", _SCRIPT]
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return f"Hermes could not be started: {error.strerror or error}"
    try:
        output, errors = child.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"Hermes did not answer within {_PATIENCE:.0f} s"
    finally:
        _end(child)
    for line in reversed(output.decode("utf-8", "replace").splitlines()):
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict) and "problem" in answer:
                # Another Hermes, with other names inside, or no room for it: that says nothing of the home.
                problem = str(answer["problem"])
                if problem.startswith(_NOT_UNDERSTOOD) or "disk is full" in problem:
                    return f"this Hermes cannot be asked: {problem}"
                return answer
    said = errors.decode("utf-8", "replace").strip().splitlines()
    return f"Hermes gave no answer (status {child.returncode}){': ' + said[-1] if said else ''}"


def _end(child: subprocess.Popen[bytes]) -> None:
    """It and whatever it started, whatever happened to us."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _judge(restored: Restored, prefix: str, place: str, answer: Mapping[str, Any]) -> list[str]:
    """What is wrong by what Hermes said, and by what is in its store afterwards."""
    if answer["problem"]:
        return [f"Hermes could not open it: {answer['problem']}"]
    found = []
    database = os.path.join(place, "home", "state.db")
    if os.path.exists(database):
        with contextlib.closing(connect(database, "mode=ro")) as connection:
            rows = ask(connection, "SELECT count(*) FROM messages")
        if answer["messages"] != rows:
            found.append(f"Hermes sees {answer['messages']} messages where there are {rows}")
    config = os.path.join(place, "home", "config.yaml")
    if os.path.exists(config) and (missing := _not_loaded(config, answer.get("settings"))):
        found.append(f"Hermes did not load the settings: {', '.join(missing[:3])}")
    return found


def _not_loaded(config: str, settings: object) -> list[str]:
    """Sections of the file that Hermes does not have: it falls back to its defaults without an error."""
    with open(config, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    try:
        written = members(compose(text)) or {}
    except ValueError:
        return ["the file does not parse"]
    loaded = set(settings) if isinstance(settings, list) else set()
    # An older spelling that Hermes moves to its new place is no loss.
    return [f"`{name}`" for name in written if name not in loaded and name != "max_turns"]
