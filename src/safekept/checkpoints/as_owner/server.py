"""The child's side: it has become the owner of the project, and keeps it in the owner's own store."""

from __future__ import annotations

from typing import Any

from safekept.core.owner import load_packages, serve

from ..checkpoints import Checkpoints
from .wire import protection_out

#: What is loaded only when it is needed, and can no longer be found once the rights are gone.
_NEEDED = ("safekept.core", "safekept.checkpoints", "encodings")
_ALSO = (
    "array atexit bisect calendar concurrent.futures.thread ctypes difflib hashlib pwd select shlex sqlite3 "
    "subprocess tomllib traceback uuid zlib resource ruamel.yaml.composer ruamel.yaml.error ruamel.yaml.nodes"
).split()
_LEFT_ALONE = ("safekept.core.objects", "safekept.core.processes.foreground", __name__)


def before(settings: dict[str, Any], given: dict[str, Any]) -> tuple[Any, bytes]:
    return protection_out(Checkpoints(**settings).before(**given)), b""


def after(settings: dict[str, Any], given: dict[str, Any]) -> tuple[Any, bytes]:
    return protection_out(Checkpoints(**settings).after(**given, wait=True)), b""


def main(uid: int, gid: int, *groups: int) -> None:
    """The whole life of the child, of whom root asks the two things that an agent's hooks ask for."""
    serve(load_everything, lambda line: {"before": before, "after": after}, uid, gid, *groups)


def load_everything() -> None:
    load_packages(_NEEDED, _ALSO, _LEFT_ALONE)
