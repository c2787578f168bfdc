"""Files of an agent's own home, kept before the agent changed them."""
