"""Makes entries out of the members of a tar that others made.

Names are checked, second names (hard links) become copies, and what has no bytes to keep (devices,
pipes) is passed over and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from safekept.core.entries import Content, Entry, Kind, Outcome, Remark

from ..container.limits import ArchiveNames, Budget, check_target, clean_name, leaves_target
from ..container.manifest import PREFIX
from ..errors import damaged, too_large, unsafe
from .parser import KINDS, TarMember

#: More names than this for one file are a way to make us read without end.
_ROUNDS = 1000


class ForeignListing:
    """The entries of one foreign tar, and what there is to say about them."""

    def __init__(self, path: str, budget: Budget, book: ArchiveNames) -> None:
        self.path, self.budget, self.book = path, budget, book
        self.remarks: list[Remark] = []

    def entries(self, listed: list[TarMember], content: Callable[..., Content]) -> list[Entry]:
        """Directories and links first, then files in the order of the tar, then second names."""
        plain: dict[str, Entry] = {}
        files: dict[str, Entry] = {}
        links: list[tuple[str, str, TarMember]] = []
        for index, member in enumerate(listed):
            name = clean_name(self.path, member.name.decode("utf-8", "surrogateescape"), own=False)
            if not name:
                continue
            if name.startswith(PREFIX) or name == PREFIX[:-1]:
                reason = "the manifest of another archive, left in this home by an import"
                self.remarks.append(Remark(name, Outcome.EXCLUDED, reason, bytes=member.size))
                continue
            if member.kind == b"1":
                target = clean_name(self.path, member.target.decode("utf-8", "surrogateescape"), own=False)
                links.append((name, target, member))
                continue
            kind = KINDS.get(member.kind)
            if kind is None:
                what = "a pipe" if member.kind == b"6" else "a device"
                reason = f"{what}: there are no bytes to keep"
                self.remarks.append(Remark(name, Outcome.PASSED_OVER, reason))
                continue
            if not self.book.add(name, kind):
                continue
            if kind is Kind.FILE:
                files[name] = Entry(
                    path=name,
                    kind=kind,
                    mode=member.mode & 0o777,
                    mtime_ns=member.mtime_ns,
                    size=member.size,
                    open=partial(content, index, member.size, member.mtime_ns, ""),
                )
                continue
            target = member.target.decode("utf-8", "surrogateescape") if kind is Kind.SYMLINK else ""
            if kind is Kind.SYMLINK:
                if not target:
                    raise damaged(self.path, "its link target is not one", name)
                check_target(self.path, name, target)
            if target and leaves_target(name, target):
                self.remarks.append(Remark(name, Outcome.NOTED, f"a link that points outside, to {target}"))
            plain[name] = Entry(name, kind, member.mode, member.mtime_ns, target=target)
        copies = self._hard_links(links, plain, files)
        return sorted(plain.values(), key=lambda entry: entry.path) + list(files.values()) + copies

    def _hard_links(
        self,
        links: list[tuple[str, str, TarMember]],
        plain: dict[str, Entry],
        files: dict[str, Entry],
    ) -> list[Entry]:
        """Second names of a file become copies, in rounds, so that each round costs one pass."""
        self.budget.total = sum(entry.size for entry in files.values())
        order = {name: place for place, name in enumerate(files)}
        rounds: dict[str, int] = {}
        copies: list[tuple[int, int, Entry]] = []
        origins: dict[str, str] = {}
        for name, target, _member in links:
            origin = origins.get(target, target)
            original = files.get(origin) or plain.get(origin)
            if original is None or original.kind is Kind.DIRECTORY:
                raise unsafe(self.path, name, f"a second name for `{target}`, which is not in it")
            origins[name] = origin
            self.budget.add(original.size)
            self.book.add(name, original.kind)
            copy = Entry(
                path=name,
                kind=original.kind,
                mode=original.mode,
                mtime_ns=original.mtime_ns,
                size=original.size,
                target=original.target,
                open=original.open,
            )
            if original.kind is Kind.SYMLINK:
                plain[name] = copy
                continue
            rounds[origin] = rounds.get(origin, 0) + 1
            if rounds[origin] > _ROUNDS:
                raise too_large(self.path, f"has more than {_ROUNDS} names for `{origin}`")
            copies.append((rounds[origin], order[origin], copy))
        return [copy for _, _, copy in sorted(copies, key=lambda item: item[:2])]
