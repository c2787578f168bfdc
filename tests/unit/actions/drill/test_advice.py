"""What a drill that failed says: why in plain words, and a way out that ends its alarm."""

from __future__ import annotations

import os
from dataclasses import replace

from safekept.actions.drill.advice import advice
from safekept.actions.drill.checks.restored import Findings
from safekept.actions.drill.receipts import ARCHIVE, DESTINATION, FAILED, SNAPSHOT, Receipt
from safekept.actions.offsite.destination import ARCHIVES, VAULT, DestinationSetting
from safekept.core.next_step import step_texts

NOT_LOADED = "Hermes did not load the settings: `model`"


def failed(check="agent", path="the home", why=NOT_LOADED, *, subject=SNAPSHOT, name="d7547f88aa", home=""):
    findings = Findings()
    findings.judge(check, 2, [(path, why)], "", "home")
    facts = {"problems": findings.facts()}
    rows = tuple(findings.rows)
    return Receipt("op", subject, name, home, 1.0, 1.0, False, rows, store="disk", facts=facts), findings


def said(here, receipt, findings):
    return step_texts(advice(here, receipt, findings, None))


def usual(here):
    return os.path.join(here.places.user_home, ".hermes")


def test_the_way_out_of_a_snapshot_that_failed_is_a_new_one_and_its_drill(here):
    steps = said(here, *failed(home=usual(here)))
    assert steps == ["Make a new one: `safekept snapshot`, and prove it: `safekept drill`"]


def test_copies_get_the_new_one_as_well(here):
    for takes, sent in (((VAULT,), ", then send it: `safekept push`"), ((ARCHIVES,), "")):
        disk = DestinationSetting("disk", "/mnt/disk", takes)
        choices = replace(here.choices, destinations=(disk,))
        (step,) = said(replace(here, choices=choices), *failed(home=usual(here)))
        assert step == f"Make a new one: `safekept snapshot`, and prove it: `safekept drill`{sent}"


def test_a_home_that_is_not_the_usual_one_is_named_in_every_command(here):
    steps = said(here, *failed(home="/srv/other home"))
    assert steps == [
        "Make a new one: `safekept snapshot --home '/srv/other home'`, "
        "and prove it: `safekept drill --home '/srv/other home'`"
    ]


def test_an_archive_and_a_copy_are_made_anew_where_they_lie(here):
    archive = failed(subject=ARCHIVE, name="/tmp/b.zip")
    assert said(here, *archive) == ["Make a new one and drill that: `safekept backup`"]
    there = failed(subject=DESTINATION)
    assert said(here, *there) == [
        "Make a new one: `safekept snapshot`, send it: `safekept push disk`, "
        "and prove it: `safekept drill --destination disk`"
    ]


def test_why_it_failed_is_a_sentence_with_the_name_of_its_check():
    receipt, _ = failed()
    assert receipt.why == f"the home: {NOT_LOADED} (agent)"
    (row,) = receipt.rows
    more = replace(receipt, rows=(row, replace(row, check="census")))
    assert more.why == f"the home: {NOT_LOADED} (agent); also census"


def test_an_old_receipt_without_causes_still_says_its_row():
    receipt, _ = failed()
    (row,) = receipt.rows
    assert replace(receipt, facts={}).why == f"1 of 2 homes: `the home`: {NOT_LOADED} (agent)"
    assert (
        replace(receipt, facts={"problems": {"agent": "torn"}}, rows=(replace(row, text=""),)).why == "agent"
    )
    assert replace(receipt, rows=()).why == "no row says why"
    assert row.state == FAILED


def test_a_cause_as_long_as_a_page_is_one_short_line():
    receipt, _ = failed(why="Traceback\n" + "x" * 5000)
    assert "\n" not in receipt.why and len(receipt.why) < 250
