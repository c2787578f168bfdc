"""One file for each agent: what goes into its settings."""
