"""How safekept speaks: the rules that a reader of the source can hold every sentence against."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator

import pytest

from support.places import CHECKOUT

SOURCE = os.path.join(CHECKOUT, "src", "safekept")
#: Names of programs, commands and kinds that a sentence may begin with, spelled as they are.
NAMES = {"git", "gpg", "hermes", "restic", "safekept", "setup"}


@functools.cache
def modules() -> dict[str, str]:
    found = {}
    for directory, _, names in sorted(os.walk(SOURCE)):
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as file:
                    found[os.path.relpath(path, SOURCE)] = file.read()
    return found


Function = ast.FunctionDef | ast.AsyncFunctionDef


def openings(node: ast.expr, function: Function | None) -> Iterator[tuple[int, str]]:
    """How a text can begin, as far as the source says it; names are followed within their function."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    elif isinstance(node, ast.JoinedStr) and node.values:
        first = node.values[0]
        yield from openings(first.value if isinstance(first, ast.FormattedValue) else first, function)
    elif isinstance(node, ast.IfExp):
        yield from openings(node.body, function)
        yield from openings(node.orelse, function)
    elif isinstance(node, ast.BinOp):
        yield from openings(node.left, function)
    elif isinstance(node, ast.Name) and function is not None:
        for one in ast.walk(function):
            if isinstance(one, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == node.id for target in one.targets
            ):
                yield from openings(one.value, function)


def calls(tree: ast.AST, function: Function | None = None) -> Iterator[tuple[ast.Call, Function | None]]:
    """Every call, with the function that it stands in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call):
            yield node, function
        yield from calls(node, node if isinstance(node, Function) else function)


Calls = list[tuple[str, ast.Call, Function | None]]


def calls_in(texts: dict[str, str]) -> Calls:
    return [(path, *found) for path, text in texts.items() for found in calls(ast.parse(text))]


def sentences(texts: dict[str, str]) -> Iterator[tuple[str, int, str]]:
    """Where each error begins its sentence: in the call that makes it, or in that of its maker."""
    raising = {path: text for path, text in texts.items() if "kept=" in text}
    every, makers = calls_in(raising), dict[tuple[str, str], int]()
    for path, call, function in every:
        answers = {word.arg: word.value for word in call.keywords}
        if not {"kept", "next_steps"} <= answers.keys():
            continue
        for text in (answers["kept"], *call.args[:1]):
            names = [one.arg for one in function.args.args] if function is not None else []
            if isinstance(text, ast.Name) and function is not None and text.id in names:
                own = path if function.name.startswith("_") else ""
                makers[own, function.name] = names.index(text.id) - (names[0] in ("self", "cls"))
            yield from ((path, line, found) for line, found in openings(text, function))
    public = re.compile(rf"\b(?:{'|'.join(name for own, name in makers if not own) or '-'})\(")
    every += calls_in(
        {path: text for path, text in texts.items() if path not in raising and public.search(text)}
    )
    for path, call, function in every:
        name = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
        place = makers.get((path if name.startswith("_") else "", name))
        if place is not None and len(call.args) > place:
            yield from ((path, line, found) for line, found in openings(call.args[place], function))


def small(text: str) -> bool:
    """Whether a sentence begins with a small letter, and not with a name or a path."""
    word = re.match(r"[^\W\d_]+", text)
    return bool(word) and word[0][0].islower() and word[0] not in NAMES and text.split()[0] == word[0]


def test_an_error_begins_with_a_capital_letter_or_with_a_name():
    found = list(sentences(modules()))
    assert len(found) > 600, "the errors are not found any more"
    wrong = [f"{path}:{line}: {text[:60]}" for path, line, text in found if small(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "planted",
    [
        'raise Example("there is no vault", kept="Nothing changed.", next_steps=())',
        'raise Example(f"there is no {one}", kept="Nothing changed.", next_steps=())',
        'raise Example("There is none", kept="nothing was changed", next_steps=())',
        'what = "none" if one else "no"\n    raise Example(f"{what} is there", kept="Kept", next_steps=())',
        'def wrong(what):\n        return Example(what, kept="Kept", next_steps=())\n    raise wrong("no")',
    ],
)
def test_one_that_begins_with_a_small_letter_is_found(planted):
    found = sentences({"planted.py": f"def one():\n    {planted}\n"})
    assert any(small(text) for _, _, text in found)


def test_names_may_be_small():
    assert not any(map(small, ("`x` is gone", "git is missing", "3 files", "state.db is open", "")))


#: Who reads a screen wants to know which program, user or thing is meant; `anew` is no word of today.
VAGUE = re.compile(r"\b(nobody|somebody|whoever|anybody|anew)\b", re.IGNORECASE)
#: Names that stay: an option, a code, a constant, and a unit that is compared with what an earlier one wrote.
STAY = ("--anew", "nobody-to-notify", "# It reads a home of somebody else")


def shown(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What a person may read: every text that is no docstring, and the docstring of a command."""
    quiet = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quiet:
            yield node.lineno, node.value
        elif isinstance(node, Function) and "command(" in " ".join(map(ast.unparse, node.decorator_list)):
            yield node.lineno, ast.get_docstring(node) or ""


def vague(text: str) -> list[tuple[int, str]]:
    found = shown(ast.parse(text))
    return [(line, one) for line, one in found if VAGUE.search(one) and not any(name in one for name in STAY)]


def test_what_is_shown_says_who_or_what():
    assert {path: found for path, text in modules().items() if (found := vague(text))} == {}


#: The same in comments and docstrings, for who reads the code. `anew` is a name there.
UNNAMED = re.compile(r"\b(nobody|somebody|whoever|anybody)\b", re.IGNORECASE)


def unnamed(text: str) -> list[int]:
    lines = enumerate(text.split("\n"), 1)
    return [number for number, line in lines if UNNAMED.search(line) and not any(map(line.count, STAY))]


def test_comments_say_who_or_what():
    assert {path: found for path, text in modules().items() if (found := unnamed(text))} == {}
    assert unnamed("x = 1\n#: Seconds for whoever waits.\n") == [2]


def test_a_vague_word_is_found():
    assert vague('print(f"{path}: somebody removed it")') == [(1, ": somebody removed it")]
    assert vague('@click.command("x")\ndef one():\n    """Nobody waits."""') == [(2, "Nobody waits.")]
    assert vague('def one():\n    """Nobody waits."""') == []
