"""What opens a vault: the key file, passphrases, the kit."""
