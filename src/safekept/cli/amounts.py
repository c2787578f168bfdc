"""Numbers of an option that are numbers: `nan` is within every range, and equal to nothing."""

from __future__ import annotations

import math
from typing import Any

import click


class Amount(click.FloatRange):
    """A finite number within a range."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        found = float(super().convert(value, parameter, context))
        if not math.isfinite(found):
            self.fail(f"{value} is no number.", parameter, context)
        return found
