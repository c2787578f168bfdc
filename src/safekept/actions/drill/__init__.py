"""Proving a restore by doing it in an isolated place, with a receipt."""
