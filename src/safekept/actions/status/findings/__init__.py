"""What keeps a user from the next rung of the ladder: facts in, findings out. Nothing is looked at here."""
