"""The agents that call safekept: connected, calling, in a session."""
