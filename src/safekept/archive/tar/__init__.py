"""tar.zst, ours and what others made."""
