"""What differs between two directories of a vault: cheap, since equal trees have equal ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from safekept.core.entries import Remark

from ..errors import VaultDamaged
from ..format.tree import Node
from .homes import damaged_remark

if TYPE_CHECKING:
    from ..repo.repository import Repository

Pair = tuple[str, Node | None, Node | None]


def tree_changes(
    repository: Repository,
    before: bytes | None,
    after: bytes | None,
    remarks: list[Remark],
    prefix: str = "",
) -> Iterator[Pair]:
    """Every path that is not the same in both trees, with its two nodes; equal subtrees are not looked at.

    Directories are among them where they are only on one side or differ in themselves.
    """
    if before == after:
        return
    old, new = _nodes(repository, before, prefix, remarks), _nodes(repository, after, prefix, remarks)
    if old is None or new is None:
        return  # damaged on one side: nothing can be said about it, and the remark says so
    for name in sorted(old.keys() | new.keys(), key=os.fsencode):
        first, second = old.get(name), new.get(name)
        path = prefix + name
        if first is None or second is None or not same_node(first, second):
            yield path, first, second
        trees = [node.subtree if node is not None else None for node in (first, second)]
        if trees[0] != trees[1]:
            yield from tree_changes(repository, trees[0], trees[1], remarks, path + "/")


def _nodes(
    repository: Repository, tree: bytes | None, prefix: str, remarks: list[Remark]
) -> dict[str, Node] | None:
    if tree is None:
        return {}
    try:
        return {node.name: node for node in repository.load_tree(tree).nodes}
    except VaultDamaged as error:
        remarks.append(damaged_remark(prefix.rstrip("/"), "this directory", error))
        return None


def same_node(first: Node, second: Node) -> bool:
    """Equal in what a restore would bring back, subtrees aside."""
    return same_content(first, second) and (first.mode, first.mtime_ns) == (second.mode, second.mtime_ns)


def same_content(first: Node, second: Node) -> bool:
    """Equal in kind, blocks and target; the same bytes in blocks of another size are not found equal."""
    if first.type != second.type:
        return False
    return first.content == second.content and first.target == second.target
