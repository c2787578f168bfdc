"""Writes `docs/reference/python.md` from the signatures and docstrings of `import safekept`.

    .venv/bin/python workshop/python_reference.py

`tests/unit/api/test_reference.py` fails where the page is not what this would write, and runs its examples.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import textwrap

import safekept

PAGE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "reference", "python.md"
)
HEAD = """# Python

Written by `workshop/python_reference.py` from the code; do not edit it by hand. Every example on this page
runs as a test, in a throwaway home (`home`) and project (`project`).

```python
import safekept
```

Each function does what its command does: it reads the same [settings](settings.md) and environment, keeps
the same journal, and raises the same [errors](errors.md), all of them `safekept.SafekeptError` with `code`,
`what`, `kept` and `next_steps`. Options are given by name. A path may be a string or a `pathlib.Path`.
Nothing is printed, and nobody is asked: a vault that opens with a passphrase needs
`vault.passphrase_command`. Values that are returned do not change. The package is typed (`py.typed`).

A program may have databases of the home open while it calls: what reads or replaces them runs in a process
of its own, so no lock of the program is lost and no file is exchanged under its hands.
"""
FUNCTIONS = (
    ("Homes", ("snapshot", "snapshots", "history", "restore", "backup", "import_archive", "guard")),
    ("Projects", ("Checkpoints", "Turn")),
    ("Everything", ("status", "undo")),
    ("Errors", ("SafekeptError", "LossFound")),
)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    told = {name for _, names in FUNCTIONS for name in names} | {"__version__", "Status"}
    for title, names in FUNCTIONS:
        parts.append(f"# {title}\n")
        for name in names:
            thing = getattr(safekept, name)
            told_by = _class(name, thing) if inspect.isclass(thing) else _function(f"safekept.{name}", thing)
            parts.append(told_by)
    parts.append("# Values\n")
    parts += [_value(name) for name in safekept.__all__ if name not in told]
    return "\n".join(parts).rstrip() + "\n"


def _function(title: str, function: object, *, level: int = 2) -> str:
    signature = inspect.signature(inspect.unwrap(function))  # type: ignore[arg-type]
    lines = _signature(title, signature)
    return f"{'#' * level} {title}\n\n```python\n{lines}\n```\n\n{_text(function)}\n"


def _signature(title: str, signature: inspect.Signature) -> str:
    """As the code has it, one option to a line where it is long."""
    words: list[str] = []
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default = "" if one.default is one.empty else f" = {one.default!r}"
        words.append(f"{one.name}: {_type(one.annotation)}{default}")
    returns = signature.return_annotation
    back = "" if returns in (inspect.Signature.empty, "None") else f" -> {_type(returns)}"
    text = f"{title}({', '.join(words)}){back}"
    if len(text) <= 100:
        return text
    return f"{title}(\n" + "".join(f"    {word},\n" for word in words) + f"){back}"


def _type(annotation: object) -> str:
    text = str(annotation).replace("PathLike", "str | os.PathLike")
    return re.sub(r"^Iterator\[(\w+)\]$", r"ContextManager[\1]", text)


def _class(name: str, kind: type) -> str:
    if issubclass(kind, BaseException):
        return f"## safekept.{name}\n\n{_text(kind)}\n"
    parts = [f"## safekept.{name}\n"]
    if "__init__" in vars(kind) and name != "Turn":  # a turn is given by `Checkpoints.turn`
        signature = inspect.signature(kind.__init__).replace(return_annotation=inspect.Signature.empty)
        parts.append(f"```python\n{_signature(f'safekept.{name}', signature)}\n```\n")
    parts.append(_text(kind) + "\n")
    for member, function in vars(kind).items():
        if not member.startswith("_") and callable(function):
            parts.append(_function(f"{name}.{member}", function, level=3))
    return "\n".join(parts)


def _value(name: str) -> str:
    kind = getattr(safekept, name)
    rows = [f"## safekept.{name}\n", _text(kind), "", "| field | type | |", "|---|---|---|"]
    notes = _comments(kind)
    for field in dataclasses.fields(kind):
        shown = str(field.type).replace("|", "\\|")
        rows.append(f"| `{field.name}` | `{shown}` | {notes.get(field.name, '')} |")
    for member, found in vars(kind).items():
        if isinstance(found, property):
            returns = inspect.signature(found.fget).return_annotation  # type: ignore[arg-type]
            rows.append(f"| `{member}` | `{returns}` | {inspect.getdoc(found)} |")
    return "\n".join(rows) + "\n"


def _comments(kind: type) -> dict[str, str]:
    """What stands behind a field in the code."""
    found = re.findall(r"^    (\w+): [^#\n]*?  # (.+)$", inspect.getsource(kind), flags=re.MULTILINE)
    return {name: note.replace("|", "\\|") for name, note in found}


def _text(thing: object) -> str:
    """A docstring with its examples as code blocks."""
    parts: list[str] = []
    for block in re.split(r"\n\n", inspect.getdoc(thing) or ""):
        if block.startswith(">>> "):
            parts.append(f"```python\n{block}\n```")
        else:
            parts.append("\n".join(textwrap.wrap(" ".join(block.split()), 120, break_on_hyphens=False)))
    return "\n\n".join(parts)


if __name__ == "__main__":
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page())
