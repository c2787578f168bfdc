"""`safekept keeper serve`: the service itself, under whatever supervises services here."""

from __future__ import annotations

import os
import socket

import click

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.platform.rights import become
from safekept.keeper.server import KeeperServer, listening, load_everything
from safekept.keeper.store import STORE, KeeperStore
from safekept.keeper.units import USER
from safekept.keeper.wire import SOCKET

#: The first descriptor that a supervisor passes.
_PASSED = 3
#: Started by its socket, it ends after so long without a call.
_IDLE = 900.0


class KeeperUserMissing(SafekeptError):
    code = "keeper-user-missing"


@click.command("serve")
@click.option("--store", metavar="DIR", default=STORE, help=f"Where everything is kept; default: {STORE}.")
@click.option("--socket", "path", metavar="PATH", default=SOCKET, help=f"Where to listen; default: {SOCKET}.")
@click.option("--user", metavar="NAME", default=USER, help=f"As root: the user to become; default: {USER}.")
def serve_command(store: str, path: str, user: str) -> int:
    """Be the keeper, in the foreground, until SIGTERM.

    Started as root it makes its directories, listens, and becomes its own user for good. A socket that
    systemd passes is taken as it is.
    """
    os.umask(0o077)
    listener, idle = _passed(), 0.0
    if listener is not None:
        idle = _IDLE
    if os.geteuid() == 0:
        number, group = _user(user)
        os.makedirs(store, 0o700, exist_ok=True)
        os.chown(store, number, group)
        os.chmod(store, 0o700)
        if listener is None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.chmod(os.path.dirname(path), 0o755)  # noqa: S103 - everybody may call it
            listener = listening(path)
        load_everything()
        become(number, group, [])
        os.chdir("/")
    else:
        os.makedirs(store, 0o700, exist_ok=True)
        listener = listener or listening(path)
    KeeperServer(KeeperStore(os.path.abspath(store)), listener, idle=idle).run()
    return 0


def _passed() -> socket.socket | None:
    """The socket that systemd listens at for us."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    os.set_inheritable(_PASSED, False)
    return socket.socket(fileno=_PASSED)


def _user(name: str) -> tuple[int, int]:
    import pwd

    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise KeeperUserMissing(
            f"There is no user `{name}` for the keeper to be",
            kept="Nothing was changed",
            next_steps=(
                NextStep("keeper install", before="Install the keeper, as root:"),
                "Or name another user that nothing else runs as: `--user NAME`",
            ),
            user=name,
        ) from None
    return found.pw_uid, found.pw_gid
