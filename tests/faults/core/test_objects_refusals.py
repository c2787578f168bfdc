"""What is said when a place does not let us in, or not do what we want: the texts, and no secret in them."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from dataclasses import replace

import pytest

from safekept.core.files import NoRoom
from safekept.core.objects import Options, Taken, open_objects
from safekept.core.objects.errors import HostKeyRefused, PlaceRefused, PlaceUnreachable, ProgramMissing
from safekept.core.objects.retry import RetryPatience
from support.offsite.servers import Place, plain_environment

WHOLE = "What was stored there before is whole; nothing stands there half written"


def fails(place, kind, work=lambda objects: objects.write("x", b"x"), **changes):
    """The error of one attempt."""
    with contextlib.closing(place.open(**changes)) as objects:
        if hasattr(objects, "patience"):
            objects.patience = RetryPatience(attempts=1)
        with pytest.raises(kind) as caught:
            work(objects)
    return caught.value


def fake_program(tmp_path, name, script):
    """A PATH on which `name` is a shell script of ours."""
    directory = tmp_path / "bin"
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(directory)


# ── SFTP: who is there ─────────────────────────────────────────────────────────────────────────────


def test_a_server_with_another_key_gets_nothing(sftp_server):
    place = sftp_server.place()
    error = fails(place, HostKeyRefused, ssh_config=sftp_server.client_config(known="known_other"))
    assert error.what == f"The server at `{place.url}` shows another key than the one in known_hosts"
    assert error.kept == f"Nothing was sent to it. {WHOLE}"
    assert error.advice()[0].startswith("Ask those who run that server whether its key was changed")
    assert f"`ssh-keygen -R '[127.0.0.1]:{sftp_server.port}'`" in error.advice()[1]
    assert os.listdir(place.directory) == []


@pytest.mark.parametrize("wish", ["ask", "no", "accept-new"])
def test_an_unknown_server_gets_nothing_whatever_the_configuration_says(sftp_server, wish):
    place = sftp_server.place()
    config = sftp_server.client_config(f"StrictHostKeyChecking {wish}", known="known_nobody")
    error = fails(place, HostKeyRefused, ssh_config=config)
    assert error.what == f"The key of the server at `{place.url}` is not in known_hosts"
    assert error.advice()[0].startswith("Connect once by hand and compare the fingerprint: `ssh -F ")
    assert not os.path.exists(os.path.join(sftp_server.root, "known_nobody"))


def test_a_key_that_is_not_let_in_says_how_to_try_it(sftp_server):
    place = sftp_server.place()
    error = fails(place, PlaceRefused, ssh_config=sftp_server.client_config(key="stranger"))
    assert error.what == f"`{place.url}` does not let us log in: Permission denied (publickey)."
    assert error.advice()[0].startswith("See that this works without a question: `ssh -F ")
    assert "needs an agent" in error.advice()[1]
    assert not error.retry


def test_no_such_host_and_a_closed_port_are_unreachable(sftp_server):
    place = sftp_server.place()
    nowhere = replace(place, url="sftp://nobody@host.invalid/srv")
    error = fails(nowhere, PlaceUnreachable)
    assert "`sftp://nobody@host.invalid/srv` cannot be reached: ssh: Could not resolve" in error.what
    closed = replace(place, url="sftp://nobody@127.0.0.1:1/srv")
    error = fails(closed, PlaceUnreachable)
    assert error.what.endswith("Connection refused")
    assert error.retry


def test_without_ssh_the_error_says_what_to_install(sftp_server, tmp_path):
    place = replace(sftp_server.place(), environment={"PATH": str(tmp_path)})
    error = fails(place, ProgramMissing)
    assert error.what == "The program `ssh` is not installed, and `sftp://` places are reached with it"
    assert error.kept == "Nothing was contacted or changed"


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        ("echo 'subsystem request failed on channel 0' >&2; exit 255", PlaceRefused, "use SFTP"),
        ("echo 'Welcome to the jungle'; cat >/dev/null", PlaceUnreachable, "is no SFTP"),
        ("exit 0", PlaceUnreachable, "the connection was closed"),
        ("printf '\\0\\0\\0\\5\\2\\0\\0\\0\\2'; cat >/dev/null", PlaceUnreachable, "SFTP version 3"),
        (
            "printf '\\0\\0\\0\\11\\145\\0\\0\\0\\7\\0\\0\\0\\0'; cat >/dev/null",
            PlaceUnreachable,
            "not asked",
        ),
    ],
)
def test_a_server_that_talks_something_else_is_told_apart(tmp_path, script, kind, said):
    path = f"{fake_program(tmp_path, 'ssh', script)}:{os.environ['PATH']}"
    place = Place(
        "sftp://host/srv", "", Options(timeout=20.0), {**plain_environment(str(tmp_path)), "PATH": path}
    )
    assert said in fails(place, kind).what


# ── SFTP: what may be done ─────────────────────────────────────────────────────────────────────────


def test_the_users_own_ssh_configuration_counts(sftp_server):
    place = sftp_server.place()
    user = place.url.removeprefix("sftp://").partition("@")[0]
    config = sftp_server.client_config(
        f"Host Backup\nPort {sftp_server.port}\nUser {user}\nHostname 127.0.0.1\nHost *"
    )
    named = replace(place, url=f"sftp://Backup{place.directory}")
    with contextlib.closing(named.open(ssh_config=config)) as objects:
        objects.write("x", b"by its nickname")
        assert objects.location == f"sftp://Backup{place.directory}"
    with open(os.path.join(place.directory, "x"), "rb") as file:
        assert file.read() == b"by its nickname"


def test_a_chosen_cipher_stays_the_users_choice(sftp_server):
    from safekept.core.objects.sftp.connections import Host, ssh_command

    environment = plain_environment(sftp_server.root)
    free = ssh_command(Host("127.0.0.1", config=sftp_server.ssh_config), environment, 30)
    chosen = sftp_server.client_config("Ciphers chacha20-poly1305@openssh.com")
    bound = ssh_command(Host("127.0.0.1", config=chosen), environment, 30)
    assert any(word.startswith("Ciphers=^aes") for word in free)
    assert not any(word.startswith("Ciphers") for word in bound)


def test_a_path_below_the_login_directory_is_found(sftp_server):
    place = sftp_server.place()
    name = os.path.basename(place.directory)
    config = sftp_server.client_config(key="lodger")
    below = replace(place, url=place.url.replace(place.directory, f"/~/{name}/deeper"))
    with contextlib.closing(below.open(ssh_config=config)) as objects:
        objects.create()
        objects.write("data/x", b"x")
        assert [stored.name for stored in objects.list()] == ["data/x"]
        assert objects.location == below.url
    assert os.path.exists(os.path.join(place.directory, "deeper", "data", "x"))


def test_a_key_that_may_only_read_is_refused_writing_and_reads(sftp_server):
    place = sftp_server.place()
    with contextlib.closing(place.open()) as objects:
        objects.write("data/x", b"x")
    config = sftp_server.client_config(key="reader")
    error = fails(place, PlaceRefused, ssh_config=config)
    assert error.what == f"`{place.url}` does not let us write there: Permission denied"
    assert error.kept == WHOLE
    error = fails(place, PlaceRefused, lambda objects: objects.delete("data/x"), ssh_config=config)
    assert "does not let us delete there" in error.what
    with contextlib.closing(place.open(ssh_config=config)) as objects:
        assert objects.read("data/x") == b"x"


def test_a_key_that_may_rename_and_not_remove_adds_and_is_told_to_take_away(sftp_server):
    place = sftp_server.place()
    config = sftp_server.client_config(key="mover")
    with contextlib.closing(place.open(ssh_config=config)) as objects:
        objects.write("data/ab/x", b"x" * 100_000)
        with pytest.raises(Taken):
            objects.write("data/ab/x", b"y")
        with pytest.raises(PlaceRefused):
            objects.write("data/ab/x", b"y", replace=True)
        with pytest.raises(PlaceRefused):
            objects.delete("data/ab/x")
        abilities = objects.probe()
        # It can be moved away from its name; run by root, it is also written over where it lies.
        assert (abilities.write, abilities.delete, abilities.keeps) == (True, True, False)
        assert objects.read("data/ab/x") == b"x" * 100_000


def test_a_full_disk_behind_sftp_is_no_room(sftp_server, small_filesystem):
    mount = small_filesystem(512)
    place = sftp_server.place()
    place = replace(place, url=place.url.replace(place.directory, mount))
    with contextlib.closing(place.open()) as objects:
        objects.write("data/small", b"x" * 1000)
        with pytest.raises(NoRoom) as caught:
            objects.write("data/large", os.urandom(3_000_000))
        assert caught.value.what.startswith(f"There is no room left at `{place.url}`: ")
        assert caught.value.kept == WHOLE
        assert [stored.name for stored in objects.list()] == ["data/small"]
        objects.write("data/after", b"y" * 1000)  # what did not fit was removed
    assert sorted(os.listdir(os.path.join(mount, "data"))) == ["after", "small"]


def test_a_read_only_disk_behind_sftp_and_here_is_said_to_be_one(sftp_server, small_filesystem):
    mount = small_filesystem(512)
    subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
    place = sftp_server.place()
    error = fails(replace(place, url=place.url.replace(place.directory, mount)), PlaceRefused)
    assert "does not let us write there: its filesystem is read-only" in error.what
    error = fails(Place(f"file:{mount}", mount), PlaceRefused)
    assert error.what == f"`{mount}` does not let us write there: Read-only file system"


def test_a_full_disk_here_is_no_room_and_keeps_the_rest(small_filesystem):
    mount = small_filesystem(512)
    with contextlib.closing(open_objects(f"file:{mount}", environment={})) as objects:
        objects.write("small", b"x")
        with pytest.raises(NoRoom, match="There is no room left in"):
            objects.write("large", os.urandom(3_000_000))
        assert [stored.name for stored in objects.list()] == ["small"]
        assert os.listdir(mount) == ["small"]


# ── rclone ─────────────────────────────────────────────────────────────────────────────────────────


def test_without_rclone_the_error_says_what_to_install(tmp_path):
    place = Place("rclone:disk:/srv", "", Options(), {"PATH": str(tmp_path)})
    error = fails(place, ProgramMissing)
    assert error.what == "The program `rclone` is not installed, and `rclone:` places are reached with it"


def test_a_remote_that_rclone_does_not_know_is_named(rclone_remotes):
    place = replace(rclone_remotes.local(), url="rclone:elsewhere:/srv")
    error = fails(place, PlaceRefused)
    assert error.what == "`rclone:elsewhere:/srv` does not let us read it: rclone knows no such remote"
    assert error.advice() == ("See which it knows: `rclone listremotes`",)


def test_an_rclone_that_does_not_start_says_why(tmp_path):
    path = f"{fake_program(tmp_path, 'rclone', 'echo Fatal error: out of cheese >&2; exit 1')}:/usr/bin:/bin"
    place = Place("rclone:disk:/srv", "", Options(), {"PATH": path})
    error = fails(place, PlaceUnreachable)
    assert error.what == "`rclone:disk:/srv` cannot be reached: Fatal error: out of cheese"


def test_secrets_of_a_remote_are_in_no_text_and_no_process_list(s3_server, tmp_path):
    """A remote can be written out in the address, password and all."""
    key, secret = f"AKIA{os.urandom(8).hex().upper()}", os.urandom(20).hex()  # no other test has them
    params = f'provider=Rclone,endpoint="{s3_server.endpoint}",access_key_id={key}'
    url = f"rclone::s3,{params},secret_access_key={secret}:bucket/agent"
    place = Place(url, "", Options(timeout=20.0), plain_environment(str(tmp_path)))
    with contextlib.closing(place.open()) as objects:
        objects.patience = RetryPatience(attempts=1)
        assert objects.location == "rclone::s3:bucket/agent"
        with pytest.raises((PlaceRefused, PlaceUnreachable)) as caught:
            objects.read("x")
        password = objects.place._helper._headers["Authorization"]
        seen = _command_lines()
        assert "rclone" in seen
        for text in (str(caught.value), str(caught.value.as_dict()), repr(objects), seen):
            assert secret not in text and key not in text
            assert password not in text


def _command_lines():
    seen = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                seen.append(file.read().replace(b"\0", b" ").decode("utf-8", "replace"))
    return "\n".join(seen)


def test_an_rclone_that_died_is_started_again(rclone_remotes):
    with contextlib.closing(rclone_remotes.local().open()) as objects:
        objects.patience = RetryPatience(attempts=3, sleep=lambda seconds: None)
        objects.write("x", b"x")
        helper = objects.place._helper
        first = helper.directory
        os.killpg(helper._process.pid, 9)
        helper._process.wait()
        assert objects.read("x") == b"x"
        assert helper.directory != first
        second = helper.directory
    assert not os.path.exists(second)


def test_a_full_disk_behind_rclone_is_no_room(rclone_remotes, small_filesystem):
    mount = small_filesystem(512)
    place = replace(rclone_remotes.local(), url=f"rclone:disk:{mount}")
    with contextlib.closing(place.open()) as objects:
        objects.write("small", b"x" * 1000)
        with pytest.raises(NoRoom, match="There is no room left at `rclone:disk:"):
            objects.write("large", os.urandom(3_000_000))
        assert [stored.name for stored in objects.list()] == ["small"]
