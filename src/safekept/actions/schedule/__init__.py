"""What runs every night, with no person there."""
