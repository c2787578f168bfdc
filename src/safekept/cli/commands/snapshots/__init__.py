"""Commands of the group `snapshots`; what they do is in `actions/snapshots`."""
