"""Where an agent's changes reach holdfast: hooks, plugins, and the helper that answers them."""
