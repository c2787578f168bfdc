"""Hermes Agent: the plugin that runs inside it, and how it gets into a home and out again."""
