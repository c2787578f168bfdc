"""`completion` and `manual`."""
