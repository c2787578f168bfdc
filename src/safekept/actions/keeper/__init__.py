"""A copy with another owner on this machine: what goes there, what it says, how it is installed."""
