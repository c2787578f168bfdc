"""OpenPGP messages through the gpg program."""
