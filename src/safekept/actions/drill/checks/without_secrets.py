"""Settings without their credentials: what may be handed to a program that is only to read them."""

from __future__ import annotations

import re
from typing import Any

from safekept.core.agents import compose

_SECRET_KEY = re.compile(r"key|token|secret|passw|credential|bearer|cookie|auth", re.IGNORECASE)


def blanked(text: str) -> str:
    """A YAML text with the values of everything that may be a credential taken out.

    Only the values go, in place: the rest stays as it was written, character for character.
    """
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    try:
        root = compose(text)
    except ValueError:
        return re.sub(r"(?im)^(\s*[\w-]*(?:key|token|secret|passw)[\w-]*\s*:).*$", r"\1 ''", text)
    spans: list[tuple[int, int]] = []
    seen: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        node, secret = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, MappingNode):
            for key, value in node.value:
                waiting.append((value, secret or bool(_SECRET_KEY.search(str(key.value)))))
        elif isinstance(node, SequenceNode):
            waiting += [(item, secret) for item in node.value]
        elif isinstance(node, ScalarNode) and secret and node.tag == "tag:yaml.org,2002:str":
            spans.append((node.start_mark.index, node.end_mark.index))
    for start, end in sorted(spans, reverse=True):
        # A block of text ends at the next line; what follows it must stay on a line of its own.
        tail = "\n" if text[start:end].endswith("\n") else ""
        text = text[:start] + "''" + tail + text[end:]
    return text
