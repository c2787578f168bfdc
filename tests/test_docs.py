"""What is documented exists, what exists is documented, and every printed command parses."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from safekept.cli.main import cli
from safekept.core.errors import ERROR_CODES
from safekept.settings import SETTINGS
from support.places import CHECKOUT
from support.source import syntax

SOURCE = os.path.join(CHECKOUT, "src", "safekept")
EVERYWHERE = {"-h", "--help", "-V", "--version"}


@functools.cache
def read(*parts: str) -> str:
    with open(os.path.join(CHECKOUT, *parts), encoding="utf-8") as file:
        return file.read()


def sections(text: str) -> dict[str, str]:
    """`## name` -> what stands below it; names without backticks."""
    found = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {name.strip().strip("`"): body for name, body in zip(found[::2], found[1::2], strict=True)}


def commands(group: click.Group = cli, above: str = "") -> dict[str, click.Command]:
    """`backup`, `snapshot`, `snapshot list`, …: every command and every group there is."""
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        found[above + name] = command
        if isinstance(command, click.Group):
            found |= commands(command, f"{above}{name} ")
    return found


def markdown_files() -> Iterator[str]:
    for name in sorted(os.listdir(CHECKOUT)):
        if name.endswith(".md"):
            yield name
    for top in ("docs", "benchmarks", "changes"):
        for directory, _, names in sorted(os.walk(os.path.join(CHECKOUT, top))):
            for name in sorted(names):
                if name.endswith(".md"):
                    yield os.path.relpath(os.path.join(directory, name), CHECKOUT)


def every_module() -> dict[str, str]:
    """`safekept.core.errors` -> its path, for every module there is."""
    found = {}
    for directory, _, names in os.walk(SOURCE):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                parts = os.path.relpath(path, os.path.dirname(SOURCE)).removesuffix(".py").split(os.sep)
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: str) -> Iterator[str]:
    """Every name that a module imports, also inside functions, in full."""
    package = name.split(".") if path.endswith("__init__.py") else name.split(".")[:-1]
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@functools.cache
def reachable_modules() -> dict[str, str]:
    """The modules that a command can reach. A room that no face opens yet promises nothing yet."""
    known = every_module()
    waiting = [name for name in known if name.startswith(("safekept.cli", "safekept.settings"))]
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found[name] = known[name]
            waiting += imports_of(name, known[name])
            waiting.append(name.rpartition(".")[0])
    # A module that is run as a process of its own is reached by its name in a text.
    for name, path in known.items():
        if name not in found and any(name in text for text in map(read, list(found.values()))):
            found[name] = path
    return found


# ── the reference ──────────────────────────────────────────────────────────────────────────────────


def test_every_command_and_option_is_documented():
    documented = sections(read("docs", "reference", "commands.md"))
    missing = []
    for name, command in commands().items():
        body = documented.get(f"safekept {name}", "")
        if not body:
            missing.append(f"safekept {name}")
        for parameter in command.params:
            names = [*parameter.opts, *parameter.secondary_opts]
            if isinstance(parameter, click.Argument):
                continue
            missing += [f"safekept {name} {option}" for option in names if f"`{option}" not in body]
    assert missing == []


def test_no_command_or_option_is_documented_that_does_not_exist():
    known = commands()
    invented = []
    for title, body in sections(read("docs", "reference", "commands.md")).items():
        if not title.startswith("safekept "):
            continue
        name = title.removeprefix("safekept ")
        if name not in known:
            invented.append(title)
            continue
        parameters = known[name].params
        options = {option for one in parameters for option in (*one.opts, *one.secondary_opts)} | EVERYWHERE
        rows = re.findall(r"^\| (`-[^|]*) \|", body, flags=re.MULTILINE)
        written = {word for row in rows for word in re.findall(r"(?<![\w-])--?[a-z][\w-]*", row)}
        invented += [f"{title} {option}" for option in sorted(written - options)]
    assert invented == []


def test_every_setting_is_documented_with_its_variable_and_default():
    body = read("docs", "reference", "settings.md")
    rows = {
        cells[1].strip().strip("`"): cells
        for cells in (line.split("|") for line in body.splitlines() if line.startswith("| `"))
    }
    missing = [setting.name for setting in SETTINGS if setting.name not in rows]
    assert missing == []
    for setting in SETTINGS:
        cells = rows[setting.name]
        assert f"`{setting.variable}`" in cells[2], setting.name
        wanted = {"": "empty", "[]": "empty", "True": "true", "False": "false"}.get(
            str(setting.default), str(setting.default)
        )
        assert wanted.removesuffix(".0") in cells[3], (setting.name, cells[3])


def test_every_error_code_is_documented_with_its_exit_code():
    documented = sections(read("docs", "reference", "errors.md"))
    reachable = reachable_modules()
    for module in reachable:
        importlib.import_module(module)
    ours = {code: kind for code, kind in ERROR_CODES.items() if kind.__module__ in reachable}
    assert len(ours) > 30, "the search for errors finds too little to be right"
    assert sorted(ours.keys() - documented.keys()) == [], "not documented"
    codes = {title for title in documented if re.fullmatch(r"[a-z]+(-[a-z]+)*", title)}
    assert sorted(codes - ours.keys() - {"usage"}) == [], "documented, but no such error"
    wrong = [code for code, kind in ours.items() if f"Exit code {kind.exit_code}" not in documented[code]]
    assert wrong == [], "the documented exit code is not the one in the code"


def test_every_key_of_a_layout_is_documented():
    body = re.sub(r"^```.*?^```", "", read("docs", "reference", "layouts.md"), flags=re.MULTILINE | re.DOTALL)
    asked = set()
    for node in ast.walk(ast.parse(read("src", "safekept", "home", "layout", "layout_file.py"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            key = node.args[0]
            reads = {"string", "strings", "patterns", "pattern", "flag", "table", "tables"}
            if node.func.attr in reads and isinstance(key, ast.Constant) and isinstance(key.value, str):
                asked.add(key.value)
    assert len(asked) > 20, "the search for keys finds too little to be right"
    documented = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`[^`]+`", body))))
    assert sorted(asked - documented) == []


# ── printed commands ───────────────────────────────────────────────────────────────────────────────


def commands_in_markdown(text: str) -> Iterator[str]:
    """Inline code, and lines of code blocks, that call safekept."""
    fence = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    for block in fence.findall(text):
        for line in block.splitlines()[1:-1]:
            call = re.match(r"^(?:\$ )?(?:\./)?safekept( .*)?$", line)
            if call and "[" not in line:
                yield "safekept" + (call.group(1) or "").split(" #")[0]
    for call in re.findall(r"`(?:\./)?(safekept [^`\n]+)`", fence.sub("", text)):
        yield call


def texts_in(tree: ast.Module) -> Iterator[str]:
    """Every string of a module, the values inside f-strings as a plain word."""
    first = tree.body[0] if tree.body else None
    # What a module says of itself at its top is for whoever reads the source; it is never printed.
    inside = {id(first.value)} if isinstance(first, ast.Expr) else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node) if part is not node}
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "VALUE"
                for part in node.values  # type: ignore[misc]
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def commands_in(tree: ast.Module) -> Iterator[str]:
    """Every command that a module names as a step to take, the values in it as a plain word."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "NextStep" and node.args):
            continue
        verb, words = node.args[0], node.args[1] if len(node.args) > 1 else ast.Tuple([])
        if isinstance(verb, ast.Constant) and isinstance(words, ast.Tuple):
            named = [str(one.value) if isinstance(one, ast.Constant) else "VALUE" for one in words.elts]
            yield " ".join(["safekept", verb.value, *map(shlex.quote, named)])


