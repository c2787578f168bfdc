"""The threat model names the test that shows each row, and every one of them is there."""

from __future__ import annotations

import os
import re

from support.places import CHECKOUT


def test_every_row_of_the_threat_model_names_a_test_that_is_there():
    with open(os.path.join(CHECKOUT, "docs", "design", "threat-model.md"), encoding="utf-8") as file:
        text = file.read()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| who")]
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for path, name in named:
            with open(os.path.join(CHECKOUT, path), encoding="utf-8") as file:
                assert f"def {name}(" in file.read(), row


def test_no_page_says_that_there_is_no_network_or_no_encryption():
    for name in ("SECURITY.md", "docs/design/threat-model.md", "README.md"):
        with open(os.path.join(CHECKOUT, name), encoding="utf-8") as file:
            text = file.read().lower()
        for old in ("no network code", "makes no network connection", "archives are not encrypted"):
            assert old not in text, name
