"""Ways to hold a database still while its bytes are read."""
