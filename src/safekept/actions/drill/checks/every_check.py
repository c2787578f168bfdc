"""Every check of a drill in its order, over a home that was restored: in scratch, or where it is to stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from safekept.core.events import Event, Listener

from ...base.scope import losses
from ..drill_report import RESTORE, STORE
from ..receipts import FAILED, LEFT_OUT, PASSED, UNKNOWN, Row
from .census import CENSUS, prove_census
from .databases import DATABASES, FULL_TEXT, KEYS, TABLES, prove_databases
from .essentials import MEMORIES, PERSONA, SETTINGS, prove_essentials
from .files import FILES, METADATA, SECRETS, prove_files, prove_metadata, prove_secrets
from .hermes import AGENT, prove_agent
from .restored import Findings, RestoredHome, named

COMPLETE = "complete"
#: Every check, in the order of the receipt.
CHECKS = (
    STORE,
    RESTORE,
    FILES,
    METADATA,
    SECRETS,
    DATABASES,
    KEYS,
    FULL_TEXT,
    TABLES,
    CENSUS,
    PERSONA,
    MEMORIES,
    SETTINGS,
    AGENT,
    COMPLETE,
)


def look_at_everything(
    restored: RestoredHome,
    scratch: str,
    live: str,
    environment: Mapping[str, str],
    findings: Findings,
    listener: Listener,
    brought: str = "",
    stays: bool = False,
) -> int:
    """From the bytes to the agent; those that open databases after those that hash. Bytes that were read.

    `scratch` is a directory for the agent to work in, `live` a home that it must never touch, or "".
    `brought`: why code in that home is not run. `stays`: what was restored is to be used afterwards.
    """
    read = prove_files(restored, findings, listener)
    prove_metadata(restored, findings)
    prove_secrets(restored, findings)
    listener(Event("check"))
    prove_databases(restored, findings, listener)
    prove_census(restored, findings)
    prove_essentials(restored, findings)
    prove_agent(restored, scratch, live, environment, findings, listener, brought, stays)
    prove_complete(restored.manifest, len(restored.files()), findings)
    return read


def prove_complete(manifest: Mapping[str, Any] | None, files: int, findings: Findings) -> None:
    """The row `complete`: what it says of itself."""
    lacking = losses(manifest)
    if any(row.check == STORE and row.state == FAILED for row in findings.rows):
        findings.add(COMPLETE, UNKNOWN, 0, "the store is damaged, so this is unknown")
    elif lacking:
        findings.add(COMPLETE, LEFT_OUT, len(lacking), f"by its own account: {named(lacking)}")
    elif manifest is None:
        findings.add(COMPLETE, UNKNOWN, 0, "it does not say what it was asked to hold")
    else:
        findings.add(COMPLETE, PASSED, files, "it holds everything that it was asked to")


def in_order(findings: Findings) -> tuple[Row, ...]:
    """A row for every check, also for those that had nothing to look at."""
    rows = {row.check: row for row in findings.rows}
    left = Row("", UNKNOWN, 0, "not looked at: nothing was restored")
    return tuple(rows.get(check, replace(left, check=check)) for check in CHECKS)
