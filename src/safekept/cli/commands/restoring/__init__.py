"""Commands of the group `restoring`; what they do is in `actions/restoring`."""
