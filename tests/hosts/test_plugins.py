"""What is installed in a host's own way, from this checkout: it is valid, and each change can be undone."""

from __future__ import annotations

import os

import pytest

from support.places import CHECKOUT
from support.real_hosts.host import write_json
from support.real_hosts.seven import all_come_back, three_changes

#: The validator's command, and those that install it.
PLUGINS = {
    "claude-code": (
        ["claude", "plugin", "validate", CHECKOUT],
        ["claude", "plugin", "validate", os.path.join(CHECKOUT, "extensions", "claude-code")],
        ["claude", "plugin", "marketplace", "add", CHECKOUT],
        ["claude", "plugin", "install", "safekept@safekept"],
    ),
    "codex": (
        ["codex", "plugin", "marketplace", "add", CHECKOUT],
        ["codex", "plugin", "add", "safekept@safekept"],
    ),
    "gemini": (
        ["gemini", "extensions", "validate", os.path.join(CHECKOUT, "extensions", "gemini")],
        ["gemini", "extensions", "install", os.path.join(CHECKOUT, "extensions", "gemini"), "--consent"],
    ),
}


@pytest.mark.parametrize("host", list(PLUGINS), indirect=True)
def test_plugin_protects_without_connect(grounds, host):
    ground = grounds(host, connect=False)
    if host.name == "gemini":  # it asks whether the folder is trusted that it installs from
        trusted = os.path.join(ground.user, ".gemini", "trustedFolders.json")
        write_json(trusted, {CHECKOUT: "TRUST_FOLDER"})
    for command in PLUGINS[host.name]:
        process = ground.launch(host, command)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, f"{' '.join(command)}\n{said}"
    if host.name == "codex":
        host.connected(ground)  # its hooks are to be trusted, as all are
    model = ground.models[host.name]
    ground.turn(host, model.plays("three", *three_changes(ground.project)))
    all_come_back(ground, host, "three")
