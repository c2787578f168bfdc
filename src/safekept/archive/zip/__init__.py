"""zip, ours, that of Hermes and of others."""
