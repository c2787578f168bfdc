"""What was done, and taking it back."""
