"""Hermes in a process of its own, for the race of the hooks: takes orders on stdin, answers on stdout.

Run by the Python that has Hermes 0.19.0: `hooks.py manager|tools`. `manager` does what its agent
does before a tool (agent/tool_executor.py): finds the directory of a file and asks its CheckpointManager.
`tools` calls a real tool by its true dispatch, `handle_function_call`, and says beside the time of the
whole call how much of it passed inside hooks of plugins. Only the standard library and Hermes are
imported, so that this runs in its environment.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Order = dict[str, Any]


class Manager:
    def __init__(self) -> None:
        from tools.checkpoint_manager import CheckpointManager  # type: ignore[import-not-found]

        self.manager = CheckpointManager(enabled=True, max_snapshots=1000, max_total_size_mb=0)

    def turn(self, order: Order) -> None:
        self.manager.new_turn()

    def call(self, order: Order) -> dict[str, Any]:
        begun = time.perf_counter()
        directory = self.manager.get_working_dir_for_path(order["path"])
        stored = self.manager.ensure_checkpoint(directory, "before write_file")
        return {"hooks": time.perf_counter() - begun, "stored": bool(stored)}

    def end(self, order: Order) -> None:
        pass


class Tools:
    def __init__(self) -> None:
        from hermes_cli.plugins import get_plugin_manager  # type: ignore[import-not-found]
        from model_tools import handle_function_call  # type: ignore[import-not-found]

        self.handle = handle_function_call
        self.manager = get_plugin_manager()
        self.inside = 0.0
        for name, callbacks in self.manager._hooks.items():
            self.manager._hooks[name] = [self._timed(callback) for callback in callbacks]
        self.ids: dict[str, str] = {}

    def _timed(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(callback)
        def timed(**given: Any) -> Any:
            begun = time.perf_counter()
            try:
                return callback(**given)
            finally:
                self.inside += time.perf_counter() - begun

        return timed

    def turn(self, order: Order) -> None:
        self.ids = {"session_id": "bench", "turn_id": order["turn"], "task_id": "bench"}
        self.manager.invoke_hook("pre_llm_call", **self.ids, user_message="do it", platform="cli")

    def call(self, order: Order) -> dict[str, Any]:
        self.inside = 0.0
        begun = time.perf_counter()
        arguments = {"path": order["path"], "content": order["content"]}
        call = {"tool_call_id": order["turn"], "api_request_id": "bench"}
        said = json.loads(self.handle("write_file", arguments, **self.ids, **call))
        whole = time.perf_counter() - begun
        return {"hooks": self.inside, "whole": whole, "stored": not said.get("error"), "said": said}

    def end(self, order: Order) -> None:
        self.manager.invoke_hook("on_session_end", **self.ids, completed=True, platform="cli")


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Hermes prints goes elsewhere
    contender: Any = {"manager": Manager, "tools": Tools}[sys.argv[1]]()
    for line in sys.stdin:
        order = json.loads(line)
        answer = getattr(contender, order["do"])(order)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
