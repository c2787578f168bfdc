"""Points of projects: taken, listed, gone back to."""
