"""When things are due, and how the host is asked to wake us. Nothing here does any of the work."""
