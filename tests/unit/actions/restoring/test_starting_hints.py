"""What a backup does not hold is named with a command that can be run on this very machine."""

from __future__ import annotations

import os

from safekept.actions.base.context import HomeRef
from safekept.actions.restoring.starting import starting_hints
from support.projects.checkpoints import put
from support.users.contexts import throwaway


def test_the_agent_is_installed_before_its_own_command_can_bring_its_code(tmp_path):
    home, programs = tmp_path / ".hermes", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    here = throwaway(tmp_path, environment={"PATH": str(programs)})
    place = HomeRef(str(home), here.layout("hermes"))
    first = "The program Hermes Agent itself is in no backup. "
    assert starting_hints(place, here)[0] == f"{first}Install it on this machine"
    os.chmod(put(str(programs / "hermes"), "#!/bin/sh\n"), 0o755)
    assert starting_hints(place, here)[0] == f"{first}Bring it back: `hermes update`"
