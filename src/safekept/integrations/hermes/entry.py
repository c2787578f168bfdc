"""The pip way in: `hermes_agent.plugins` names this module, where safekept is installed beside Hermes.

It registers the very files that `safekept connect hermes` puts into a home. Hermes knows both by one name
and loads one of them; should two ever be loaded, the one that registers last acts and the other is silent.
"""

from __future__ import annotations

from .plugin import register

__all__ = ["register"]
