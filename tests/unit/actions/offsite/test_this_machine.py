"""What is lost with this machine: its own names and addresses, its disks, its memory."""

from __future__ import annotations

import os
import socket

import pytest

from safekept.actions.offsite import this_machine
from safekept.actions.offsite.this_machine import _whole_disks, disks_of, in_memory, is_this_machine
from safekept.core.platform import filesystems


def test_every_name_and_address_of_this_machine_is_known_for_what_it_is():
    own = os.uname().nodename
    for host in ("localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "[::1]", "0.0.0.0", "::ffff:127.0.0.1"):
        assert is_this_machine(host), host
    for host in (own, own.upper(), f"{own.partition('.')[0]}.local", "db.localhost"):
        assert is_this_machine(host), host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; says which address would be used
        except OSError:
            return
        assert is_this_machine(probe.getsockname()[0])


def test_other_machines_are_other_machines():
    for host in ("", "nas", "nas.example.org", "192.0.2.7", "2001:db8::7", f"not-{os.uname().nodename}"):
        assert not is_this_machine(host), host


def test_a_name_that_the_hosts_file_gives_to_this_machine_is_this_machine(tmp_path, monkeypatch):
    (tmp_path / "hosts").write_text("192.0.2.7 far\n127.0.1.1 Vault.home vault # here\n")
    monkeypatch.setattr(this_machine, "_HOSTS", str(tmp_path / "hosts"))
    assert is_this_machine("vault.home") and is_this_machine("VAULT")
    assert not is_this_machine("far")


MOUNTS = """\
22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw
23 22 0:40 / /tmp rw - tmpfs tmpfs rw
24 22 0:50 /@home /home rw - btrfs {disk} rw
25 22 0:60 / /mnt/a\\040stick rw - vfat {disk} rw
"""


def test_memory_is_no_disk(tmp_path, monkeypatch):
    (tmp_path / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(filesystems, "_TABLE", str(tmp_path / "mounts"))
    assert in_memory("/tmp/usb/not/there/yet") and not in_memory("/etc")


def test_two_directories_of_one_filesystem_lie_on_one_disk_and_another_filesystem_does_not(
    tmp_path, small_filesystem
):
    (tmp_path / "one").mkdir()
    assert disks_of(str(tmp_path / "one")) == disks_of(str(tmp_path / "two" / "not there"))
    assert not disks_of(small_filesystem(512)) & disks_of(str(tmp_path))


def test_an_image_file_is_on_the_disk_that_it_lies_on(tmp_path):
    """As the kernel tells of a loop device, which looks like a disk of its own."""
    loop = tmp_path / "sys" / "loop7"
    (loop / "loop").mkdir(parents=True)
    (loop / "loop" / "backing_file").write_text(f"{tmp_path}/usb.img\n")
    assert _whole_disks(str(loop)) == disks_of(str(tmp_path))
    crypt = tmp_path / "sys" / "dm-0"
    (crypt / "slaves").mkdir(parents=True)
    (crypt / "slaves" / "loop7").symlink_to(loop)
    assert _whole_disks(str(crypt)) == disks_of(str(tmp_path)), "an encrypted one, too"


@pytest.mark.parametrize("stacked", [False, True])
def test_two_partitions_and_volumes_of_one_disk_have_it_in_common(tmp_path, stacked):
    """By the shape of the kernel's own tree."""
    disk = tmp_path / "block" / "sda"
    for name in ("sda1", "sda2"):
        (disk / name).mkdir(parents=True)
        (disk / name / "partition").write_text("1\n")
    one, two = str(disk / "sda1"), str(disk / "sda2")
    if stacked:
        slaves = tmp_path / "block" / "dm-0" / "slaves"
        slaves.mkdir(parents=True)
        (slaves / "sda2").symlink_to(disk / "sda2")
        two = str(tmp_path / "block" / "dm-0")
    assert this_machine._whole_disks(one) == this_machine._whole_disks(two) == {"sda"}
