"""Commands of the group `projects`; what they do is in `actions/projects`."""
