"""A bad network and bad servers: every write ends whole or in a clear error, and no secret is ever told."""

from __future__ import annotations

import contextlib
import io
import os
import random
import threading

import pytest

from safekept.core.files import NoRoom
from safekept.core.objects import Taken
from safekept.core.objects.errors import PlaceMissing, PlaceRefused, PlaceUnreachable, PlaceWrong
from safekept.core.objects.retry import RetryPatience
from safekept.core.objects.s3 import place as s3_module
from support.offsite.fault_proxy import (
    CutAnswer,
    CutProxy,
    CutRequest,
    FaultProxy,
    FlipRequest,
    Header,
    ShortAnswer,
    Silence,
    Status,
    at,
    each,
)
from support.offsite.servers import KEY, SECRET

DATA = os.urandom(100_000)
NAME = "data/ab/pack"
#: What passes when one tries again.
PASSING = {
    "500": Status(500, "InternalError"),
    "503": Status(503, "SlowDown", "Reduce your request rate"),
    "429": Status(429, "TooManyRequests"),
    "502 without a word": Status(502),
    "cut before the body": CutRequest(0),
    "cut in the body": CutRequest(50_000),
    "no answer": CutAnswer(0),
    "half an answer": CutAnswer(30),
}


@pytest.fixture(scope="module")
def proxy(s3_server):
    with FaultProxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def waits():
    return []


@pytest.fixture
def objects(proxy, s3_server, waits):
    """A place behind the proxy; waits between attempts are only written down."""
    proxy.reset()
    proxy.append_only(False)
    place = s3_server.place(endpoint=proxy.endpoint)
    with contextlib.closing(place.open()) as objects:
        objects.patience = RetryPatience(attempts=4, sleep=waits.append)
        yield objects
    proxy.reset()


@pytest.fixture
def direct(proxy, s3_server, objects):
    """The same place, past the proxy."""
    from support.offsite.servers import Place

    url = f"s3://{objects.place.bucket}/{objects.place.prefix}"
    below = s3_server.place()
    with contextlib.closing(Place(url, "", below.options, below.environment).open()) as direct:
        yield direct


def told(error):
    """Everything that an error could tell anybody."""
    chain = []
    while error is not None:
        chain += [str(error), repr(error), str(getattr(error, "as_dict", dict)())]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(chain)


# ── S3: accidents ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", PASSING.values(), ids=list(PASSING))
def test_one_accident_at_any_request_of_a_write_is_overcome(proxy, objects, direct, waits, fault):
    number = 0
    while True:
        number += 1
        name = f"{NAME}-{number}"
        proxy.reset()
        proxy.rule = at(number, fault)
        objects.write(name, DATA)
        happened = len(proxy.requests) >= number
        proxy.reset()
        assert direct.read(name) == DATA
        if not happened:
            break
    assert number > 2  # a look and a PUT at the least
    assert len(waits) == number - 1
    assert all(0.2 < wait <= 1 for wait in waits)


@pytest.mark.parametrize("case", [case for case in PASSING if "answer" not in case])
def test_an_accident_that_stays_ends_in_a_clear_error(proxy, objects, direct, waits, case):
    objects.write("other", b"whole")
    proxy.rule = each(PASSING[case], method="PUT")
    with pytest.raises(PlaceUnreachable) as caught:
        objects.write(NAME, DATA)
    error = caught.value
    assert error.what.startswith(f"`{objects.location}` cannot be reached: ")
    assert error.kept == "What was stored there before is whole; nothing stands there half written"
    assert error.advice()[0].startswith("See that this machine is online")
    assert error.facts["attempts"] == 4
    assert len(waits) == 3
    assert waits[0] < 1 < waits[2]  # growing
    assert SECRET not in told(error) and KEY not in told(error)
    assert not direct.exists(NAME)
    assert direct.read("other") == b"whole"


