"""age files: header, payload, keys; also SSH keys."""
