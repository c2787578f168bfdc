"""`safekept …` and `python -m safekept …`: hooks and prompts by the lean way, the rest by the front door."""

import gc
import os
import sys


def main() -> None:
    """The entry point."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("hook", "status"):
        from safekept.integrations.entry import lean

        code = lean(arguments)
        if code is not None:
            os._exit(code)  # nothing is open, and taking an interpreter apart takes time
    if sys.flags.no_site:
        from safekept.integrations.entry import with_packages

        with_packages()
    # What is imported stays to the end, and so do tens of thousands of entries of a large home; by default
    # the collector walks over them again and again (measured: a twentieth of an import).
    gc.set_threshold(50_000, 20, 20)
    from safekept.core.doors import put_off_inspect

    put_off_inspect()
    from safekept.cli.main import main as front_door

    front_door()


if __name__ == "__main__":
    main()
