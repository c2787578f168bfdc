"""Homes: what an agent's directory looks like, how to read it while it is in use, how to put it back.

`layout` describes and finds homes, `scan` turns one into a Source with its census, `landing` puts a
Source on disk.
"""
