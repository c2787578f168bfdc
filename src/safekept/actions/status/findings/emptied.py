"""Something emptied this machine, as `rm -rf ~` does: one finding says what is gone and what has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.finding import NOT_PROTECTED, NOTE, Finding
from safekept.core.next_step import NextStep

from ...base.context import UserContext
from ...keeper.keeper_status import KeeperStatus
from ..home_status import HomeStatus
from ..project_summaries import ProjectSummaries
from ..vault_status import OPEN, VaultStatus

_BACK = NextStep("rebuild", before="Bring all of it back:")
_SEE = NextStep("rebuild", ("--dry-run",), before="Or see it first:")


def with_emptied(
    findings: list[Finding],
    context: UserContext,
    gone: Mapping[str, str],
    homes: Sequence[HomeStatus],
    projects: ProjectSummaries,
    vault: VaultStatus,
    keeper: KeeperStatus | None,
) -> list[Finding]:
    """The findings, with those that are its consequence left to it. `gone`: files of ours that only their
    copies have; `keeper`: who may have everything."""
    if not gone and (found := _at_keeper(context, vault, keeper)) is not None:
        return [found, *findings]
    lost = [one for one in homes if not one.exists and one.last is not None]
    missing = [one for one in projects.projects if not one.here]
    key, settings = (path in gone for path in (context.places.vault_key_file, context.places.settings_file))
    if not key and not (lost and (settings or missing)):
        if not settings:
            return findings
        level = NOT_PROTECTED if vault.absent else NOTE
        text = "your settings are gone; their copy is still here"
        seen = (context.places.settings_file,)
        return [*findings, Finding("settings-gone", level, text, seen, (_BACK, _SEE), alarm=vault.absent)]
    # One line of a screen: who reads that homes and projects are gone does not ask for the settings first.
    what = [_count(len(lost), "home"), _count(len(missing), "project")]
    if not any(what):
        what = [*(["your settings"] if settings else []), *(["the key"] if key else [])]
    lacks = _listed(what)
    single = lacks in ("the key", "1 home", "1 project")
    text = f"{lacks} {'is' if single else 'are'} gone; {'a copy is' if single else 'their copies are'} here"
    evidence = (*(one.home for one in lost), *(one.project for one in missing[:3]), *gone)
    homes_gone = {one.home for one in lost}
    left = [one for one in findings if one.code != "home-gone" or one.home not in homes_gone]
    if settings:  # they say where the other copies are, and come back with the rest
        left = [one for one in left if one.code != "no-copy-elsewhere"]
    return [Finding("emptied", NOT_PROTECTED, text, evidence[:8], (_BACK, _SEE), alarm=True), *left]


def _at_keeper(context: UserContext, vault: VaultStatus, keeper: KeeperStatus | None) -> Finding | None:
    """What is gone here as a whole, and lies at the keeper."""
    if keeper is None or keeper.newest is None or vault.state == OPEN:
        return None
    from ...restoring.here.survivors import keeper_has

    try:
        found = keeper_has(context)
    except SafekeptError:
        return None
    if found is None or not (what := found.whole_gone):
        return None
    text = f"{_listed(what[:2])} {'is' if what == ('the vault',) else 'are'} gone; the keeper has "
    text += "it" if what == ("the vault",) else "them"
    seen = (f"{found.snapshots:,} snapshots and {found.checkpoints:,} checkpoints", *what)
    return Finding("emptied", NOT_PROTECTED, text, seen, (_BACK, _SEE), alarm=True)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}" if count else ""


def _listed(parts: Sequence[str]) -> str:
    found = [one for one in parts if one]
    return " and ".join(filter(None, (", ".join(found[:-1]), found[-1])))
