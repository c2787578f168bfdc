"""A home in one file: backup, rotation, sealing, adopting what Hermes made."""
