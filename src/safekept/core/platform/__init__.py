"""What only some systems have: the one room that asks which system this is.

Each module has the Linux way, the other system's own way where there is one, and a plain fallback, and says
what the fallback loses; `docs/reference/platforms.md` has the table. Nothing else in safekept looks at
`sys.platform`, `/proc`, or names that only Linux has: `tests/test_platform.py` keeps it so.
"""
