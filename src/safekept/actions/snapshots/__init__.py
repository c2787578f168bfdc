"""Points in time of a home: taken, listed, compared, searched, let go."""
