"""Watching an agent that has no hooks: `safekept run -- AGENT` keeps its project while it works."""
