"""The doctor: findings with evidence and the exact fix, one file per family; repairs that can be undone."""
