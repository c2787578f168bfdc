"""What every floor may know of an agent: where its home is, and how its settings are read."""
