"""Looking into an agent's YAML settings: what is written there, without building what it means.

Only the tree of nodes is read, so no tag can construct anything, an alias counts once and a loop
ends. Where a key is given twice the last one holds, as in the parser that Hermes uses.
"""

from __future__ import annotations

import re
from typing import Any

#: No settings of an agent come near this. Reading YAML is slow: a megabyte of it takes half a minute.
LONGEST, MOST_NODES, MOST_BRACKETS, DEEPEST = 128 << 10, 10_000, 8_000, 64
_BRACKETS = re.compile(r"[\[\]{}]")


def compose(text: str) -> Any:
    """The root node of a document, or None where it is empty.

    Raises ValueError if it is not YAML, or more of it than anybody's settings are.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.error import YAMLError

    if len(text) > LONGEST:
        raise ValueError(f"not read: {len(text):,} characters are more than settings have")
    _refuse_deep(text)
    left = MOST_NODES

    class Counting(Composer):
        def compose_node(self, parent: Any, index: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise ValueError(f"not read: more than {MOST_NODES:,} values")
            return super().compose_node(parent, index)

    reader = YAML(typ="safe", pure=True)
    reader.Composer = Counting
    try:
        return reader.compose(text)
    except (YAMLError, RecursionError) as error:
        raise ValueError(f"not YAML: {error}") from error


def _refuse_deep(text: str) -> None:
    """Lists inside each other cost the square of their number, each of them for every character."""
    depth = 0
    for brackets, found in enumerate(_BRACKETS.finditer(text), 1):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST or brackets > MOST_BRACKETS:
            raise ValueError(
                f"not read: more than {DEEPEST} lists inside each other, or {MOST_BRACKETS:,} in all"
            )


def members(node: Any) -> dict[str, Any] | None:
    """The keys and value nodes of a mapping; None for anything else."""
    from ruamel.yaml.nodes import MappingNode

    if not isinstance(node, MappingNode):
        return None
    return {str(key.value): value for key, value in node.value}


def text_at(node: Any, dotted: str) -> str | None:
    """The text of the single value at `a.b.c`, or None where there is no such value."""
    from ruamel.yaml.nodes import ScalarNode

    for key in dotted.split("."):
        node = (members(node) or {}).get(key)
    return str(node.value) if isinstance(node, ScalarNode) else None


def leaves(root: Any) -> int:
    """How many single values a document holds."""
    from ruamel.yaml.nodes import ScalarNode

    found, seen, waiting = 0, set[int](), [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        inner = members(node)
        if isinstance(node, ScalarNode):
            found += 1
        else:
            waiting.extend(node.value if inner is None else inner.values())
    return found
