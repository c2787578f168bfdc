"""One process per user that has everything loaded, so that a hook waits for the work and for nothing else."""
