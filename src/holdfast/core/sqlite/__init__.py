"""SQLite files: capture one that is in use, judge one, put one back. Filled by its own modules."""
