"""What can be wrong with a keeper, made for a user; each gives back what mends it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from safekept.actions.keeper.keeper_status import keeper_status
from safekept.actions.keeper.stores import Stores
from safekept.actions.keeper.transfer import transfer
from safekept.keeper.client import Keeper
from safekept.keeper.history import ManifestHistory
from safekept.keeper.store import KeeperStore
from safekept.keeper.wire import new_socket
from support.users.states import HOUR, State, aged

from .keepers import RunningKeeper, name_of, running_keeper, store_all


def silent_keeper(state: State) -> Callable[[], None]:
    """A socket that nobody listens at any more."""
    path = os.path.join(state.user, "socket")
    with new_socket() as dead:
        dead.bind(path)
    _use(state, path)
    return lambda: os.unlink(path)


def full_keeper(state: State) -> Callable[[], None]:
    held, keeper = _running(state, quota=100_000)
    with Keeper(keeper.socket) as caller:
        data = os.urandom(200_000)
        assert caller.put_bytes({name_of(data): data})[0]["error"] == "full"

    def mend() -> None:
        keeper.limit(10_000_000)
        with Keeper(keeper.socket) as caller:
            assert caller.put_bytes({name_of(data): data}) == []
        _over(state, held)

    return mend


def behind_keeper(state: State) -> Callable[[], None]:
    """A copy that is older than the last snapshot: what was sent since did not come."""
    held, keeper = _running(state, quota=100_000_000)
    stores = Stores.of(state.context.changed(keeper_socket=keeper.socket))
    transfer(stores)
    aged(state, HOUR)
    confirmed_before(keeper, 3 * HOUR)

    def mend() -> None:
        transfer(stores)
        _over(state, held)

    return mend


def confirmed_before(keeper: RunningKeeper, seconds: float) -> None:
    """Nothing came for so long, by the times of what the keeper holds."""
    manifests = KeeperStore(keeper.store).room(os.geteuid()).manifests
    for name in os.listdir(manifests):
        os.utime(os.path.join(manifests, name), (time.time() - seconds,) * 2)


def shrunk_keeper(state: State) -> Callable[[], None]:
    held, keeper = _running(state, quota=10_000_000)
    with Keeper(keeper.socket) as caller:
        store_all(caller, {"vault/a": os.urandom(9000)})
        store_all(caller, {"vault/b": b"little"})

    def mend() -> None:
        ManifestHistory(KeeperStore(keeper.store).room(os.geteuid())).acknowledge()
        _over(state, held)

    return mend


def _running(state: State, quota: int) -> tuple[contextlib.ExitStack, RunningKeeper]:
    held = contextlib.ExitStack()
    keeper = held.enter_context(running_keeper())
    keeper.limit(quota)
    keeper.start()
    _use(state, keeper.socket)
    return held, keeper


def _use(state: State, path: str) -> None:
    settings = os.path.join(state.user, ".config", "safekept", "config.toml")
    with open(settings, "a", encoding="utf-8") as file:
        file.write(f'\n[keeper]\nsocket = "{path}"\n')


def _over(state: State, held: contextlib.ExitStack) -> None:
    """It says itself that it is well; then it goes."""
    with open(os.path.join(state.user, ".config", "safekept", "config.toml"), encoding="utf-8") as file:
        path = file.read().rpartition('socket = "')[2].partition('"')[0]
    status = keeper_status(state.context.changed(keeper_socket=path))
    assert status is not None and not (status.pinned or status.full or status.wrong)
    held.close()
