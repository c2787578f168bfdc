"""`/rollback`, `/snapshot`, `/checkpoint` and `/safekept` in a chat."""
