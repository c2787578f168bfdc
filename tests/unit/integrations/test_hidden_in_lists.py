"""Where hidden files changed, every list says so, and never that none did."""

from __future__ import annotations

import os

import pytest

from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from safekept.actions.projects.timeline import PointRow
from safekept.checkpoints.points import Changes
from safekept.cli.words.lists import changes_text
from safekept.integrations.chat.rollback import _changed
from safekept.integrations.mcp.projects import _amount
from support.projects.checkpoints import put
from support.users.contexts import throwaway


@pytest.mark.parametrize(
    ("changes", "screen", "chat", "tool"),
    [
        (Changes(0, hidden=True), "hidden files", "  (hidden files)", "hidden files"),
        (
            Changes(2, 3, 1, hidden=True),
            "2 files +3 -1 and hidden files",
            "  (2 files, +3/-1, and hidden files)",
            "2 files and hidden files",
        ),
        (Changes(2, 3, 1), "2 files +3 -1", "  (2 files, +3/-1)", "2 files"),
    ],
)
def test_hidden_files_are_named_and_none_is_never_counted_first(changes, screen, chat, tool, tmp_path):
    project = str(tmp_path / "project")
    put(os.path.join(project, "a"), "one\n")
    taken = take_checkpoint(throwaway(tmp_path), project, CheckpointPolicy())
    row = PointRow(1, taken.taken.latest, changes)
    assert (changes_text(changes), _changed(row), _amount(changes)) == (screen, chat, tool)
