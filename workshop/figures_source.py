"""Figures of the source as it stands: how much there is, how it is spread, what is there twice.

Standard library only, and nothing of the measured code is imported: it may be another checkout's.
"""

from __future__ import annotations

import ast
import io
import os
import statistics
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator

#: The floor of each room. What is in none (the top of the package) counts as a face.
FLOORS = {
    **dict.fromkeys(("actions",), "actions"),
    **dict.fromkeys(("home", "vault", "archive", "checkpoints", "schedule", "keeper"), "rooms"),
    **dict.fromkeys(("core",), "core"),
}
_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def source_figures(package: str) -> dict[str, object]:
    """Everything about the package in this directory that reading it can tell."""
    code = imports = modules = 0
    folders: Counter[str] = Counter()
    classes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path, text in _modules(package):
        tree = ast.parse(text, path)
        lines = _code_lines(text, tree)
        modules += 1
        code += len(lines)
        imports += len(lines & _import_lines(tree))
        folders[os.path.dirname(path) or "."] += 1
        floor = FLOORS.get(path.split(os.sep)[0], "faces")
        classes[floor].update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    sizes = sorted(folders.values())
    twice = {
        floor: sorted(name for name, count in names.items() if count > 1) for floor, names in classes.items()
    }
    return {
        "modules": modules,
        "code_lines": code,
        "import_lines": imports,
        "import_share": round(imports / code, 4),
        "folders": len(sizes),
        "files_per_folder_median": statistics.median(sizes),
        "files_per_folder_p90": sizes[min(len(sizes) - 1, int(len(sizes) * 0.9))],
        "files_per_folder_largest": sizes[-1],
        "largest_folders": dict(folders.most_common(5)),
        "class_names_twice": sum(len(names) for names in twice.values()),
        "class_names_twice_by_floor": {floor: names for floor, names in sorted(twice.items()) if names},
    }


def _modules(package: str) -> Iterator[tuple[str, str]]:
    for directory, _, files in sorted(os.walk(package)):
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as file:
                    yield os.path.relpath(path, package), file.read()


def _code_lines(text: str, tree: ast.Module) -> set[int]:
    """The numbers of the lines that say something: no blank one, no comment, no docstring."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            said = node.body[0]
            found.difference_update(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    return found


def _import_lines(tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found
