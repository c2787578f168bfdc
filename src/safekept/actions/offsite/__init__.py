"""Copies off this host: destinations, push, pull, fleet."""
