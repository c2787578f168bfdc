"""Where an agent's changes reach safekept: hooks, plugins, and the helper that answers them."""
