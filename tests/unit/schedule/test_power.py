"""On battery, on a metered network: only where something says so. Supplies and NetworkManager are faked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from safekept.schedule.machine import NICE, look, on_battery


def supply(root, name, **facts):
    os.makedirs(root / name)
    for fact, value in facts.items():
        (root / name / fact).write_text(f"{value}\n")


LAPTOP = {"type": "Battery", "scope": "System"}


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ({}, False),
        ({"AC": {"type": "Mains", "online": 1}, "BAT0": {**LAPTOP, "status": "Charging"}}, False),
        ({"AC": {"type": "Mains", "online": 0}, "BAT0": {**LAPTOP, "status": "Discharging"}}, True),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}}, True),
        ({"BAT0": {**LAPTOP, "status": "Full"}}, False),
        ({"mouse": {"type": "Battery", "scope": "Device", "status": "Discharging"}}, False),
        ({"usb": {"type": "USB", "online": 1}, "BAT0": {**LAPTOP, "status": "Discharging"}}, False),
        ({"strange": {}}, False),
    ],
)
def test_only_a_battery_of_the_machine_that_is_used_up_counts(tmp_path, supplies, expected):
    for name, facts in supplies.items():
        supply(tmp_path, name, **facts)
    assert on_battery(str(tmp_path)) is expected


def test_a_machine_without_any_supplies_is_on_mains(tmp_path):
    assert on_battery(str(tmp_path / "missing")) is False


@pytest.mark.parametrize(
    ("answer", "expected"), [("u 1", True), ("u 3", True), ("u 2", False), ("u 4", False), ("", False)]
)
def test_the_network_is_metered_where_networkmanager_says_so(tmp_path, answer, expected):
    fake = tmp_path / "busctl"  # not the real one: it answers what NetworkManager would
    fake.write_text(f"#!/bin/sh\necho '{answer}'\n")
    fake.chmod(0o755)
    assert look(str(tmp_path / "none"), path=str(tmp_path)).metered is expected


def test_without_networkmanager_nothing_is_metered(tmp_path):
    assert look(str(tmp_path / "none"), path=str(tmp_path)).metered is False


def test_a_run_steps_back_for_whatever_else_the_machine_does():
    code = (
        "import os\nfrom safekept.schedule.machine import lower_priority\n"
        "lower_priority(); lower_priority(); print(os.getpriority(os.PRIO_PROCESS, 0))"
    )
    before = os.getpriority(os.PRIO_PROCESS, 0)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == f"{max(before, NICE)}\n", done.stderr
