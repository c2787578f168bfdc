"""Setting safekept up: what the user chose, and where that is written."""
