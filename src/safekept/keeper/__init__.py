"""The keeper: a service of another owner on this machine that takes copies and never deletes on request."""
