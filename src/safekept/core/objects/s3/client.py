"""The obstore clients behind an S3 place: how long each request may take, and with which keys.

obstore counts the time of a whole request, not of a silence. So a GET, however large, is given up after
`timeout` seconds without a byte; a PUT gets time in proportion to its size and to the pace that was seen
before. Before anything is known the pace is taken for slow, and a PUT that ran out of time gets more the
next time: a thin line must not fail for ever, and a dead server is noticed by the small requests first.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from .credentials import S3Access

if TYPE_CHECKING:
    from obstore.store import S3Store

_SLOW, _SLOWEST = 64 << 10, 1 << 10  # bytes a second, of one lane
_TELLING = 1 << 20  # bytes; what is smaller says nothing about the pace
_PART_RETRIES = 6


class S3Client:
    """Clients for reading and writing, made when they are needed and shared by all threads."""

    def __init__(self, bucket: str, prefix: str, access: S3Access, timeout: float, patience: float) -> None:
        self.timeout, self.patience = timeout, patience
        self._bucket, self._prefix, self._access = bucket, prefix, access
        self._stores: dict[tuple[str, float], S3Store] = {}
        self._lock = threading.Lock()
        self._pace = float(_SLOW)

    def reading(self) -> S3Store:
        return self._store("get", self.timeout)

    def putting(self, size: int, parts: bool = False) -> S3Store:
        """For a PUT of so many bytes; in steps, so that few clients are made."""
        allowed, needed = self.timeout, self.timeout + size / self._pace
        while allowed < needed:
            allowed *= 2
        return self._store("parts" if parts else "put", allowed)

    def learn(self, size: int, seconds: float) -> None:
        """A PUT went through: the next may take eight times as long."""
        if size >= _TELLING:
            self._pace = max(_SLOW, size / max(0.001, seconds) / 8)

    def allow_more(self) -> None:
        """A PUT ran out of time."""
        self._pace = max(_SLOWEST, min(self._pace / 2, _SLOW))

    def close(self) -> None:
        with self._lock:
            self._stores.clear()

    def _store(self, use: str, seconds: float) -> S3Store:
        with self._lock:
            if (use, seconds) not in self._stores:
                self._stores[use, seconds] = self._make(use, seconds)
            return self._stores[use, seconds]

    def _make(self, use: str, seconds: float) -> S3Store:
        from obstore.store import S3Store

        access = self._access
        plain = access.endpoint.startswith("http://")
        client: dict[str, object] = {
            "connect_timeout": timedelta(seconds=min(self.timeout, 10)),
            "allow_http": plain,
        }
        if use == "get":
            client |= {"read_timeout": timedelta(seconds=seconds), "timeout": timedelta(days=30)}
        else:
            client |= {"timeout": timedelta(seconds=seconds)}
        settings: dict[str, object] = {
            "region": access.region,
            "virtual_hosted_style_request": False,
            "disable_bulk_delete": True,
            # TLS guards the bytes on their way; without it the signature has to cover them.
            "unsigned_payload": not plain,
        }
        if access.endpoint:
            settings["endpoint"] = access.endpoint
        if access.key:
            settings |= {"access_key_id": access.key, "secret_access_key": access.secret}
        if access.token:
            settings["session_token"] = access.token
        # Retries are those of retry.py; only the parts of a large upload are retried one by one.
        retries: dict[str, object] = {"max_retries": 0}
        if use == "parts":
            retries = {"max_retries": _PART_RETRIES, "retry_timeout": timedelta(seconds=self.patience)}
        return S3Store(
            self._bucket,
            prefix=self._prefix or None,
            client_options=cast("Any", client),
            retry_config=cast("Any", retries),
            **cast("Any", settings),
        )
