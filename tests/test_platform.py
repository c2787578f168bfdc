"""What only some systems have stands in `core/platform`, and every part of it has a way for the others."""

from __future__ import annotations

import ast
import os
import re

import pytest

from safekept.core.platform import system
from support.places import CHECKOUT
from test_map import modules

DOOR = os.path.join("core", "platform") + os.sep
#: Names of the standard library that some systems do not have, or that mean less there.
NAMES = {
    "os": "fsync fdatasync sync memfd_create copy_file_range pipe2 sendfile splice unshare setns waitid "
    "setresuid setresgid getresuid getresgid listxattr getxattr setxattr removexattr chflags lchflags "
    "posix_fadvise posix_fallocate pidfd_open eventfd getrandom SEEK_DATA SEEK_HOLE O_PATH O_TMPFILE "
    "O_DIRECT O_NOATIME O_SYMLINK O_EXLOCK MFD_CLOEXEC P_PID WNOWAIT sched_setaffinity sched_getaffinity",
    "socket": "SO_PEERCRED SO_PASSCRED SCM_CREDENTIALS MSG_CMSG_CLOEXEC SOCK_NONBLOCK SOCK_CLOEXEC",
    "fcntl": "ioctl F_SETPIPE_SZ F_GETPIPE_SZ F_OFD_SETLK F_OFD_SETLKW F_OFD_GETLK F_FULLFSYNC "
    "F_GETPATH F_NOTIFY",
    "time": "CLOCK_BOOTTIME CLOCK_UPTIME_RAW CLOCK_MONOTONIC_RAW",
    "resource": "prlimit",
    "select": "epoll kqueue",
    "signal": "pidfd_send_signal sigtimedwait",
    "sys": "platform",
    "platform": "system platform uname mac_ver machine freedesktop_os_release",
    "ctypes": "CDLL",
}
REFUSED = {f"{module}.{name}" for module, names in NAMES.items() for name in names.split()}
#: A request to the kernel by its bare number, which is another one on another system.
BY_NUMBER = "fcntl by number"
#: What `os.uname()` calls the system.
BY_NAME = "sysname"
PLACES = re.compile(r"^/(proc|sys)(/| |$)")
#: Why a file has what stands in it all the same.
REASONS = {
    "actions/doctor/system_report.py": (
        "a report says which system it is of; nothing follows from it",
        {"sysname"},
    ),
    "integrations/helper/client.py": (
        "copied into agents, standard library only; it has both ways itself",
        {"sys.platform", "socket.SO_PEERCRED", "socket.SOCK_CLOEXEC", "/proc/self/fd/"},
    ),
    "checkpoints/project.py": (
        "places that are no projects; they are never looked into",
        {"/proc /sys /dev /boot"},
    ),
    "cli/report_file.py": (
        "a report that goes to a stream; a place that is not there is no stream",
        {"/proc"},
    ),
    "schedule/machine.py": (
        "batteries; where the place is not there, none is assumed",
        {"/sys/class/power_supply"},
    ),
}


def beyond_the_door(tree: ast.Module) -> set[str]:
    """What a module uses that only some systems have; what explains the code does not count."""
    explained = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    called = _names_of_modules(tree)
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == BY_NAME:
            found.add(BY_NAME)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{called.get(node.value.id)}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in NAMES and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and _plain(node.func) in ("getattr", "hasattr"):
            asked = node.args[1]
            if isinstance(asked, ast.Constant):
                found.add(f"{called.get(_plain(node.args[0]))}.{asked.value}")
        elif isinstance(node, ast.Constant) and id(node) not in explained:
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)
            found |= {text for _ in PLACES.finditer(text)}
        if isinstance(node, ast.Call) and _asks_by_number(node, called):
            found.add(BY_NUMBER)
    return {one for one in found if one in REFUSED or one in (BY_NUMBER, BY_NAME) or one.startswith("/")}


