"""Small things that frightened a stranger: each is said as it is, and no worse."""

from __future__ import annotations

from safekept.actions.status.coverage import Gap
from safekept.actions.status.destination_status import DestinationStatus
from safekept.actions.status.findings.stores import of_destinations
from safekept.actions.status.home_summary import FailedAttempt
from safekept.actions.status.vault_status import OPEN, VaultStatus
from safekept.cli.status.homes import _copies
from safekept.cli.words.remarks import amount_text
from safekept.core.entries import NOT_ALL_COUNTED, Outcome, Remark

NOW = 1_800_000_000.0


def pushed(state, what):
    attempt = FailedAttempt("1", NOW - 2, state, what)
    return DestinationStatus("nas", "sftp://nas/x", ("vault",), last=NOW - 360, failure=attempt)


def test_a_push_that_was_interrupted_did_not_fail():
    stopped, broken = pushed("interrupted", "It was interrupted"), pushed("failed", "The server went away")
    assert _copies([stopped], NOW) == "nas 6 min ago; interrupted 2 s ago"
    assert _copies([broken], NOW) == "nas 6 min ago; FAILED 2 s ago"
    texts = [
        next(of_destinations([one], VaultStatus("/v", OPEN), 24.0, NOW)).text for one in (stopped, broken)
    ]
    assert texts == [
        "the last push to nas was interrupted; the next one goes on with it",
        "the last push to nas failed: the server went away",
    ]


def test_a_count_that_was_not_finished_is_not_shown_as_one_that_was():
    part = f"the agent's own code {NOT_ALL_COUNTED}"
    for kind in (Remark, lambda *of: Gap(of[1].value, of[0], *of[2:])):
        whole = kind("cache", Outcome.EXCLUDED, "a cache", 3, 2048)
        assert amount_text([whole]) == "3 files, 2.0 KB"
        cut = kind("x", Outcome.EXCLUDED, part, 2557, 0)
        assert amount_text([whole, cut]) == "at least 2,560 files, 2.0 KB"
