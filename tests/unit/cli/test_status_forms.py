"""Status for machines and eyes: valid Prometheus text without secrets, plots, and lines that fit."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import pytest

from safekept.actions.status.destination_status import DestinationStatus
from safekept.actions.status.home_status import HomeStatus
from safekept.actions.status.status import Status, look
from safekept.cli.status.growth import growth_svg, plot, sparkline
from safekept.cli.status.prometheus import exposition
from support.users.contexts import throwaway
from support.users.states import State, alarmed

NOW = 1_800_000_000.0
DAY = 86_400.0
_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{(?P<labels>[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*"(?:,[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*")*)\})?'
    r" (?P<value>-?\d+(?:\.\d+)?)"
)


def parsed(text: str) -> dict[str, list[tuple[str, float]]]:
    """Strictly: each metric has its help, then its type, then its samples, all of one name together."""
    assert text.endswith("\n")
    found: dict[str, list[tuple[str, float]]] = {}
    current, waiting = "", ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in found, "a metric comes twice"
            current, waiting = name, "type"
        elif line.startswith("# TYPE "):
            assert (line, waiting) == (f"# TYPE {current} gauge", "type")
            found[current], waiting = [], ""
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert (match["name"], waiting) == (current, "")
            found[current].append((match["labels"] or "", float(match["value"])))
    assert all(found.values()), "a metric without samples"
    return found


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return alarmed(tmp_path_factory.mktemp("alarmed"))


def test_metrics_are_valid_and_say_what_status_says(state):
    status = look(state.context)
    found = parsed(exposition(status))
    home = f'home="{state.home}",layout="hermes"'
    assert found["safekept_status_code"] == [("", 4)]
    assert found["safekept_alarms_open"] == [("", 1)]
    assert found["safekept_home_snapshots"] == [(home, 3)]
    assert found["safekept_last_snapshot_verified"] == [(home, 1)]
    assert abs(found["safekept_last_snapshot_timestamp_seconds"][0][1] - status.time) < 600
    assert "safekept_last_check_timestamp_seconds" not in found, "what is not known is left out"
    assert all(name.endswith("_seconds") for name in found if "timestamp" in name)


def test_metrics_hold_no_secret_and_no_text_of_an_alarm(state):
    status = look(state.context)
    off = DestinationStatus("nas", "s3://key:secret@bucket/x", ("vault",), NOW)
    text = exposition(dataclasses.replace(status, destinations=(off,)))
    with open(state.context.places.vault_key_file, encoding="ascii") as file:
        key = file.read().strip()
    for secret in (key, "secret", "s3://", status.alarms[0].text, status.vault.keys[0].id):
        assert secret not in text
    assert 'safekept_last_push_timestamp_seconds{destination="nas"}' in text


def test_metrics_of_nothing_are_valid_too(tmp_path):
    found = parsed(exposition(look(throwaway(tmp_path))))
    assert found["safekept_vault_open"][0][1] == 0
    assert found["safekept_status_code"] == [("", 3)]


def test_labels_of_any_bytes_are_escaped(tmp_path):
    status: Status = look(throwaway(tmp_path))
    strange = HomeStatus('/a"b\\c\nd\udcff', "generic", True, True)
    text = exposition(dataclasses.replace(status, homes=(strange,)))
    assert parsed(text)["safekept_home_exists"] == [('home="/a\\"b\\\\c\\nd\\\\xff",layout="generic"', 1)]
    text.encode("utf-8")


# ── plots ──────────────────────────────────────────────────────────────────────────────────────────

POINTS = [(NOW - 40 * DAY, 900 << 20), *((NOW - day * DAY, day * 100_000) for day in range(39, 0, -1))]


@pytest.mark.parametrize("points", [[], POINTS[:1], POINTS, [(NOW, 0)], [(NOW, 1 << 50), (NOW, 1 << 50)]])
def test_an_image_is_whole_and_stays_inside_its_frame(points):
    root = ElementTree.fromstring(growth_svg(points, NOW, 'a <b> & "c"', "caption \udcff\x1b"))
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    for shape in root.iter():
        for pair in shape.attrib.get("points", "").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
        for name, limit in (("x", width), ("y", height), ("x2", width), ("y2", height)):
            assert 0 <= float(shape.attrib.get(name, 0)) <= limit
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == 'a <b> & "c"'
    assert ("No snapshots yet" in texts) == (not points)


def test_a_line_of_days_shows_the_highest_and_the_empty_ones():
    assert sparkline([0, 1, 4, 8]) == "▁▂▅█"
    assert sparkline([0, 0]) == sparkline([]) == ""


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_a_plot_in_the_terminal_fits_and_never_falls(columns):
    lines = plot(POINTS, NOW, columns)
    assert max(map(len, lines)) <= columns
    heights = [
        sum(line[11:][column : column + 1] == "█" for line in lines[:-2]) for column in range(columns - 12)
    ]
    assert heights == sorted(heights)
    assert plot([], NOW, columns) == []