def _plain(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _names_of_modules(tree: ast.Module) -> dict[str, str]:
    """What each imported module, and `fcntl` out of `fcntl`, is called in this one: its own name, by that."""
    imported = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    names = [(alias.asname or alias.name, alias.name, node) for node in imported for alias in node.names]
    modules = {here: name.lstrip("_") for here, name, node in names if isinstance(node, ast.Import)}
    calls = {
        here: "fcntl.fcntl"
        for here, name, node in names
        if isinstance(node, ast.ImportFrom) and (node.module, name) == ("fcntl", "fcntl")
    }
    return modules | calls


def _asks_by_number(call: ast.Call, called: dict[str, str]) -> bool:
    """Whether a request to `fcntl` is anything but a name of its module, which another system lacks."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        name = f"{called.get(function.value.id)}.{function.attr}"
    else:
        name = called.get(_plain(function), "")
    if name != "fcntl.fcntl" or len(call.args) < 2:
        return False
    asked = call.args[1]
    return not (isinstance(asked, ast.Attribute) and asked.attr.startswith("F_"))


def test_only_the_door_knows_which_system_this_is():
    found, reasons = {}, set()
    for path, _, tree in modules():
        if path.startswith(DOOR):
            continue
        used = beyond_the_door(tree)
        _, allowed = REASONS.get(path, ("", set()))
        if used & allowed == allowed and allowed:
            reasons.add(path)
        if used - allowed:
            found[path] = sorted(used - allowed)
    assert found == {}, "ask core/platform for it, and say there what another system has"
    assert reasons == REASONS.keys(), "a reason that is no longer needed may not stay"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("import sys\nx = sys.platform == 'linux'", "sys.platform"),
        ("import os\nos.fsync(3)", "os.fsync"),
        ("import socket as _socket\n_socket.SO_PEERCRED", "socket.SO_PEERCRED"),
        ("from os import memfd_create", "os.memfd_create"),
        ("import os\ngetattr(os, 'O_PATH', 0)", "os.O_PATH"),
        ("open(f'/proc/{pid}/comm')", "/proc/"),
        ("import ctypes\nctypes.CDLL(None)", "ctypes.CDLL"),
        ("import fcntl\nfcntl.ioctl(3, request)", "fcntl.ioctl"),
        ("import fcntl\nfcntl.fcntl(3, fcntl.F_OFD_SETLK, b'')", "fcntl.F_OFD_SETLK"),
        ("import fcntl\nfcntl.fcntl(3, 1031, 1 << 20)", BY_NUMBER),
        ("import os\nos.open('.', os.O_TMPFILE)", "os.O_TMPFILE"),
        ("import time\ntime.clock_gettime(time.CLOCK_BOOTTIME)", "time.CLOCK_BOOTTIME"),
        ("open('/sys/dev/block/8:0')", "/sys/dev/block/8:0"),
        ("import sys as s\ns.platform", "sys.platform"),
        ("import os as o\no.SEEK_DATA", "os.SEEK_DATA"),
        ("from sys import platform", "sys.platform"),
        ("import platform\nplatform.system()", "platform.system"),
        ("import os\nos.uname().sysname", BY_NAME),
        ("open(b'/proc/self/mounts')", "/proc/self/mounts"),
        ("from fcntl import fcntl as f\nf(3, 1031, 1 << 20)", BY_NUMBER),
        ("import fcntl\nWIDE = 1031\nfcntl.fcntl(3, WIDE, 1 << 20)", BY_NUMBER),
    ],
)
def test_planted_knowledge_of_a_system_is_named(line, named):
    assert beyond_the_door(ast.parse(line)) == {named}
    assert beyond_the_door(ast.parse('"""Like /proc/self."""\nx = "/process"')) == set()


def test_every_feature_that_is_asked_for_can_be_switched_off_and_the_other_way_round():
    asked = set()
    for path, _, tree in modules():
        calls = [
            node.args[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "has"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ]
        if path.startswith(DOOR):
            asked |= set(calls)
    assert asked == system.FEATURES


def test_the_page_of_platforms_names_every_feature():
    with open(os.path.join(CHECKOUT, "docs", "reference", "platforms.md"), encoding="utf-8") as file:
        page = file.read()
    assert {name for name in system.FEATURES if f"`{name}`" not in page} == set()
