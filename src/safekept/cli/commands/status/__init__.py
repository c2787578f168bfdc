"""Commands of the group `status`; what they do is in `actions/status`."""
