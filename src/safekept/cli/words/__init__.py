"""Results in words, where several commands share them."""
