"""What goes off this host: the vault, what git hides in projects, and archives."""
