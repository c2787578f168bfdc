"""The status screen, its plots and its metrics."""
