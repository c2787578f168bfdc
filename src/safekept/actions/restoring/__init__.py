"""Bringing a home back: from an archive, from a snapshot, on a bare machine."""