@functools.cache
def printed_commands() -> dict[str, str]:
    """Every command that the documentation or the program prints, and one place where it does."""
    found: dict[str, str] = {}
    for name in markdown_files():
        for call in commands_in_markdown(read(name)):
            found.setdefault(call, name)
    for path in sorted(reachable_modules().values()):
        tree = syntax(path)
        named = [call for text in texts_in(tree) for call in re.findall(r"`(safekept [^`\n]+)`", text)]
        for call in [*named, *commands_in(tree)]:
            found.setdefault(call, os.path.relpath(path, CHECKOUT))
    return found


def parse(call: str) -> None:
    """Parse a command line as click would, without running it."""
    words = shlex.split(call)[1:]
    words = [
        {"N": "3", "…": "word", "...": "word"}.get(word, word) for word in words if word not in EVERYWHERE
    ]
    if not words or words[0] == "VALUE":
        return
    group: click.Group = cli
    with click.Context(cli, info_name="safekept") as parent:
        while True:
            default = getattr(group, "default", "")
            takes_words = getattr(group, "words_for_default", False)
            unknown = takes_words and words and words[0] not in group.table
            if default and (not words or words[0].startswith("-") or unknown):
                words = [default, *words]
            if not words:
                return  # a group by itself shows its help
            command = group.get_command(click.Context(group), words[0])
            if command is None:
                raise click.UsageError(f"no command {words[0]}")
            if not isinstance(command, click.Group):
                command.make_context(words[0], words[1:], parent=parent).close()
                return
            group, words = command, words[1:]


