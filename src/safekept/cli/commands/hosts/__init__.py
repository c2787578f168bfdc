"""Commands of the group `hosts`; what they do is in `actions/hosts`."""
