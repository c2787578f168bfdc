"""The MCP server: an agent sees its checkpoints and snapshots, and takes bad changes back.

It cannot see what its host does, so it is no way of taking checkpoints; hooks are. What would change a
project or a home answers with a plan first and is done only with the token of exactly that plan. The
official SDK is imported in `server` and beside it only, never where this package is merely looked at.
"""