def test_every_verb_of_several_words_is_read_again_as_one():
    from safekept.core.next_step import NextStep, named

    def verbs(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name in group.list_commands(click.Context(group)):
            command = group.get_command(click.Context(group), name)
            yield (*path, name)
            if isinstance(command, click.Group):
                yield from verbs(command, (*path, name))

    every = list(verbs(cli, ()))
    assert len(every) > 50
    assert [named([*words, "X"]) for words in every] == [NextStep(" ".join(words), ("X",)) for words in every]


def test_every_printed_command_parses():
    broken = []
    for call, place in printed_commands().items():
        try:
            parse(call)
        except click.MissingParameter as error:
            # A page may name a command by its two words; what the program prints must run.
            if not (place.endswith(".md") and len(call.split()) == 2):
                broken.append(f"{place}: `{call}`: {error.format_message()}")
        except click.UsageError as error:
            broken.append(f"{place}: `{call}`: {error.format_message()}")
    assert broken == []
    assert len(printed_commands()) > 10, "the search for printed commands finds too little to be right"


@pytest.mark.parametrize(
    "call",
    [
        "safekept nonsense",
        "safekept snapshot nonsense",
        "safekept vault key nonsense",
        "safekept backup --nope",
        "safekept import",
        "safekept backup --keep many",
    ],
)
def test_a_command_that_does_not_exist_is_caught(call):
    with pytest.raises(click.UsageError):
        parse(call)


def test_commands_are_found_in_prose_blocks_and_code():
    text = "Run `safekept undo`.\n```console\n$ ./safekept backup -o x  # note\nsafekept demo\n```\n"
    assert sorted(commands_in_markdown(text)) == ["safekept backup -o x ", "safekept demo", "safekept undo"]
    tree = ast.parse("x = f'See `safekept import {path} --dry-run`'\ny = 'a `safekept undo`'")
    assert sorted(texts_in(tree)) == ["See `safekept import VALUE --dry-run`", "a `safekept undo`"]
    tree = ast.parse("NextStep('vault check', ('--read-data', place), before='See:')\nNextStep('undo')")
    assert sorted(commands_in(tree)) == ["safekept undo", "safekept vault check --read-data VALUE"]


def test_no_message_names_a_page_that_an_installed_safekept_lacks():
    """A wheel has no `docs/`: what a person is sent to is a command, its help, or a file that comes along."""
    named = []
    for path in sorted(reachable_modules().values()):
        for call in (node for node in ast.walk(syntax(path)) if isinstance(node, ast.Call)):
            words = (one for one in ast.walk(call) if isinstance(one, ast.Constant))
            named += [(path, one.value) for one in words if re.search(r"(?<![/\w.])docs/", str(one.value))]
    assert named == []


# ── the pages themselves ───────────────────────────────────────────────────────────────────────────


def anchors(text: str) -> set[str]:
    """How a heading is linked to."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


#: `pip install safekept`, `pipx install 'safekept[mcp]'`: from an index, where the name may be anybody's.
FROM_AN_INDEX = re.compile(r"(?:pipx?|uv tool|uv pip) install (?:-\S+ )*['\"]?safekept\b(?!/)")


def test_nobody_is_told_to_install_a_package_that_may_be_somebody_elses():
    assert FROM_AN_INDEX.search("`pip install 'safekept[mcp]'`") and FROM_AN_INDEX.search(
        "pipx install safekept"
    )
    pages = [path for path in markdown_files() if not path.startswith(("changes", "CHANGELOG"))]
    sources = [
        os.path.relpath(os.path.join(directory, name), CHECKOUT)
        for directory, _, names in os.walk(SOURCE)
        for name in names
        if name.endswith(".py")
    ]
    assert [path for path in (*pages, *sources) if FROM_AN_INDEX.search(read(path))] == []


def test_every_link_between_pages_leads_somewhere():
    broken = []
    for name in markdown_files():
        for target in re.findall(r"\]\(([^)\s]+)\)", read(name)):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            full = (
                os.path.normpath(os.path.join(CHECKOUT, os.path.dirname(name), path))
                if path
                else os.path.join(CHECKOUT, name)
            )
            if not os.path.exists(full) or (anchor and anchor not in anchors(read(full))):
                broken.append(f"{name}: {target}")
    assert broken == []


def test_no_page_is_an_orphan():
    """Every page below docs/ is linked from another page."""
    linked = set()
    for name in markdown_files():
        for target in re.findall(r"\]\(([^)\s#]+)", read(name)):
            linked.add(os.path.normpath(os.path.join(os.path.dirname(name), target)))
    assert [name for name in markdown_files() if name.startswith("docs/") and name not in linked] == []


def files_of_ours() -> list[str]:
    """Every file of the checkout that a page or a comment could name, with a slash before it."""
    found = []
    for top in ("src/safekept", "tests", "workshop", "benchmarks"):
        for directory, _, names in os.walk(os.path.join(CHECKOUT, top)):
            found += [os.path.join(directory, name)[len(CHECKOUT) :] for name in names]
    return found


def test_every_file_that_the_map_names_is_there():
    """A newcomer goes by it; `NAME` stands for what they add."""
    text = read("docs", "design", "map.md")
    named = {one for one in re.findall(r"`([\w/.]+(?:\.py|/))`", text) if "NAME" not in one}
    assert len(named) > 30
    known = files_of_ours()
    missing = [
        one
        for one in named
        if not any(path.endswith(f"/{one}") for path in known)
        and not any(f"/{one}" in path for path in known if one.endswith("/"))
    ]
    assert missing == []


#: Files of examples, and one of Hermes's own.
NOT_OURS = {
    "not_there_yet.py",
    "a/parser.py",
    "b/parser.py",
    "new.py",
    "a.py",
    "plots.py",
    "agent/shell_hooks.py",
}


def test_every_module_that_a_comment_names_is_there():
    known, missing = files_of_ours(), []
    for path in known:
        if path.startswith("/src/safekept/") and path.endswith(".py"):
            words = re.findall(r"(?<![\w/.*<])([a-z_]+(?:/[a-z_]+)*\.py)\b", read(path[1:]))
            ours = [one for one in words if one not in NOT_OURS]
            missing += [f"{path}: {one}" for one in ours if not any(k.endswith(f"/{one}") for k in known)]
    assert missing == []


def test_the_picture_of_the_demo_has_every_sentence_that_the_demo_says():
    """It is drawn by `workshop/picture.py`, from a run of the demo."""
    import html

    with open(os.path.join(CHECKOUT, "docs", "demo.svg"), encoding="utf-8") as file:
        texts = re.findall(r"<text[^>]*>(.*?)</text>", file.read(), re.DOTALL)
    picture = " ".join(html.unescape(" ".join(texts)).split())
    with open(os.path.join(CHECKOUT, "src", "safekept", "cli", "commands", "demo", "demo.py")) as file:
        tree = ast.parse(file.read())
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", "") or getattr(node.func, "attr", "")) in ("say", "_say")
    ]
    found = (part.value for call in calls for part in ast.walk(call) if isinstance(part, ast.Constant))
    sentences = {" ".join(str(one).split()) for one in found if len(str(one)) > 20}
    assert len(sentences) > 8
    assert [one for one in sorted(sentences) if one not in picture] == []
