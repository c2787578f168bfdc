"""One conversation out of a snapshot: list them, search them, read one, bring one back."""
