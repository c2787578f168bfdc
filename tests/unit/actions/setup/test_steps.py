"""The steps of a setup: what is seen of each while it is done."""

from __future__ import annotations

from safekept.actions.setup.steps import SetupChoices, set_up
from safekept.vault.repo import Secret
from support.users.contexts import throwaway


def test_a_passphrase_that_takes_seconds_is_seen_to_be_made(tmp_path):
    phases = []
    steps = set_up(
        throwaway(tmp_path),
        SetupChoices(passphrase=Secret("four words are enough")),
        listener=lambda event: phases.append(event.phase),
    )
    assert [step.name for step in steps] == ["vault", "passphrase"] and "key" in phases
