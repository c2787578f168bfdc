"""What is no number is refused before anything is measured by it."""

from __future__ import annotations

import pytest

from support.commands.in_process import spoken


@pytest.mark.parametrize("option", ["--retention-days", "--max-size-mb"])
@pytest.mark.parametrize("amount", ["nan", "inf", "-1", "many"])
def test_a_limit_that_is_no_number_drops_nothing(tmp_path, monkeypatch, option, amount):
    said = spoken(monkeypatch, str(tmp_path))("checkpoint", "prune", option, amount, "--yes")
    assert said.code == 2 and f"Invalid value for '{option}'" in said.err
    assert "Nothing changed" in said.err
