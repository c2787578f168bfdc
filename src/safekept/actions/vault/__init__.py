"""The vault itself: opened, checked, pruned, repaired."""
