"""The hidden half of checkpoints: ignored files, secrets and large files, in an encrypted repository."""
