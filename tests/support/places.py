"""Where this checkout lies, and its code and tests."""

from __future__ import annotations

import os

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHECKOUT = os.path.dirname(TESTS)
SOURCE = os.path.join(CHECKOUT, "src")
