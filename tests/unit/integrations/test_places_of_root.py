"""An agent that runs as root with somebody else's HOME: root's own places are used, and it is said."""

import os

import pytest

from conftest import missing_part
from safekept.integrations.places import Place
from support.users.unprivileged import nobodys  # noqa: F401 - a fixture


@pytest.mark.needs("owners", "it gives files to another user")
def test_root_obeys_no_settings_of_somebody_else(nobodys):  # noqa: F811
    if os.geteuid() != 0:
        missing_part("needs root")
    os.makedirs(os.path.join(nobodys, ".config", "safekept"))
    with open(os.path.join(nobodys, ".config", "safekept", "config.toml"), "w") as file:
        file.write('[notify]\ncommand = "/bin/false"\n')
    place = Place.load({"HOME": nobodys, "PATH": "/usr/bin:/bin"})
    (trouble,) = place.troubles
    assert trouble.code == "places-of-another"
    assert trouble.what == f"`{nobodys}/.config/safekept` belongs to `nobody`, and this command runs as root"
    assert not place.data_directory.startswith(nobodys)
    assert place.settings.text("notify.command") == ""
    assert os.listdir(nobodys) == [".config"]
