"""A risky command between a snapshot and a health check."""
