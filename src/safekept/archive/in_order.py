"""Work that is done ahead on several threads, its results handed on in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor


def in_order(work: Iterable[Callable[[], bytes]], pool: ThreadPoolExecutor, ahead: int) -> Iterator[bytes]:
    """At most `ahead` pieces are in the air, so memory stays flat; what nobody waits for is not begun."""
    flying: deque[Future[bytes]] = deque()
    try:
        for one in work:
            flying.append(pool.submit(one))
            if len(flying) >= ahead:
                yield flying.popleft().result()
        while flying:
            yield flying.popleft().result()
    finally:
        for future in flying:
            future.cancel()
