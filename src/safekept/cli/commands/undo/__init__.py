"""Commands of the group `undo`; what they do is in `actions/undo`."""
