"""Watching an agent that has no hooks: `holdfast run -- AGENT` keeps its project while it works."""
