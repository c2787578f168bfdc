"""Commands of the group `offsite`; what they do is in `actions/offsite`."""
