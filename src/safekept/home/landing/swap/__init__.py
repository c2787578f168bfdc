"""The single changes of a landing, and how each is taken back."""
