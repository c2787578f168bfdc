"""What others publish of this repository: the MCP registry, Hermes's catalog, an image. Each is held against
the rules of the place that takes it, as far as that can be done here; none of these places can be asked."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib

import click
import jsonschema
import pytest
from ruamel.yaml import YAML

from safekept import __version__
from safekept.cli.main import cli
from support.places import CHECKOUT

TARGET = os.path.join(CHECKOUT, "extensions", "hermes")
_TEXT = {"type": "string", "minLength": 1}
_ARGUMENT = {
    "type": "object",
    "properties": {
        "type": {"enum": ["positional", "named"]},
        "name": _TEXT,
        "value": {"type": "string"},
        "valueHint": _TEXT,
        "description": _TEXT,
    },
    "required": ["type"],
    "additionalProperties": False,
    "if": {"properties": {"type": {"const": "named"}}},
    "then": {"required": ["name"]},
    "else": {"anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}]},
}
#: What the registry asks of the parts that we use (server.json, 2025-12-11, and its rules for PyPI).
SERVER = {
    "type": "object",
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
        "title": {**_TEXT, "maxLength": 100},
        "description": {**_TEXT, "maxLength": 100},
        "version": {**_TEXT, "maxLength": 255, "pattern": r"^\d+\.\d+\.\d+$"},
        "packages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "registryType": {"const": "pypi"},
                    "identifier": _TEXT,
                    "version": {**_TEXT, "not": {"const": "latest"}},
                    "runtimeHint": {"const": "uvx"},
                    "runtimeArguments": {"type": "array", "items": _ARGUMENT},
                    "packageArguments": {"type": "array", "items": _ARGUMENT},
                    "transport": {
                        "type": "object",
                        "properties": {"type": {"const": "stdio"}},
                        "required": ["type"],
                        "additionalProperties": False,
                    },
                },
                "required": ["registryType", "identifier", "version", "transport"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["$schema", "name", "description", "version", "packages"],
    "additionalProperties": False,
}
#: A directory of a plugin is registered in a bare Python with nothing of Hermes, as its validator does it.
_PROBE = """
import importlib.util, json, sys
place, found = sys.argv[1], {"hooks": [], "tools": [], "middleware": [], "commands": []}
class Context:
    def register_hook(self, name, callback): found["hooks"].append(name)
    def register_tool(self, name, *words, **given): found["tools"].append(name)
    def register_middleware(self, kind, callback): found["middleware"].append(kind)
    def register_command(self, name, *words, **given): found["commands"].append(name)
    register_cli_command = register_command
