"""Processes: which one made something and whether it is gone, and a program in the foreground."""
