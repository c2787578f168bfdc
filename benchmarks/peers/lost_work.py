"""Hermes 0.19's own checkpoints around a shell command, in its own Python: orders on stdin, answers out.

It does what Hermes does before a `terminal` tool (agent/tool_executor.py): where its own test calls the
command destructive, its CheckpointManager is asked for the working directory.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    from agent.tool_dispatch_helpers import (  # type: ignore[import-not-found]
        _is_destructive_command,
    )
    from tools.checkpoint_manager import CheckpointManager  # type: ignore[import-not-found]

    manager = CheckpointManager(enabled=True)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever it prints goes elsewhere
    for line in sys.stdin:
        order = json.loads(line)
        project = order["project"]
        if order["do"] == "before":
            manager.new_turn()
            taken = _is_destructive_command(order["command"])
            answer: object = bool(
                taken and manager.ensure_checkpoint(project, f"before {order['command'][:60]}")
            )
        else:
            found = manager.list_checkpoints(project)
            answer = manager.restore(project, found[0]["hash"]) if found else {"error": "no checkpoint"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
