"""The refusal of whatever would ask, where there is nobody to ask."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError


class ConsentNeeded(HoldfastError):
    code = "consent-needed"
