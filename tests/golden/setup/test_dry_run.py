"""`setup --dry-run`: every step that the run would do, in its order, and not a byte is changed."""

from __future__ import annotations

import json
import os
import re
import sys

from support.commands.terminals import Terminal
from support.users.first_hour import files_of


def planned(machine, *options):
    """The steps of a plan, by name; everything that there is is as it was afterwards."""
    before = files_of(machine.place)
    said = machine.run("setup", "--dry-run", *options, "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    assert files_of(machine.place) == before
    return json.loads(said.stdout)["steps"]


def names(steps):
    return [one["step"] for one in steps]


def test_the_plan_is_what_the_run_does_in_the_same_order(new):
    place = os.path.join(new.place, "usb")
    os.makedirs(place)
    options = ("--passphrase-file", new.secret, "--destination", place, "--elsewhere", "--at", "04:10")
    plan = planned(new, *options)
    assert {one["state"] for one in plan} == {"planned"}
    assert names(plan)[0] == "settings" and "config.toml" in plan[0]["text"]
    done = json.loads(new.run("setup", "--yes", *options, "--json").stdout)
    assert names(plan)[1:] == names(done["steps"])
    planned_kit, kit = plan[-1]["text"], done["steps"][-1]["text"]
    assert planned_kit.startswith(new.user) and os.path.dirname(kit) == new.user
    assert planned(new) == []
    assert "Nothing is missing" in new.run("setup", "--dry-run").stdout


def test_a_person_reads_vault_schedule_second_copy_and_kit_in_the_plan(new):
    before = files_of(new.place)
    said = new.run("setup", "--dry-run")
    assert said.returncode == 0 and files_of(new.place) == before
    plan = said.stdout.partition("Dry run. Would do:")[2]
    labels = list(dict.fromkeys(re.findall(r"^  (\S.{9}) \S", plan, re.MULTILINE)))
    order = ["Ask", "Save", "Vault", "Passphrase", "Connect", "Updates", "Schedule", "Snapshot"]
    assert [one.strip() for one in labels] == [*order, "Copy to", "Prove", "Kit"], said.stdout
    flat = " ".join(plan.split())
    assert "Vault ~/.local/share/safekept/vault" in flat, plan
    assert "Connect Hermes, Hermes (coder), Claude Code" in flat, plan
    assert "Schedule every night at 03:30, with cron" in flat, plan
    assert "Copy to the place that you name, if any" in flat, plan
    assert "Kit ~/safekept-kit-" in flat and plan.rstrip().endswith("Nothing was changed"), plan


def test_the_files_that_connecting_writes_into_are_named_before_it_is_asked(new):
    """The same files that `connect NAME --dry-run` shows, and that a run really writes."""
    expected = [
        "Hermes: ~/.hermes/config.yaml, ~/.hermes/plugins/safekept/ (",
        "The same in ~/.hermes/profiles/coder",
        "Claude Code: ~/.claude/settings.json",
    ]
    plan = " ".join(new.run("setup", "--dry-run").stdout.split())
    assert all(one in plan for one in expected), plan
    missing = json.loads(new.run("setup", "--dry-run", "--json").stdout)["missing"]["connect"]
    named = {path for one in missing for path in one["files"]}
    words = (sys.executable, "-m", "safekept", "setup")
    environment = {**new.environment, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    with Terminal(*words, environment=environment) as terminal:
        terminal.until_hidden()
        terminal.type("\n")
        terminal.until("Place [")
        terminal.type("\n")
        terminal.until("Connect [Y/n]")
        asked = terminal.seen.partition("3 of 4")[2]
        terminal.interrupt()
    flat = " ".join(asked.split())
    assert all(one in flat for one in expected), asked
    assert "`hermes update` will take a snapshot first: ~/.local/bin/hermes" in flat
    assert len(asked.splitlines()) < 12, "it is read at a glance at 80x24"
    before = files_of(new.user)
    for agent, *more in (("hermes",), ("hermes", "--home", f"{new.home}/profiles/coder"), ("claude-code",)):
        assert new.run("connect", agent, *more, "--yes").returncode == 0
    after = files_of(new.user)
    written = {os.path.join(new.user, path) for path in after if before.get(path) != after[path]}
    agents = {path for path in written if "/.hermes/" in path or "/.claude/" in path}
    files = {path for path in agents if os.path.isfile(path)}
    assert files and all(any(path == one or path.startswith(one) for one in named) for path in files), named


def test_a_no_by_option_is_left_out_of_the_plan(new):
    plan = planned(new, "--no-connect", "--at", "no", "--kit", os.path.join(new.place, "elsewhere"))
    kept = ["settings", "vault", "passphrase", "snapshot", "snapshot"]
    assert names(plan) == [*kept, "push", "proof", "proof", "kit"]
    assert plan[-1]["text"].startswith(os.path.join(new.place, "elsewhere"))
    assert "not connected" in plan[0]["text"] and "no schedule" in plan[0]["text"]


def test_the_plan_refuses_what_the_run_would_refuse(new):
    before = files_of(new.place)
    inside = new.run("setup", "--dry-run", "--destination", os.path.join(new.home, "copies"))
    assert inside.returncode != 0 and "inside the home" in inside.stderr
    unasked = new.run("setup", "--dry-run", "--yes")
    assert unasked.returncode == 2 and "No passphrase was given" in unasked.stderr
    assert files_of(new.place) == before
