"""`snapshot list` at 80 columns: what does not fit beside a snapshot stands below it."""

from __future__ import annotations

from safekept.cli.commands.snapshots.snapshot.list import _aligned

LABEL = "before the update of Hermes (pinned)"
ROWS = [
    ("#", "ID", "AGE", "KIND", "FILES", "SIZE", "ADDED", "VERIFIED", "LABEL"),
    ("1", "81d547ac", "2 min ago", "scheduled", "12,345", "1.2 GB", "266 KB", "verified", "short"),
    (
        "2",
        "91d547ac",
        "3 d ago",
        "manual",
        "46",
        "266 KB",
        "266 KB",
        "proven",
        LABEL,
    ),
]


def test_no_row_is_longer_than_the_line_and_no_label_is_cut():
    lines = "\n".join(_aligned(ROWS, 80)).split("\n")
    assert max(map(len, lines)) <= 80
    assert " " * 6 + LABEL in lines
    assert _aligned(ROWS, 0)[2].endswith(LABEL), "elsewhere nothing is broken"
