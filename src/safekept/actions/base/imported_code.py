"""Whether the code of an agent in a home came with an import: then the maker of the archive wrote it.

Such code is named before an import as what the agent can run. A drill never runs it: proving a backup must
not be what starts a stranger's program.
"""

from __future__ import annotations

import contextlib
import os
import time

from safekept.home.landing import LandingPlan

from .context import UserContext
from .operations.homes import ImportFacts


def code_files(plan: LandingPlan) -> int:
    """How many files of the agent's own code a landing would write."""
    inside = plan.layout.code_path + "/" if plan.layout is not None and plan.layout.code_path else ""
    return sum(path.startswith(inside) for path in (*plan.create, *plan.replace)) if inside else 0


def imported_code(context: UserContext, home: str) -> str:
    """Why the code in this home is not run, in words; empty where no import brought any."""
    if not home:
        return ""
    real = os.path.realpath(home)
    with contextlib.suppress(OSError):
        for entry in context.journal.backwards("import"):
            work = ImportFacts.read(entry)
            if work.code_files and os.path.realpath(work.home or "") == real:
                day = time.strftime("%Y-%m-%d", time.localtime(entry.time))
                return f"its code in the home came with the import of {day}, and is not run for a drill"
    return ""
