"""What a backup does not hold is named with a command that can be run on this very machine."""

from __future__ import annotations

import os

from safekept.actions.base.context import HomeRef
from safekept.actions.restoring.starting import starting_hints
from support.projects.checkpoints import put
from support.users.contexts import throwaway


def test_a_program_is_missed_only_where_no_command_starts_the_agent(tmp_path):
    home, programs = tmp_path / ".hermes", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    here = throwaway(tmp_path, environment={"PATH": str(programs)})
    place = HomeRef(str(home), here.layout("hermes"))
    install = "The program Hermes Agent itself is in no backup. Install it on this machine"
    assert starting_hints(place, here)[0] == install
    program = put(str(programs / "hermes"), "#!/bin/sh\n")
    os.chmod(program, 0o755)
    assert "in no backup" not in " ".join(starting_hints(place, here)), "it is here, and works"
    put(program, f"#!/bin/sh\nexec {home}/hermes-agent/venv/bin/hermes\n")
    assert starting_hints(place, here)[0] == install
