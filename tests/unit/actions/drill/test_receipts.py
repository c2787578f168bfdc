"""Receipts are kept, found again, and believed only as far as their own rows."""

from __future__ import annotations

import json
import os

from safekept.actions.drill import receipts
from safekept.actions.drill.receipts import (
    FAILED,
    PASSED,
    SNAPSHOT,
    Receipt,
    Row,
    read_receipts,
    receipts_directory,
    save_receipt,
)


def receipt(operation, *, home="/h", subject=SNAPSHOT, ok=True, started=1_000.5):
    rows = (Row("store", PASSED, 3, "fine"), Row("files", PASSED if ok else FAILED, 2, "2 files"))
    return Receipt(operation, subject, "abc", home, started, 2.25, ok, rows, facts={"problems": {}})


def test_a_receipt_comes_back_as_it_was_and_is_private(here):
    one = receipt("20260101-000000-aaaaaa")
    path = save_receipt(here, one)
    assert read_receipts(here) == [one]
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(receipts_directory(here)).st_mode & 0o777 == 0o700


def test_of_two_drills_in_one_second_the_later_one_comes_first(here):
    """What follows the second in the id of an operation is chance, and says nothing about time."""
    save_receipt(here, receipt("20260101-000000-ffffff", started=1_000.25))
    save_receipt(here, receipt("20260101-000000-aaaaaa", started=1_000.75, ok=False))
    save_receipt(here, receipt("20260101-000000-cccccc", started=1_000.5))
    save_receipt(here, receipt("20260101-000001-000000", started=1.0))  # the clock was put back
    found = [one.operation[-6:] for one in read_receipts(here)]
    assert found == ["000000", "aaaaaa", "cccccc", "ffffff"]


def test_what_is_no_receipt_is_passed_over(here):
    save_receipt(here, receipt("20260101-000000-aaaaaa"))
    directory = receipts_directory(here)
    for name, text in (("1.json", "{"), ("2.json", "[]"), ("3.json", '{"rows": 3}'), ("4.txt", "x")):
        with open(os.path.join(directory, name), "w", encoding="ascii") as file:
            file.write(text)
    assert len(read_receipts(here)) == 1
    assert read_receipts(here.changed(data_directory="/nonexistent")) == []


def test_a_receipt_that_contradicts_its_rows_is_not_believed(here):
    path = save_receipt(here, receipt("20260101-000000-aaaaaa", ok=False))
    with open(path, encoding="ascii") as file:
        fields = json.load(file)
    fields["ok"] = True
    with open(path, "w", encoding="ascii") as file:
        json.dump(fields, file)
    (found,) = read_receipts(here)
    assert not found.ok


def test_old_receipts_go_but_the_last_success_of_a_home_stays(here, monkeypatch):
    monkeypatch.setattr(receipts, "KEPT", 3)
    save_receipt(here, receipt("20260101-000000-aaaaaa"))
    save_receipt(here, receipt("20260101-000001-aaaaaa", ok=False))
    for number in range(2, 8):
        save_receipt(here, receipt(f"20260101-00000{number}-aaaaaa", ok=False))
    kept = [one.operation[13:15] for one in read_receipts(here)]
    assert kept == ["07", "06", "05", "00"]
