"""Objects on a server that speaks restic's REST protocol."""
