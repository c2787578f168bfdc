"""Retries and the rate limit, on a clock that only moves when somebody waits."""

from __future__ import annotations

import io

import pytest

from safekept.core.objects import Stored, Taken
from safekept.core.objects.errors import PlaceRefused, PlaceUnreachable, refused, unreachable
from safekept.core.objects.memory import MemoryObjects
from safekept.core.objects.retry import PatientObjects, Rate, RetryPatience


class Clock:
    def __init__(self):
        self.now = 1000.0
        self.waits = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


class Flaky(MemoryObjects):
    """Fails so many times, before or after doing what was asked."""

    def __init__(self, failures, after=False, error=None):
        super().__init__()
        self.failures, self.after, self.calls = failures, after, 0
        self.error = error or unreachable("memory", "the connection was cut")

    def _maybe(self):
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise self.error

    def write(self, name, content, *, replace=False):
        if not self.after:
            if self.failures and not isinstance(content, bytes):
                content.read(3)  # part of it was sent
            self._maybe()
        super().write(name, content, replace=replace)
        if self.after:
            self._maybe()

    def stream(self, name, offset=0):
        data = self._object(name)[offset:]
        yield data[:4]
        self._maybe()
        yield data[4:]

    def list(self, prefix=""):
        yield from []
        self._maybe()
        yield from super().list(prefix)


def patient(place, clock, **options):
    return PatientObjects(place, RetryPatience(clock=clock, sleep=clock.sleep, **options))


def test_waits_grow_and_are_never_the_same(clock):
    place = Flaky(5)
    patient(place, clock).write("x", b"x")
    assert place.calls == 6
    assert len(set(clock.waits)) == 5
    for number, wait in enumerate(clock.waits):
        assert 0.25 * 2**number <= wait <= 0.5 * 2**number


def test_there_is_an_end_by_number(clock):
    place = Flaky(100)
    with pytest.raises(PlaceUnreachable) as caught:
        patient(place, clock, attempts=4).write("x", b"x")
    assert place.calls == 4
    assert caught.value.facts["attempts"] == 4


def test_there_is_an_end_by_time(clock):
    place = Flaky(100)
    with pytest.raises(PlaceUnreachable):
        patient(place, clock, seconds=10.0, attempts=100).write("x", b"x")
    assert clock.now - 1000 <= 10.0
    assert place.calls > 2


@pytest.mark.parametrize(
    "reason",
    [
        "connection refused",
        "no answer in time",
        "there is no such host",
        "ssh: connect to host nas port 22: Connection timed out",
        "ssh: Could not resolve hostname nas: Name or service not known",
        "dial tcp 192.0.2.1:443: i/o timeout",
    ],
)
def test_a_server_that_never_answered_is_given_up_soon(clock, reason):
    place = Flaky(100, error=unreachable("memory", reason))
    with pytest.raises(PlaceUnreachable) as caught:
        patient(place, clock).write("x", b"x")
    assert clock.now - 1000 <= 10.0
    assert place.calls == caught.value.facts["attempts"] >= 3


def test_a_server_that_answered_once_is_waited_for(clock):
    place = Flaky(0, error=unreachable("memory", "connection refused"))
    objects = patient(place, clock)
    objects.write("x", b"x")
    place.failures = 7
    objects.write("y", b"y")
    assert clock.now - 1000 > 15.0


@pytest.mark.parametrize("error", ["the connection was cut", "SlowDown (503)"])
def test_a_server_that_answers_with_trouble_is_waited_for(clock, error):
    place = Flaky(7, error=unreachable("memory", error))
    patient(place, clock).write("x", b"x")
    assert clock.now - 1000 > 15.0


def test_a_refusal_is_never_tried_again(clock):
    place = Flaky(1, error=refused("memory", "write there", "no"))
    with pytest.raises(PlaceRefused):
        patient(place, clock).write("x", b"x")
    assert (place.calls, clock.waits) == (1, [])


def test_a_file_is_sent_again_from_its_beginning(clock):
    place = Flaky(2)
    file = io.BytesIO(b"--the content")
    file.seek(2)
    patient(place, clock).write("x", file)
    assert place.objects["x"] == b"the content"


def test_what_cannot_be_read_twice_is_not_tried_again(clock):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    place = Flaky(1)
    with pytest.raises(PlaceUnreachable):
        patient(place, clock).write("x", Pipe(b"content"))
    assert place.objects == {}


@pytest.mark.parametrize("content", [b"the content", "file"])
def test_a_stored_write_with_a_lost_answer_is_a_success(clock, content):
    place = Flaky(1, after=True)
    patient(place, clock).write("x", io.BytesIO(b"the content") if content == "file" else content)
    assert place.objects["x"] == b"the content"


def test_what_was_there_before_is_taken(clock):
    place = Flaky(0, after=True)
    place.objects["x"] = b"the content"
    with pytest.raises(Taken):
        patient(place, clock).write("x", b"the content")


def test_a_stream_goes_on_where_it_was_cut(clock):
    place = Flaky(2)
    place.objects["x"] = b"0123456789abcdef"
    assert b"".join(patient(place, clock).stream("x")) == b"0123456789abcdef"


def test_a_listing_that_broke_off_begins_again_and_shows_nothing_twice(clock):
    place = Flaky(1)
    place.objects.update(a=b"1", b=b"2")
    assert [stored.name for stored in patient(place, clock).list()] == ["a", "b"]


# ── the rate limit ─────────────────────────────────────────────────────────────────────────────────


def test_the_average_holds_whatever_the_pieces(clock):
    rate = Rate(1000, clock=clock, sleep=clock.sleep)
    for size in (10_000, 1, 5000, 300, 4699):
        rate.take(size)
    assert clock.now - 1000 == pytest.approx(19.0)  # 20,000 bytes, one second of burst


def test_idling_earns_one_second_and_no_more(clock):
    rate = Rate(1000, clock=clock, sleep=clock.sleep)
    clock.now += 3600
    rate.take(3000)
    assert clock.waits == [pytest.approx(2.0)]


def test_no_limit_waits_for_nothing(clock):
    Rate(0, clock=clock, sleep=clock.sleep).take(1 << 40)
    assert clock.waits == []


@pytest.mark.parametrize("content", [b"x" * 5000, "file"])
def test_writes_keep_the_limit(clock, content):
    place = MemoryObjects()
    rate = Rate(1000, clock=clock, sleep=clock.sleep)
    objects = PatientObjects(place, RetryPatience(clock=clock, sleep=clock.sleep), rate)
    objects.write("x", io.BytesIO(b"x" * 5000) if content == "file" else content)
    assert place.objects["x"] == b"x" * 5000
    assert sum(clock.waits) == pytest.approx(4.0)


def test_a_listing_holds_only_names_that_can_be_asked_for():
    """Others may have put anything there; a name that `read` refuses is not ours."""

    class Foreign(MemoryObjects):
        def list(self, prefix=""):
            for name in ("data/ab", "data/\x1b[31mab", "a\nb", "a\\b", "x/../y", "\udcff", "é"):
                yield Stored(name, 1, 0.0)

    assert [one.name for one in PatientObjects(Foreign()).list()] == ["data/ab", "é"]
