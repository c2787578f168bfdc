"""A home that was rebuilt under another path goes on: what was kept of it before is its own past."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime

import pytest

from support.users.first_hour import Newcomer


def said(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def remember(machine, text):
    with open(os.path.join(machine.home, "memories", "MEMORY.md"), "w", encoding="utf-8") as file:
        file.write(text)
    said(machine.run("snapshot"))


def rebuild(machine, name, *more):
    """The same person as another user; from the second copy, with the first machine's key."""
    other = machine.moved(name)
    key = os.path.join(machine.place, "ada", ".config", "safekept", "vault.key")
    return other, other.run("rebuild", os.path.join(machine.place, "usb"), "--key-file", key, *more)


def listed(machine, *words):
    return json.loads(said(machine.run("snapshot", "list", "--json", *words)))["snapshots"]


def memory(machine):
    with open(os.path.join(machine.home, "memories", "MEMORY.md"), encoding="utf-8") as file:
        return file.read()


def move(directory):
    """Ada's machine, two states of it in a second copy; Bob's, rebuilt from that; a time between the two."""
    ada = Newcomer(directory, profiles=())
    usb = os.path.join(ada.place, "usb")
    os.mkdir(usb)
    said(ada.run("destinations", "add", usb, "--same-disk"))
    remember(ada, "the first\n")
    between = int(time.time()) + 1  # times are said in seconds
    time.sleep(between + 0.01 - time.time())
    remember(ada, "the second\n")
    with open(os.path.join(ada.home, "memories", "MEMORY.md"), "w", encoding="utf-8") as file:
        file.write("a mistake\n")  # what the restore replaces is younger than all that can be rebuilt
    said(ada.run("restore", "memories/MEMORY.md", "--yes"))
    said(ada.run("vault", "key", "add", "--recovery", "--passphrase-file", ada.secret))
    said(ada.run("push"))
    bob, done = rebuild(ada, "bob")
    said(done)
    return ada, bob, between


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    return move(tmp_path_factory.mktemp("moved"))


def test_its_list_and_its_history_reach_back_to_where_it_was_before(moved):
    ada, bob, _ = moved
    rows = listed(bob)
    assert [one["home"] for one in rows] == [bob.home, ada.home, ada.home]
    assert [one["number"] for one in rows] == [1, 2, 3]
    shown = said(bob.run("snapshot", "list"))
    assert json.loads(said(bob.run("status", "--json")))["homes"][1:] == []
    assert f"2 of them are of {ada.home} on {os.uname().nodename}, where this home was before" in " ".join(
        shown.split()
    )
    versions = said(bob.run("history", "memories/MEMORY.md"))
    assert "2 versions in 3 snapshots" in versions


def test_a_time_before_the_rebuild_can_be_restored(moved):
    _, bob, between = moved
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(between))
    assert memory(bob) == "the second\n"
    done = said(bob.run("restore", when, "memories/MEMORY.md", "--yes", "--json"))
    assert memory(bob) == "the first\n", done
    said(bob.run("undo", json.loads(done)["operation"]))


def test_status_does_not_call_the_home_of_before_gone_or_kept(moved):
    ada, bob, _ = moved
    away = ada.home + "-away"
    os.rename(ada.home, away)
    try:
        shown = said(bob.run("status"))
        homes = [one["home"] for one in json.loads(bob.run("status", "--json").stdout)["homes"]]
    finally:
        os.rename(away, ada.home)
    assert ada.home not in shown and "Gone" not in shown, shown
    assert homes == [bob.home]


def test_the_next_rebuild_knows_one_home_and_carries_all_of_its_past_on(moved):
    ada, bob, _ = moved
    carol, done = rebuild(bob, "carol")
    assert f"Made of    {bob.home} on" in said(done)
    assert [one["home"] for one in listed(carol)] == [carol.home, bob.home, ada.home, ada.home]
    key = os.path.join(carol.user, ".config", "safekept", "vault.key")
    fleet = json.loads(carol.run("fleet", os.path.join(ada.place, "usb"), "--key-file", key, "--json").stdout)
    assert [one["home"] for vault in fleet["vaults"] for one in vault["homes"]] == [carol.home], "no ghosts"
    _, done = rebuild(bob, "dave", "--of", ada.home)
    assert f"Made of    {ada.home} on" in said(done), "who names a path means that one"


def test_a_proof_in_the_copy_it_came_from_is_none_of_the_vault_that_setup_makes(moved):
    ada, bob, _ = moved
    home = os.path.join(ada.place, "erin", "agents", "hermes")
    erin, done = rebuild(ada, "erin", "--home", home, "--of", ada.home)
    said(done)

    def proven(machine):
        first = json.loads(machine.run("status", "--json").stdout)["homes"][0]
        return first["last_proof"] and first["last_proof"]["name"]

    assert proven(bob) in {one["id"] for one in listed(bob)}, "its vault came, too"
    assert proven(erin) is None, "no snapshot of that name can be shown here"
    assert "Proven     never" in erin.run("status").stdout
    done = erin.run("setup", "--home", home, "--yes", "--passphrase-file", erin.secret, "--json")
    steps = {one["step"]: one["state"] for one in json.loads(done.stdout)["steps"]}
    assert steps["proof"] == "done", done.stdout
    (only,) = listed(erin, "--home", home)
    assert proven(erin) == only["id"]


def test_the_policies_let_nothing_go_of_a_life_that_may_go_on_elsewhere(moved):
    _, bob, _ = moved
    plan = json.loads(said(bob.run("snapshot", "forget", "--keep-last", "1", "--dry-run", "--json")))
    assert {one["home"] for one in (*plan["plan"]["forget"], *plan["plan"]["keep"])} == {bob.home}


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_two_homes_that_both_live_are_not_mixed_up(tmp_path):
    """Ada's machine was not gone after all."""
    ada, bob, _ = move(tmp_path)
    remember(ada, "of Ada alone\n")
    said(ada.run("push"))
    _, done = rebuild(ada, "erin")
    assert done.returncode == 2 and "which one is meant is not clear" in done.stderr
    assert ada.home in done.stderr and bob.home in done.stderr
    frank, done = rebuild(ada, "frank", "--of", bob.home)
    said(done)
    assert [one["home"] for one in listed(frank)] == [frank.home, bob.home, ada.home, ada.home]
    assert "of Ada alone" not in said(frank.run("history", "memories/MEMORY.md", "--diff"))
    assert ada.home in said(frank.run("status")), "it is a home of its own"
    said(ada.run("vault", "kit", "-o", os.path.join(ada.place, "kit")))
    kit = os.path.join(ada.place, "kit.txt")
    words = ("rebuild", kit, "--home", ada.home, "--dry-run", "--json")
    plan = json.loads(said(ada.moved("gus").run(*words)))
    assert plan["from"]["home"] == ada.home
    newest = [datetime.fromisoformat(one["newest"]).timestamp() for one in plan["places"] if one["newest"]]
    assert {int(one) for one in newest} == {int(plan["from"]["taken"])}, "of that home, not of any"
