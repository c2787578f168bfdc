"""What each address of the page shows."""