@pytest.mark.parametrize("fault", [CutAnswer(0), CutAnswer(600), CutAnswer(70_000), Status(503)], ids=str)
def test_reading_goes_on_after_an_accident(proxy, objects, direct, fault):
    direct.write(NAME, DATA)
    proxy.rule = each(fault, method="GET", times=1)
    assert objects.read(NAME) == DATA
    proxy.rule = each(fault, method="GET", times=1)
    assert b"".join(objects.stream(NAME)) == DATA
    proxy.rule = each(fault, method="GET", times=1)
    assert [stored.name for stored in objects.list()] == [NAME]


def test_a_silent_server_is_given_up(proxy, objects, s3_server):
    place = s3_server.place(endpoint=proxy.endpoint)
    with contextlib.closing(place.open(timeout=0.4)) as objects:
        objects.patience = RetryPatience(attempts=1)
        for rule, call in (
            (each(Silence(), method="HEAD"), lambda: objects.size("x")),
            (each(Silence(), method="GET"), lambda: objects.read("x")),
            (each(Silence(), method="GET"), lambda: list(objects.list())),
            (each(Silence(), method="PUT"), lambda: objects.write("x", b"x")),
        ):
            proxy.rule = rule
            with pytest.raises(PlaceUnreachable, match="no answer in time"):
                call()


def test_a_write_whose_answer_was_lost_is_not_called_taken(proxy, objects, direct):
    proxy.append_only()
    for content in (DATA, io.BytesIO(DATA)):
        proxy.rule = each(CutAnswer(0), method="PUT", times=1)
        objects.write(NAME, content)
        assert direct.read(NAME) == DATA
        direct.delete(NAME)


def test_a_write_that_lost_a_race_during_its_accident_is_taken(proxy, objects, direct):
    def other_was_quicker(request):
        if request.method == "PUT" and not direct.exists(NAME):
            direct.write(NAME, b"of somebody else")
            return CutRequest(0)
        return None

    proxy.rule = other_was_quicker
    with pytest.raises(Taken):
        objects.write(NAME, DATA)
    assert direct.read(NAME) == b"of somebody else"


# ── S3: refusals, and what they say ────────────────────────────────────────────────────────────────

