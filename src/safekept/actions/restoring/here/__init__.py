"""After an `rm -rf ~`: what is gone on this machine, and how it comes back from what survived here.

    find_lost(context)                 what is gone, and what has it; changes nothing
    bring_files(context, lost)         settings, key, journal, receipts
    bring_project(context, one)        a project as it was at its newest point

Homes come back by `restore.py`, the one landing. Who survived is asked in `survivors.py`.
"""
