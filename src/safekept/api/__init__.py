"""What `import safekept` gives: the actions as functions, with values in and values out.

Nothing here decides anything: settings and environment are read as the command line reads them, the same
actions are called, and what they found is handed over as small values that do not change. Errors are the
same typed errors: what happened, what was kept safe, what to do next.
"""
