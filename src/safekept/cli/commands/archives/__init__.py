"""Commands of the group `archives`; what they do is in `actions/archives`."""
