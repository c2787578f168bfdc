"""A push through a proxy that cuts, stalls, corrupts and refuses: success or a clear error, and a whole copy.

The server behind it is real, and stores plain files, so what arrived is looked at without it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import replace

import pytest

from safekept.actions.offsite import place as place_module
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.offsite.destinations import last_push
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.vault.opening import open_vault
from safekept.core.errors import SafekeptError
from safekept.vault.care.checking import check
from safekept.vault.format import pack as pack_module
from support.offsite.fault_proxy import (
    CutAnswer,
    CutProxy,
    CutRequest,
    FaultProxy,
    FlipAnswer,
    FlipRequest,
    ShortAnswer,
    Silence,
    Status,
    Swap,
    at,
    let_through,
)
from support.offsite.pushes import machine, one_more
from support.vault.vaults import read_all

FAULTS = {
    "500": Status(500, "InternalError"),
    "503": Status(503, "SlowDown"),
    "403": Status(403, "AccessDenied"),
    "404": Status(404, "NoSuchKey"),
    "cut request": CutRequest(20),
    "cut answer": CutAnswer(0),
    "torn answer": CutAnswer(60),
    "silence": Silence(),
    "silence after": Silence(done=True),
    "flipped request": FlipRequest(30),
    "flipped answer": FlipAnswer(40),
    "short answer": ShortAnswer(15),
    "swapped": Swap(b"something else"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_module, "TARGET", 40_000)
        return machine(tmp_path_factory.mktemp("machine"), snapshots=2)


#: The servers that speak HTTP, and how a place on each is named with the proxy before it.
SERVERS = {
    "s3": lambda server, proxy: server.place(proxy.endpoint),
    "rest": lambda server, proxy: server.place(proxy.port),
}


@pytest.fixture(params=["s3"])
def server(request):
    made = request.getfixturevalue(f"{request.param}_server")
    return made, SERVERS[request.param]


@pytest.fixture
def proxy(server):
    with FaultProxy(server[0].port) as made:
        yield made


@pytest.fixture
def through(here, server, proxy, monkeypatch):
    """A machine whose destination is a new place behind the proxy, with little patience for faults.

    Where none is to come, a busy machine has all the time that it wants.
    """

    def make():
        place = server[1](server[0], proxy)

        def opened(*_):
            return place.open(**({} if proxy.rule is let_through else {"timeout": 1.0, "patience": 2.0}))

        monkeypatch.setattr(place_module, "open_destination", opened)
        setting = DestinationSetting.at(place.url)
        setting = replace(setting, name="far")
        return here.changed(destinations=(setting,), environment=place.environment), place

    return make


def copy_in(directory):
    """Where the vault is in what the server stores, if it is one yet."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(directory):
            if len(name) == 16 and os.path.exists(os.path.join(directory, name, "config")):
                return os.path.join(directory, name)
    return ""


def prove_whole(here, directory, *, everything):
    """Whatever happened: where there is a vault, it opens, and not a byte of it is wrong."""
    place = copy_in(directory)
    if not place:
        assert not everything
        return
    with open_vault(here.changed(source_vault=place)) as copy:
        assert [finding.what for finding in check(copy, read_data=1.0).damage] == []
        found = read_all(copy)
    if everything:
        with open_vault(here) as own:
            assert found == read_all(own)


def once(through, proxy, fault, number):
    """One push with one fault, what it left, and the push after it. Whether the fault came at all."""
    context, place = through()
    proxy.reset()
    proxy.rule = at(number, fault)
    try:
        assert push(context, PushRequest("far")).state in ("done", "incomplete")
    except SafekeptError as error:
        assert error.kept
        assert error.advice()
    came = len(proxy.requests) >= number
    prove_whole(context, place.directory, everything=False)
    proxy.reset()
    assert push(context, PushRequest("far", anew=True)).state == "done"
    prove_whole(context, place.directory, everything=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(context.places.data_directory, "destinations.json"))
    return came


@pytest.mark.parametrize("server", SERVERS, indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_some_requests_leaves_a_whole_copy(through, proxy, fault):
    # Each fault at another place of a push: the marker, a listing, a key, packs, the index, a snapshot.
    number = list(FAULTS).index(fault) * 5 % 17 + 1
    # Where a request before it took a second by itself, the push may be given up before the fault comes.
    assert any(once(through, proxy, FAULTS[fault], number) for _ in range(4))


@pytest.mark.soak("push")
@pytest.mark.parametrize("server", SERVERS, indirect=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_every_request_leaves_a_whole_copy(through, proxy, fault):
    for number in itertools.count(1):
        if not once(through, proxy, FAULTS[fault], number):
            break
    assert number > 10


def test_a_credential_that_can_only_add_suffices_for_many_nights(through, proxy, here):
    context, place = through()
    proxy.append_only()
    for night in range(4):
        one_more(here, 300 + night)
        assert push(context, PushRequest("far")).state == "done"
    tried = {one.path.rpartition("/")[2] for one in proxy.requests if one.method == "DELETE"}
    assert len(tried) == 1 and tried.pop().startswith("safekept-probe-"), (
        "whether it could, with its own file"
    )
    last = last_push(context, "far")
    assert last is not None and last.rights is not None and last.rights["keeps"] is True
    prove_whole(context, place.directory, everything=True)


def test_a_server_that_is_gone_for_good_is_a_clear_error(through, proxy):
    context, _ = through()
    proxy.rule = lambda request: Status(503, "SlowDown")
    with pytest.raises(SafekeptError) as raised:
        push(context, PushRequest("far"))
    assert raised.value.code == "place-unreachable"
    assert raised.value.retry


# Over SSH


def over_ssh(here, sftp_server, proxy, monkeypatch):
    place = sftp_server.place(proxy.port)
    monkeypatch.setattr(place_module, "open_destination", lambda *_: place.open(patience=60.0))
    setting = DestinationSetting("far", place.url)
    return here.changed(destinations=(setting,), environment=place.environment), place


def test_a_connection_that_is_cut_is_made_again_and_nothing_is_torn(here, sftp_server, monkeypatch):
    # In the handshake, in the first questions, in the middle of a pack.
    with CutProxy(sftp_server.port, [2_000, 6_000, 90_000]) as proxy:
        context, place = over_ssh(here, sftp_server, proxy, monkeypatch)
        with contextlib.suppress(SafekeptError):
            push(context, PushRequest("far"))
        prove_whole(context, place.directory, everything=False)
        assert push(context, PushRequest("far", anew=True)).state == "done"
        prove_whole(context, place.directory, everything=True)


@pytest.mark.soak("push")
def test_a_connection_that_is_cut_after_any_number_of_bytes(here, sftp_server, monkeypatch):
    for limit in range(1_500, 400_000, 20_011):
        with CutProxy(sftp_server.port, [limit]) as proxy:
            context, place = over_ssh(here, sftp_server, proxy, monkeypatch)
            with contextlib.suppress(SafekeptError):
                push(context, PushRequest("far"))
            prove_whole(context, place.directory, everything=False)
            push(context, PushRequest("far", anew=True))
            prove_whole(context, place.directory, everything=True)