file = place + "/__init__.py"
spec = importlib.util.spec_from_file_location("probe", file, submodule_search_locations=[place])
module = importlib.util.module_from_spec(spec)
sys.modules["probe"] = module
spec.loader.exec_module(module)
module.register(Context())
print(json.dumps({**found, "ours": [name for name in sys.modules if name.split(".")[0] == "safekept"]}))
"""


def text_of(*parts: str) -> str:
    with open(os.path.join(CHECKOUT, *parts), encoding="utf-8") as file:
        return file.read()


def yaml_of(*parts: str):
    return YAML(typ="safe", pure=True).load(text_of(*parts))


def sources() -> dict[str, str]:
    """What `workshop/hermes_extension.py` copies."""
    path = os.path.join(CHECKOUT, "workshop", "hermes_extension.py")
    specification = importlib.util.spec_from_file_location("workshop_hermes_extension", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.sources()


def project():
    return tomllib.loads(text_of("pyproject.toml"))["project"]


# ── the MCP registry ───────────────────────────────────────────────────────────────────────────────


def test_the_entry_for_the_mcp_registry_fits_its_schema_and_this_version():
    server = json.loads(text_of("server.json"))
    jsonschema.Draft202012Validator(SERVER).validate(server)
    assert server["version"] == __version__
    for package in server["packages"]:
        assert (package["identifier"], package["version"]) == (project()["name"], __version__)


def test_the_package_that_the_registry_names_owns_its_name():
    """It looks for this line in what PyPI shows, which is the README."""
    name = json.loads(text_of("server.json"))["name"]
    assert project()["readme"] == "README.md"
    assert re.findall(r"mcp-name: (\S+)", text_of("README.md")) == [name]


def test_what_the_registry_starts_is_the_server_with_all_it_needs():
    (package,) = json.loads(text_of("server.json"))["packages"]
    (given,) = package["packageArguments"]
    assert given["value"] == "mcp" and "mcp" in cli.list_commands(click.Context(cli))
    (beside,) = package["runtimeArguments"]
    assert (beside["name"], [beside["value"]]) == ("--with", project()["optional-dependencies"]["mcp"])


# ── Hermes's catalog ───────────────────────────────────────────────────────────────────────────────


def test_the_plugin_for_hermes_s_catalog_is_the_one_that_connect_installs():
    there = {name for name in os.listdir(TARGET) if name.endswith((".py", ".yaml"))}
    assert there == set(sources()), "run workshop/hermes_extension.py"
    for name, source in sources().items():
        with open(source, "rb") as ours, open(os.path.join(TARGET, name), "rb") as copied:
            assert ours.read() == copied.read(), f"{name}: run workshop/hermes_extension.py"


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    """What the plugin registers by itself, with no connection and no safekept beside it."""
    home = str(tmp_path_factory.mktemp("hermes"))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PROBE, TARGET],
        env={"HOME": home, "HERMES_HOME": home, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_plugin_for_hermes_s_catalog_registers_what_it_declares_and_nothing_else(registered):
    manifest = yaml_of("extensions", "hermes", "plugin.yaml")
    assert all(manifest.get(field) for field in ("name", "version", "description"))
    assert manifest["version"] == __version__
    assert sorted(manifest["provides_hooks"]) == sorted(registered["hooks"])
    assert registered["tools"] == registered["middleware"] == registered["ours"] == []
    assert set(registered["commands"]) >= {"rewind", "safekept"}


def test_the_entry_for_hermes_s_catalog_says_what_its_loader_and_its_rules_want(registered):
    entry = yaml_of("extensions", "hermes-catalog.yaml")
    assert re.fullmatch(r"[a-z0-9_-]{1,64}", entry["name"])
    assert entry["repo"].startswith("https://")
    assert isinstance(entry["sha"], str) and re.fullmatch(r"[0-9a-f]{40}", entry["sha"])
    assert entry["tier"] in ("official", "community") and entry["maintainer"] and entry["description"]
    assert re.fullmatch(r">=\d+\.\d+(\.\d+)?", entry["requires_hermes"])
    assert entry["version"] == __version__
    assert os.path.join(CHECKOUT, entry["subdir"]) == TARGET
    capabilities = entry["capabilities"]
    assert sorted(capabilities["provides_hooks"]) == sorted(registered["hooks"])
    assert capabilities["provides_tools"] == registered["tools"]
    assert capabilities["provides_middleware"] == registered["middleware"]
    assert capabilities["requires_env"] == []


def test_the_plugin_for_hermes_s_catalog_changes_nothing_of_hermes():
    """Its rules: nothing of Hermes is replaced or wrapped in place, and no module put where another was."""
    for name in sources():
        if not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text_of("extensions", "hermes", name))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("setattr", "eval", "exec", "delattr"), f"{name}:{node.lineno}"
            targets = node.targets if isinstance(node, ast.Assign) else []
            written = [ast.unparse(target) for target in targets]
            assert not [one for one in written if one.startswith("sys.modules[")], f"{name}:{node.lineno}"


# ── the image ──────────────────────────────────────────────────────────────────────────────────────


def steps() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, each in one line."""
    lines = [line for line in text_of("Containerfile").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(one.split(None, 1)[0], one.split(None, 1)[1]) for one in joined.splitlines() if one.strip()]


def test_the_containerfile_has_known_instructions_and_copies_what_is_there():
    known = {"FROM", "COPY", "RUN", "ENV", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in steps()} <= known
    assert steps()[0][0] == "FROM"
    stages = {rest.split()[-1] for word, rest in steps() if word == "FROM" and " AS " in rest}
    left_out = [line for line in text_of(".containerignore").splitlines() if line and line[0] != "#"]
    assert text_of(".dockerignore") == text_of(".containerignore")
    for rest in (rest for word, rest in steps() if word == "COPY"):
        words = rest.split()
        if words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in stages
            continue
        for name in words[:-1]:
            assert os.path.exists(os.path.join(CHECKOUT, name)), name
            assert name.rstrip("/") not in left_out, name
    assert not {"src", "man", "workshop", "pyproject.toml", "README.md", ".git"} & set(left_out)


def test_the_image_installs_every_pinned_requirement_and_starts_the_program():
    told = " && ".join(rest for word, rest in steps() if word == "RUN")
    commands = [shlex.split(one) for one in told.split(" && ")]
    installs = [words for words in commands if words[1:2] == ["install"] and words[0].endswith("/pip")]
    pinned = [words[words.index("-r") + 1] for words in installs if "-r" in words]
    assert [os.path.basename(one) for one in pinned] == ["requirements.lock", "requirements-mcp.lock"]
    assert all("--require-hashes" in words for words in installs if "-r" in words)
    (own,) = [words for words in installs if "-r" not in words]
    assert "--no-deps" in own and own[-1] == "/source"
    told = dict(steps())
    (program,), (word,) = json.loads(told["ENTRYPOINT"]), json.loads(told["CMD"])
    assert program in project()["scripts"] and word in cli.list_commands(click.Context(cli))
    version = re.findall(r"python:(\d+)\.(\d+)-slim", text_of("Containerfile"))
    assert set(version) == {tuple(map(str, sys.version_info[:2]))}, "the Python that the tests run with"


@pytest.mark.parametrize("place", ["Containerfile", "docs/guides/containers.md"])
def test_every_safekept_command_in_a_container_is_one(place):
    """What stands behind the name of the image in `docker run`."""
    printed = re.findall(r"docker run [^\n`]*? safekept ([a-z][\w -]*)", text_of(place))
    assert printed
    for words in map(str.split, printed):
        group: click.Command = cli
        for word in words:
            if isinstance(group, click.Group):
                found = group.get_command(click.Context(group), word)
                assert found is not None, words
                group = found
