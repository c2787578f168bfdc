"""What every action leans on: the user's context, what is written into the journal, scratch places."""
