"""The obstore clients behind an S3 place: how long each request may take, and with which keys.

obstore counts the time of a whole request, not of a silence. So a GET, however large, is given up after
`timeout` seconds without a byte; a PUT gets time in proportion to its size and to the pace that was seen
before. Before anything is known the pace is taken for slow, and a PUT that ran out of time gets more the
next time: a thin line must not fail for ever, and a dead server is noticed by the small requests first.
"""

from __future__ import annotations

import configparser
import json
import os
import shlex
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from ...records import dataclass
from ..errors import PlaceRefused

if TYPE_CHECKING:
    from obstore.store import S3Store


# Where the keys for an S3 place come from: the environment, then a profile, then the machine itself. The
# order is that of Amazon's own tools: a profile that was named wins over keys in the environment, those
# win over the profile `default`. Without either, obstore asks the container's or the machine's own
# service, unless AWS_EC2_METADATA_DISABLED says not to. Keys are handed to obstore and kept nowhere
# else.

_PROCESS_TIMEOUT = 60


@dataclass(frozen=True, slots=True)
class S3Access:
    """How to reach the server; the keys are not shown by a repr."""

    endpoint: str = ""
    region: str = ""
    key: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    from_machine: bool = False  # no keys: the container or machine gives them
    searched: str = ""  # where keys were looked for, for the error that says there are none


def s3_access(
    place: str, environment: Mapping[str, str], *, endpoint: str = "", region: str = "", profile: str = ""
) -> S3Access:
    """The endpoint, region and keys that count here; PlaceRefused where a named profile gives none."""
    named = profile or environment.get("AWS_PROFILE", "")
    section, files = _profile(environment, named or "default")
    endpoint = (
        endpoint
        or environment.get("AWS_ENDPOINT_URL_S3", "")
        or environment.get("AWS_ENDPOINT_URL", "")
        or section.get("endpoint_url", "")
    )
    region = (
        region
        or environment.get("AWS_REGION", "")
        or environment.get("AWS_DEFAULT_REGION", "")
        or section.get("region", "")
        or "us-east-1"
    )
    searched = f"AWS_ACCESS_KEY_ID in the environment and the profile `{named or 'default'}` of {files}"
    if environment.get("AWS_ACCESS_KEY_ID") and not profile:
        keys = (
            environment["AWS_ACCESS_KEY_ID"],
            environment.get("AWS_SECRET_ACCESS_KEY", ""),
            environment.get("AWS_SESSION_TOKEN", ""),
        )
        return S3Access(endpoint, region, *keys, searched=searched)
    if section.get("aws_access_key_id"):
        keys = (
            section["aws_access_key_id"],
            section.get("aws_secret_access_key", ""),
            section.get("aws_session_token", ""),
        )
        return S3Access(endpoint, region, *keys, searched=searched)
    if section.get("credential_process"):
        keys = _from_process(place, section["credential_process"], environment)
        return S3Access(endpoint, region, *keys, searched=searched)
    if profile:
        known = "it does not exist" if not section else "it has no `aws_access_key_id`"
        raise PlaceRefused(
            f"The profile `{profile}` gives no keys for `{place}`: {known}",
            kept="Nothing was contacted or changed",
            next_steps=(
                f"Add it to {files}; single sign-on and assumed roles go through `credential_process`",
            ),
            place=place,
        )
    metadata = environment.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true"
    return S3Access(endpoint, region, from_machine=metadata, searched=searched)


def no_keys(place: str, access: S3Access) -> PlaceRefused:
    return PlaceRefused(
        f"There are no keys for `{place}`: {access.searched} have none",
        kept="Nothing was sent or changed",
        next_steps=(
            "Put a key pair into a profile of ~/.aws/credentials and name it with `profile`",
            "Or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where the command or its schedule runs",
        ),
        place=place,
    )


def _profile(environment: Mapping[str, str], name: str) -> tuple[dict[str, str], str]:
    """The settings of one profile from both files, and the files' names for people."""
    home = environment.get("HOME", "")
    paths = [
        environment.get("AWS_CONFIG_FILE") or (os.path.join(home, ".aws", "config") if home else ""),
        environment.get("AWS_SHARED_CREDENTIALS_FILE")
        or (os.path.join(home, ".aws", "credentials") if home else ""),
    ]
    found: dict[str, str] = {}
    for path, sections in zip(paths, ((f"profile {name}", name), (name,)), strict=True):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read([path] if path else [], encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue
        for section in sections:
            # `config` knows a profile only by `[profile NAME]`, except the default one.
            if parser.has_section(section) and (section != name or path == paths[1] or name == "default"):
                found |= dict(parser.items(section))
    return found, " and ".join(f"`{path}`" for path in paths if path)


def _from_process(place: str, command: str, environment: Mapping[str, str]) -> tuple[str, str, str]:
    """Keys that a command prints, as Amazon's tools define it; its output never appears in an error."""
    try:
        result = subprocess.run(
            shlex.split(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROCESS_TIMEOUT,
            check=True,
        )
        answer = json.loads(result.stdout)
        return (
            str(answer["AccessKeyId"]),
            str(answer["SecretAccessKey"]),
            str(answer.get("SessionToken") or ""),
        )
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        raise PlaceRefused(
            f"The `credential_process` of the profile for `{place}` gave no keys",
            kept="Nothing was contacted or changed",
            next_steps=("Run that command by itself, and correct it in ~/.aws/config",),
            place=place,
        ) from None


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
        self.checksums = False  # until the server says that it wants them

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

    def send_checksums(self) -> None:
        """From now on every object comes with one, as a bucket with a default retention wants it."""
        self.checksums = True
        self.close()

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
        if self.checksums:
            settings["checksum_algorithm"] = "SHA256"
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
