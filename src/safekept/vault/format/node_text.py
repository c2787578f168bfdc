"""Nodes of what lies on this machine, as text: byte for byte what restic writes for the same files.

The same text as `encode_node` gives, for the three kinds that a home has, at a third of the cost: a home
has tens of thousands.
"""

from __future__ import annotations

import grp
import os
import pwd

from .blobs import ID
from .go_text import format_time, json_text, quote
from .tree import Node, encode_node

_DIGITS = len("2026-11-15T09:10:44")
_MOST_SECONDS = 4096


class NodeTexts:
    """Makes nodes; remembers the names of users and groups, and times."""

    def __init__(self) -> None:
        self._owners: dict[tuple[int, int], str] = {}
        self._seconds: dict[int, tuple[str, str]] = {}
        self._own = (os.getuid(), os.getgid())

    def file(
        self,
        name: str,
        mode: int,
        mtime_ns: int,
        size: int,
        content: bytes,
        status: os.stat_result | None,
        copy: bool = False,
    ) -> str:
        """A `copy` names no inode: restic, which compares them, will not take it for the file itself."""
        mtime = self._time(mtime_ns)
        ctime = mtime if status is None else self._time(status.st_ctime_ns)
        shown = f',"mode":{_mode(mode)}' if mode else ""
        amount = f',"size":{size}' if size else ""
        ids = '["' + content.hex('"', ID).replace('"', '","') + '"]' if content else "[]"
        inode = count = ""
        if copy:
            count = ',"links":1'
        elif status is not None:
            inode = f',"inode":{status.st_ino},"device_id":{status.st_dev}'
            count = f',"links":{status.st_nlink}'
        return (
            f'{{"name":{json_text(quote(name))},"type":"file"{shown},"mtime":"{mtime}","atime":"{mtime}"'
            f',"ctime":"{ctime}",{self._owner(status)}{inode}{amount}{count},"content":{ids}}}'
        )

    def directory(
        self, name: str, mode: int, mtime_ns: int, subtree: bytes, status: os.stat_result | None
    ) -> str:
        mtime = self._time(mtime_ns)
        ctime, inode = mtime, ""
        if status is not None:
            ctime = self._time(status.st_ctime_ns)
            inode = f',"inode":{status.st_ino},"device_id":{status.st_dev}'
        return (
            f'{{"name":{json_text(quote(name))},"type":"dir","mode":{_mode(mode) | 1 << 31},"mtime":"{mtime}"'
            f',"atime":"{mtime}","ctime":"{ctime}",{self._owner(status)}{inode},"content":null'
            f',"subtree":"{subtree.hex()}"}}'
        )

    def symlink(self, name: str, mode: int, mtime_ns: int, target: str, status: os.stat_result | None) -> str:
        node = Node(name, "symlink", mode, mtime_ns, target=target)
        node.uid, node.gid = self._own if status is None else (status.st_uid, status.st_gid)
        node.user, node.group = _user(node.uid), _group(node.gid)
        if status is not None:
            node.inode, node.device_id, node.ctime_ns = status.st_ino, status.st_dev, status.st_ctime_ns
            node.links = status.st_nlink
        return encode_node(node)

    def _time(self, nanoseconds: int) -> str:
        """As `format_time`. The files of a home were written in few of the seconds of its life."""
        seconds, fraction = divmod(nanoseconds, 1_000_000_000)
        found = self._seconds.get(seconds)
        if found is None:
            if len(self._seconds) >= _MOST_SECONDS:
                self._seconds.clear()
            text = format_time(seconds * 1_000_000_000)
            found = self._seconds[seconds] = text[:_DIGITS], text[_DIGITS:]
        return f"{found[0]}.{fraction:09d}".rstrip("0") + found[1] if fraction else found[0] + found[1]

    def _owner(self, status: os.stat_result | None) -> str:
        owner = self._own if status is None else (status.st_uid, status.st_gid)
        text = self._owners.get(owner)
        if text is None:
            text = f'"uid":{owner[0]},"gid":{owner[1]}'
            if user := _user(owner[0]):
                text += f',"user":{json_text(user)}'
            if group := _group(owner[1]):
                text += f',"group":{json_text(group)}'
            self._owners[owner] = text
        return text


def _mode(mode: int) -> int:
    special = 0
    if mode & 0o7000:
        special = (mode & 0o4000) << 12 | (mode & 0o2000) << 12 | (mode & 0o1000) << 11
    return mode & 0o777 | special


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""