REFUSALS = {
    "denied": (
        Status(403, "AccessDenied", "Access Denied"),
        PlaceRefused,
        "does not let us write there: Access Denied (403)",
        "See that the credential is the right one, has not expired and may do this",
    ),
    "expired": (
        Status(400, "ExpiredToken", "The provided token has expired."),
        PlaceRefused,
        "does not let us write there: The provided token has expired. (400)",
        "Renew the credential, then run the command again",
    ),
    "clock": (
        Status(403, "RequestTimeTooSkewed", "The difference between the times is too large."),
        PlaceRefused,
        "does not let us write there: The difference between the times is too large. (403)",
        "Set the clock of this machine right, then run it again",
    ),
    "region": (
        Status(400, "AuthorizationHeaderMalformed", "the region is wrong; expecting 'eu-central-1'"),
        PlaceRefused,
        "does not let us write there: the region is wrong; expecting 'eu-central-1' (400)",
        "Set `region` to `eu-central-1`",
    ),
    "bucket": (
        Status(404, "NoSuchBucket", "The specified bucket does not exist"),
        PlaceMissing,
        "There is no bucket for",
        "Make the bucket, or correct the address",
    ),
    "full": (
        Status(507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold."),
        NoRoom,
        "There is no room left at",
        "Make room there, or raise the limit, and run the command again",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_told_at_once_and_in_the_servers_words(proxy, objects, direct, waits, case):
    fault, kind, what, step = REFUSALS[case]
    proxy.rule = each(fault, method="PUT")
    with pytest.raises(kind) as caught:
        objects.write(NAME, DATA)
    assert what in caught.value.what
    assert objects.location in caught.value.what
    assert caught.value.advice()[0] == step
    assert SECRET not in told(caught.value) and KEY not in told(caught.value)
    assert waits == []
    assert proxy.count("PUT") == 1
    assert not direct.exists(NAME)


def test_a_404_is_an_error_wherever_it_does_not_mean_a_missing_object(proxy, objects, direct):
    direct.write("there", b"x")
    for fault in (Status(404), Status(404, "NoSuchKey")):
        proxy.rule = each(fault, method="PUT")
        with pytest.raises(PlaceRefused, match="does not let us write there"):
            objects.write(NAME, DATA)
        proxy.rule = each(fault, method="GET")
        with pytest.raises(PlaceRefused, match="does not let us list it"):
            list(objects.list())


def test_an_object_that_is_gone_right_after_it_was_written_is_not_called_stored(proxy, objects):
    proxy.rule = lambda request: (
        Header("ETag", '"0123456789abcdef0123456789abcdef"') if request.method == "PUT" else Status(404)
    )
    with pytest.raises(PlaceWrong, match="did not keep `data/ab/pack` as it was sent: it is not there"):
        objects.write(NAME, DATA)


def test_a_wrong_key_is_refused_without_being_shown(s3_server):
    place = s3_server.place()
    wrong = {**place.environment, "AWS_SECRET_ACCESS_KEY": "not-the-secret-at-all"}
    from support.offsite.servers import Place

    with contextlib.closing(Place(place.url, "", place.options, wrong).open()) as objects:
        with pytest.raises(PlaceRefused) as caught:
            list(objects.list())
        assert "does not let us list it: " in caught.value.what
        assert "not-the-secret-at-all" not in told(caught.value) + repr(objects) + objects.location
        assert KEY not in told(caught.value)


# ── S3: a credential that can only add ─────────────────────────────────────────────────────────────


def test_a_credential_that_can_only_add_suffices_for_adding(proxy, objects, direct):
    proxy.append_only()
    objects.write(NAME, DATA)
    objects.write("archive", io.BytesIO(DATA))
    assert objects.read(NAME) == DATA
    with pytest.raises(Taken):
        objects.write(NAME, b"other")
    with pytest.raises(PlaceRefused, match=r"does not let us write there: Access Denied \(403\)"):
        objects.write(NAME, b"other", replace=True)
    with pytest.raises(PlaceRefused, match=r"does not let us delete there: Access Denied \(403\)"):
        objects.delete(NAME)
    assert direct.read(NAME) == DATA


def test_a_probe_says_what_such_a_credential_may_not_and_what_it_left(proxy, objects, direct):
    proxy.append_only()
    abilities = objects.probe()
    assert (abilities.write, abilities.overwrite, abilities.delete) == (True, False, False)
    assert [stored.name for stored in direct.list()] == [abilities.left]
    assert abilities.left.startswith("safekept-probe-") and abilities.keeps
    again = objects.probe()
    assert (again.overwrite, again.delete, again.left) == (False, False, abilities.left)
    assert [stored.name for stored in direct.list()] == [abilities.left], "one stays, and not one a night"


def test_versioning_is_told_by_the_servers_answers(proxy, objects):
    proxy.rule = each(Header("x-amz-version-id", "3HL4kqtJvjVBH40Nrjfkd"), method="PUT")
    assert objects.probe().versioning is True
    proxy.reset()
    assert objects.probe().versioning is False


def test_a_credential_that_may_not_even_look_can_add(proxy, objects, direct):
    proxy.rule = each(Status(403), method="HEAD")
    objects.write(NAME, DATA)
    assert direct.read(NAME) == DATA


# ── S3: lying servers ──────────────────────────────────────────────────────────────────────────────


def test_bytes_that_changed_on_their_way_are_noticed_and_taken_back(proxy, objects, direct):
    proxy.rule = each(FlipRequest(777), method="PUT")
    with pytest.raises((PlaceWrong, PlaceRefused)) as caught:
        objects.write(NAME, DATA)
    if isinstance(caught.value, PlaceWrong):
        assert "did not keep `data/ab/pack` as it was sent: it reads back differently" in caught.value.what
        assert caught.value.kept.startswith("The original on this machine is untouched")
    assert not direct.exists(NAME)


def test_worthless_bytes_that_cannot_be_deleted_are_named(proxy, objects):
    proxy.append_only()
    proxy.rule = each(FlipRequest(777), method="PUT")
    with pytest.raises(PlaceWrong, match="stands under `data/ab/pack` now is worthless and could not be"):
        objects.write(NAME, DATA)


def test_an_object_that_ends_early_does_not_pass_for_whole(proxy, objects, direct):
    direct.write(NAME, DATA)
    proxy.rule = each(ShortAnswer(60_000), method="GET", name="pack")
    with pytest.raises(PlaceUnreachable, match="the connection was cut"):
        list(objects.stream(NAME))


def test_a_server_with_etags_of_its_own_is_read_back_once(proxy, objects):
    proxy.rule = each(Header("ETag", '"0123456789abcdef0123456789abcdef"'), method="PUT")
    for number in range(3):
        objects.write(f"{NAME}-{number}", DATA)
    assert proxy.count("GET", "pack") == 1


def test_a_server_that_knows_no_condition_is_asked_without_one(proxy, objects, direct):
    def no_conditions(request):
        asked = "if-none-match" in {name.lower() for name in request.headers}
        return Status(501, "NotImplemented") if asked else None

    proxy.rule = no_conditions
    objects.write(NAME, DATA)
    assert direct.read(NAME) == DATA
    with pytest.raises(Taken):
        objects.write(NAME, b"other")
    objects.write("second", DATA)
    assert proxy.count("PUT") == 3  # refused once, and never asked with a condition again


def test_a_server_that_knows_the_condition_decides_a_race(proxy, objects, direct):
    def in_between(request):
        if request.method == "PUT":
            return Status(412, "PreconditionFailed")
        return None

    proxy.rule = in_between
    with pytest.raises(Taken):
        objects.write(NAME, DATA)
    assert objects.place.write and proxy.count("PUT") == 1


# ── S3: large files ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 5 MiB, the least that S3 allows, from 6 MiB on."""
    monkeypatch.setattr(s3_module, "_SINGLE", 6 << 20)
    monkeypatch.setattr(s3_module, "_PART", 5 << 20)


def test_a_large_file_travels_in_parts_and_survives_accidents(proxy, objects, direct, small_parts, tmp_path):
    content = os.urandom(1 << 20) * 17 + b"end"
    path = tmp_path / "archive.tar.zst"
    path.write_bytes(content)
    for fault in (Status(503, "SlowDown"), CutRequest(1 << 20), CutAnswer(0)):
        proxy.reset()
        proxy.rule = lambda request, fault=fault: (
            fault if "partNumber=2" in request.path and proxy.count("PUT") < 4 else None
        )
        with open(path, "rb") as file:
            objects.write("archive", file)
        assert proxy.count("POST") == 2  # begun and completed
        assert direct.size("archive") == len(content)
        assert direct.read("archive") == content
        direct.delete("archive")


def test_a_large_file_that_fails_leaves_nothing_under_its_name(proxy, objects, direct, small_parts):
    content = os.urandom(1 << 20) * 12
    proxy.rule = lambda request: (
        Status(403, "AccessDenied", "Access Denied") if "partNumber=2" in request.path else None
    )
    with pytest.raises(PlaceRefused):
        objects.write("archive", io.BytesIO(content))
    assert not direct.exists("archive")
    assert list(direct.list()) == []


def test_a_file_that_cannot_be_read_is_not_blamed_on_the_place(objects, direct, small_parts):
    class Rotten(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 7 << 20:
                raise OSError(5, "Input/output error")
            return super().read(size)

    with pytest.raises(OSError, match="Input/output error"):
        objects.write("archive", Rotten(os.urandom(1 << 20) * 12))
    assert list(direct.list()) == []


# ── S3: many accidents ─────────────────────────────────────────────────────────────────────────────


def storm(proxy, objects, direct, seed, count):
    """Four lanes write while every fifth request goes wrong; what was reported stored is whole."""
    chance = random.Random(seed)
    contents = {
        f"data/{at:02x}/{seed}-{at}": chance.randbytes(chance.randrange(60_000)) for at in range(count)
    }
    faults = list(PASSING.values())
    proxy.rule = lambda request: chance.choice(faults) if chance.random() < 0.2 else None
    waiting, stored, failed = iter(contents.items()), {}, []

    def lane():
        while True:
            with lock:
                item = next(waiting, None)
            if item is None:
                return
            try:
                objects.write(*item)
                stored[item[0]] = item[1]
            except PlaceUnreachable as error:
                failed.append(error)

    lock = threading.Lock()
    threads = [threading.Thread(target=lane) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proxy.reset()
    assert len(stored) + len(failed) == count
    for name, content in stored.items():
        assert direct.read(name) == content
    for found in direct.list():
        assert found.size == len(contents[found.name])  # what failed may be there, but then whole
    return len(stored)


def test_a_storm_of_accidents_leaves_only_whole_objects(proxy, objects, direct):
    assert storm(proxy, objects, direct, 1, 20) > 10


@pytest.mark.soak("push")
@pytest.mark.parametrize("seed", range(20))
def test_long_storms_of_accidents_leave_only_whole_objects(proxy, objects, direct, seed):
    assert storm(proxy, objects, direct, seed, 200) > 150


# ── SFTP ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", [0, 1500, 3500, 60_000])
def test_an_sftp_connection_cut_at_any_byte_is_overcome(sftp_server, after):
    with CutProxy(sftp_server.port, [after]) as proxy:
        place = sftp_server.place(port=proxy.port)
        with contextlib.closing(place.open(lanes=1)) as objects:
            objects.patience = RetryPatience(attempts=3, sleep=lambda seconds: None)
            objects.write(NAME, DATA)
            assert proxy.connections == 2
            assert objects.read(NAME) == DATA
            assert [(stored.name, stored.size) for stored in objects.list()] == [(NAME, len(DATA))]


@pytest.mark.soak("push")
@pytest.mark.parametrize("after", range(0, 104_000, 1_300))
def test_an_sftp_connection_cut_at_every_place_is_overcome(sftp_server, after):
    test_an_sftp_connection_cut_at_any_byte_is_overcome(sftp_server, after)


def test_an_sftp_server_that_is_always_cut_is_a_clear_error(sftp_server):
    with CutProxy(sftp_server.port, [60_000] * 9) as proxy:
        place = sftp_server.place(port=proxy.port)
        with contextlib.closing(place.open(lanes=1)) as objects:
            objects.patience = RetryPatience(attempts=2, sleep=lambda seconds: None)
            with pytest.raises(PlaceUnreachable) as caught:
                objects.write(NAME, DATA)
        assert caught.value.what.startswith(f"`{place.url}` cannot be reached: ")
        assert caught.value.facts["attempts"] == 2
        left = [name for _, _, names in os.walk(place.directory) for name in names]
        assert all(name.startswith(".safekept-tmp-") for name in left)


def test_a_silent_sftp_server_is_given_up(sftp_server):
    for after in (0, 60_000):
        with CutProxy(sftp_server.port, [after], stall=True) as proxy:
            place = sftp_server.place(port=proxy.port)
            with contextlib.closing(place.open(lanes=1, timeout=0.5)) as objects:
                objects.patience = RetryPatience(attempts=1)
                with pytest.raises(PlaceUnreachable, match=r"said nothing for 0.5 seconds|timed out"):
                    objects.write(NAME, DATA)
            assert not os.path.exists(os.path.join(place.directory, NAME))
