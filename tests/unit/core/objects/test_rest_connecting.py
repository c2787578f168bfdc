"""A server that nothing is heard of is given up in seconds; one that answers slowly is not."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from safekept.core.objects.address import Options, open_objects
from safekept.core.objects.errors import PlaceUnreachable
from safekept.core.objects.rest import connections


@pytest.fixture
def unheard():
    """A port at which connections do not come about: the queue of those that wait is full."""
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(server.getsockname())
        yield server.getsockname()[1]


def test_a_server_that_drops_what_is_sent_to_it_is_given_up_long_before_a_silence_is_over(
    unheard, monkeypatch
):
    monkeypatch.setattr(connections, "CONNECT", 0.3)
    monkeypatch.setattr("safekept.core.objects.retry.FIRST_CONTACT", 0.5)
    place = open_objects(f"rest:http://127.0.0.1:{unheard}/", environment={}, options=Options(timeout=60.0))
    began = time.monotonic()
    with contextlib.closing(place), pytest.raises(PlaceUnreachable, match="no answer in time"):
        place.size("config")
    assert time.monotonic() - began < 20


def test_an_answer_may_take_longer_than_a_connection(monkeypatch):
    """A disk that has to wake up behind a server that is there."""
    monkeypatch.setattr(connections, "CONNECT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                time.sleep(0.6)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"rest:http://127.0.0.1:{server.getsockname()[1]}/"
        with contextlib.closing(open_objects(url, environment={}, options=Options(timeout=60.0))) as place:
            assert place.size("config") == 7
        thread.join()
