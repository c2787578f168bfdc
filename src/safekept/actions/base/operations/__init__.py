"""What each verb writes into the journal: one dataclass per verb, grouped as the actions are."""
