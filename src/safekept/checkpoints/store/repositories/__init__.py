"""The project's own git repositories: where they stand, and every object that would be lost with them.

A checkpoint holds a project's files; this folder adds what `.git` holds. `locating` finds the repositories of
a project, `reading` reads refs, stashes, index and settings as plain files, `keeping` stores the objects in a
bare repository of ours for each of them. Nothing in a project is ever run or obeyed: no setting, hook or
filter of a project's is read by any program while a checkpoint is taken.
"""
