"""Checkpoints of projects: one git store, points taken before an agent acts, and the way back."""
