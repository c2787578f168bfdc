"""What this user set, and what it means; the only room besides the faces that reads environment or files."""

from __future__ import annotations

from .loading import SYSTEM_USER, Settings, load_settings
from .policies import checkpoint_policy, with_hermes
from .table import SECRET, SETTINGS, BadSetting, Setting

__all__ = [
    "SECRET",
    "SETTINGS",
    "SYSTEM_USER",
    "BadSetting",
    "Setting",
    "Settings",
    "checkpoint_policy",
    "load_settings",
    "with_hermes",
]
