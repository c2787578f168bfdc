"""The refusal of whatever would ask, where there is nobody to ask."""

from __future__ import annotations

from safekept.core.errors import SafekeptError


class ConsentNeeded(SafekeptError):
    code = "consent-needed"
