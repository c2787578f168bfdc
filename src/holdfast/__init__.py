"""holdfast keeps what an AI agent knows, and undoes what it does."""

__version__ = "0.1.0"
