"""Everything that will land, written and proven before anything is touched."""
