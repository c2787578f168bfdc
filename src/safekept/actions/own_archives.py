"""Which files are archives that safekept made here: by their manifest, and sealed ones by the journal.

A sealed archive says nothing to a host that has only the public key, so what is known of it is what the
journal kept when it was written, and the file is recognised by a fingerprint of its sealed bytes. What
is not surely ours is not ours: it is neither rotated away nor written over.
"""

from __future__ import annotations

from functools import cached_property

from safekept.actions.surroundings import Surroundings


class OwnArchives:
    """Recognises them; the journal is read once, and only where a sealed file is met."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings

    def __call__(self, path: str) -> bool:
        return self.head(path) is not None

    def head(self, path: str) -> dict[str, object] | None:
        """What the manifest says, or the journal of a sealed one; None for anything not surely ours."""
        from safekept.archive.identify import identify  # a scan seldom meets a file that asks for it

        return identify(path, lambda fingerprint: self._sealed.get(fingerprint))

    def remember(self, fingerprint: str, facts: dict[str, object]) -> None:
        """One that was written a moment ago, and is not in the journal yet."""
        self._sealed[fingerprint] = facts

    @cached_property
    def _sealed(self) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = {}
        for entry in self._surroundings.journal.backwards("backup"):
            sealed = entry.facts.get("sealed")
            if entry.state not in ("done", "incomplete") or not isinstance(sealed, dict):
                continue
            fingerprint = sealed.get("fingerprint")
            if isinstance(fingerprint, str):
                found.setdefault(fingerprint, {**entry.facts, "complete": entry.state == "done"})
        return found
