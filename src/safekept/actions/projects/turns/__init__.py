"""Turns of an agent: which there are, and taking back what one of them changed, everywhere, as one thing."""
