"""Commands of the group `drill`; what they do is in `actions/drill`."""
