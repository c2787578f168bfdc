"""Commands of the group `guard`; what they do is in `actions/guard`."""
