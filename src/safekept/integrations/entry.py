"""The lean way in: `safekept hook HOST` and `safekept status --short`, before anything heavy is imported.

The helper does the work. Where it does not answer, this process does it, and starts a helper for the next
call. What is not exactly one of the two commands goes the ordinary way.
"""

import os
import sys

from .helper import client

#: Where the code is that this process runs.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Every host, by the name that `safekept hook` and `safekept connect` take: the one list of them. What a host
#: says is in `hosts/`, what goes into its settings in `connecting/hosts/`, in a file of that name.
HOSTS = ("hermes", "claude-code", "codex", "gemini", "cursor", "opencode", "qwen", "copilot", "cline")
#: Seconds in which a helper that is at work must have answered; a host ends a hook that takes much longer.
_DEADLINE = 15.0


def lean(arguments: list[str]) -> int | None:
    """Run the command, if it is one of the two; its exit code. None: it is for the ordinary way."""
    if len(arguments) == 2 and arguments[0] == "hook" and arguments[1] in HOSTS:
        _open_closed_streams()
        return _hook(arguments[1])
    if arguments == ["status", "--short"]:
        _open_closed_streams()
        return _short()
    return None


def with_packages() -> None:
    """The lean way starts without the installed packages (`-S`); whatever goes on from here wants them."""
    if sys.flags.no_site and "site" not in sys.modules:
        import site

        site.main()


def own_command(*words: str) -> list[str]:
    """How to start another process of this very code."""
    start = "import sys; sys.path.append(sys.argv.pop(1)); from safekept.__main__ import main; main()"
    return [sys.executable, "-I", "-c", start, os.path.dirname(PACKAGE), *words]


def helper_command() -> list[str]:
    return own_command("helper", "run", "--quiet")


def _hook(host: str) -> int | None:
    environment = dict(os.environ)
    try:
        if os.isatty(0):
            return None  # a person; the ordinary way says what this is for
        raw = _everything(0)
    except OSError:
        raw = b""
    try:
        directory = os.getcwd()
    except OSError:
        directory = ""  # it was deleted under our feet
    if client.wanted(environment):
        place = client.helper_directory(environment)
        header = client.request(
            "hook", environment, code=client.code_identity(PACKAGE), host=host, cwd=directory
        )
        answer = client.ask(place, header, raw, _DEADLINE)
        if answer is not None and "exit" in answer[0]:
            keys, out = answer
            return _said(out, keys.get("stderr", "").encode("utf-8", "surrogateescape"), keys["exit"])
        if answer is None or "stale" in answer[0]:
            client.start(helper_command(), place, environment)
    with_packages()
    from .in_process import hook_here

    return _said(*hook_here(host, raw, environment, directory))


def _short() -> int | None:
    environment = dict(os.environ)
    if client.wanted(environment):
        header = client.request("short", environment, code=client.code_identity(PACKAGE), cwd="")
        answer = client.ask(client.helper_directory(environment), header, b"", 2.0)
        if answer is not None and "exit" in answer[0]:
            return _said(answer[1], b"", answer[0]["exit"])
    with_packages()
    from .in_process import short_here

    line = short_here(environment)
    return None if line is None else _said(line, b"", "0")


def _said(out: bytes, errors: bytes, code: str | int) -> int:
    for number, text in ((1, out), (2, errors)):
        try:
            while text:
                text = text[os.write(number, text) :]
        except OSError:
            if number == 1:
                return 1  # it could not be heard
    return int(code)


def _open_closed_streams() -> None:
    """Where a caller closed a standard stream, nothing comes and everything goes nowhere: no file of ours
    may get its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def _everything(descriptor: int) -> bytes:
    """All that a host says. What is beyond the bound is read, so that the host is not stuck writing it, and
    dropped."""
    parts: list[bytes] = []
    size = 0
    while part := os.read(descriptor, 1 << 20):
        if size < client.MAX_BODY:
            parts.append(part)
        size += len(part)
    return b"".join(parts)[: client.MAX_BODY]
