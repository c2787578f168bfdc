"""Completion and manual pages, made from the commands."""
