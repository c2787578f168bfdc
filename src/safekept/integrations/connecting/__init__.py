"""Connecting: what is written into the settings of an agent so that it calls safekept, and taken out again.

Each host has one small file that says where its settings are and what goes into them. Everything else is
the same for all: a plan with a diff, a copy of what was there, an atomic write, a record.
"""
