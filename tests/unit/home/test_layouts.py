"""Layouts: what is shipped says what it should, and a user's own file is read strictly."""

from __future__ import annotations

import os

import pytest

from safekept.core import agents
from safekept.home.layout import layout as layout_module
from safekept.home.layout.layout import load_layouts
from safekept.home.layout.layout_file import BadLayout
from safekept.home.layout.patterns import BadPattern
from safekept.settings.context import home_places_on_demand, layouts_on_demand

HERMES = load_layouts()["hermes"]

MINIMAL = 'name = "mine"\n'


def write(directory: object, text: str, name: str = "mine.toml") -> str:
    with open(os.path.join(str(directory), name), "w", encoding="utf-8") as file:
        file.write(text)
    return str(directory)


def test_the_layouts_are_shipped() -> None:
    agents = "hermes claude-code codex gemini openclaw opencode qwen goose copilot cline cursor".split()
    assert set(load_layouts()) == {*agents, "generic"}
    assert all(layout.name == name for name, layout in load_layouts().items())


def test_one_layout_is_read_without_the_others_and_a_name_leads_nowhere_else(monkeypatch) -> None:
    read: list[str] = []
    real = layout_module.read_layout
    monkeypatch.setattr(
        layout_module, "read_layout", lambda path: (read.append(os.path.basename(path)), real(path))[1]
    )
    layout_module.shipped_layout.cache_clear()
    known = layouts_on_demand(())
    assert known["codex"].name == "codex" and "gemini.toml" not in read
    for name in ("common", "nobody", "../layouts/codex", ""):
        assert known.get(name) is None, name
    assert known["codex"] is dict(known)["codex"], "the same as among all"


def test_where_a_home_is_is_read_of_one_layout_or_of_all_and_is_what_the_layout_says(monkeypatch) -> None:
    read: list[str] = []
    real = agents.read_regular
    monkeypatch.setattr(
        agents, "read_regular", lambda path: (read.append(os.path.basename(path)), real(path))[1]
    )
    agents.shipped_place.cache_clear()
    places = home_places_on_demand(())
    assert places and places["hermes"].name == "hermes" and read == ["hermes.toml"]
    for name in ("common", "nothing", "../layouts/codex", ""):
        assert places.get(name) is None, name
    assert set(places) == set(load_layouts())
    keys = ("name", "variable", "variable_suffix", "default", "profiles", "strong", "weak")
    for layout in load_layouts().values():
        for place in (places[layout.name], agents.shipped_place(layout.name)):
            assert [getattr(place, key) for key in keys] == [getattr(layout, key) for key in keys]


def test_a_users_layout_may_have_a_value_that_looks_like_a_table(tmp_path) -> None:
    text = 'name = "mine"\ndefault = ".mine"\n[markers]\nweak = [\n"a",\n"[profiles]",\n"""\n[b"""]\n'
    place = home_places_on_demand((write(tmp_path, text),))["mine"]
    assert (place.default, place.weak) == (".mine", ("a", "[profiles]", "[b"))


def test_a_layout_of_the_users_own_replaces_one_that_is_shipped(tmp_path) -> None:
    mine = write(tmp_path, 'name = "codex"\ntitle = "Mine"\n')
    assert layouts_on_demand((mine,))["codex"].title == "Mine"


def test_every_rule_has_a_reason_and_no_rule_is_a_bare_name() -> None:
    for layout in load_layouts().values():
        for rule in layout.rules:
            assert rule.reason
            assert not rule.reason.endswith(".")
            assert rule.text.startswith("/") or rule.text in ("**/__pycache__/", "**/.safekept-tmp-*")
        for proven in layout.proven:
            assert proven.reason


@pytest.mark.parametrize("name", ["hermes-agent", "backups", "checkpoints", "state-snapshots", "migration"])
def test_root_rules_hold_at_the_root_and_nowhere_inside_skills(name: str) -> None:
    assert HERMES.excluded(name, directory=True)
    assert HERMES.excluded(f"{name}/a/b")
    # V-01, V-02, #35376(2): these names inside a skill are somebody's work.
    assert HERMES.excluded(f"skills/foo/{name}", directory=True) is None
    assert HERMES.excluded(f"skills/autonomous-ai-agents/{name}/SKILL.md") is None


@pytest.mark.parametrize("name", ["venv", ".venv", "site-packages", ".cache", ".tox", "node_modules", ".git"])
def test_a_name_alone_never_leaves_anything_out(name: str) -> None:
    assert HERMES.excluded(f"skills/foo/{name}", directory=True) is None
    assert HERMES.excluded(f"plugins/foo/{name}/x") is None


def test_dependency_trees_are_known_by_proof() -> None:
    assert HERMES.excluded("skills/foo/env", directory=True, contents={"pyvenv.cfg", "bin"})
    assert HERMES.excluded("tools/node_modules", directory=True, siblings={"package.json"})
    assert HERMES.excluded("tools/modules", directory=True, siblings={"package.json"}) is None


def test_rules_of_a_home_hold_again_in_each_profile() -> None:
    assert HERMES.excluded("profiles/coder/checkpoints/store")
    assert HERMES.secret("profiles/coder/.env")
    assert HERMES.machine_bound("profiles/coder/gateway_state.json")
    assert HERMES.quick("profiles/coder/memories/MEMORY.md")
    assert HERMES.excluded("profiles/coder/hermes-agent/x") is None  # the code clone is the root's only


@pytest.mark.parametrize(
    "name", ["gateway_state.json", "gateway.pid", "cron.pid", "gateway.lock", "processes.json"]
)
def test_what_hermes_never_overwrites_is_bound_to_the_machine(name: str) -> None:
    assert HERMES.machine_bound(name)
    assert not HERMES.machine_bound(f"skills/foo/{name}")


def test_secrets_land_private_and_so_does_the_chat() -> None:
    for path in (".env", "auth.json", "mcp-tokens/a.json", "_external/.honcho/config.json"):
        assert HERMES.secret(path)
        assert HERMES.private(path)
    assert HERMES.private("state.db")
    assert not HERMES.secret("state.db")  # `--no-secrets` keeps the conversations
    assert HERMES.private("_external/.honcho/deep/other.json")
    assert not HERMES.secret("skills/foo/.env.example")


def test_what_an_import_would_run_is_executable() -> None:
    for path in ("plugins/a/__init__.py", "hooks/a/handler.py", "skills/x/scripts/run", "cron/jobs.json"):
        assert HERMES.executable(path)
        assert HERMES.executable(f"profiles/coder/{path}")
    assert HERMES.executable("skills/x/tool", 0o755)
    assert not HERMES.executable("skills/x/tool", 0o644)
    assert not HERMES.executable("memories/MEMORY.md", 0o755)


def test_quick_is_hermes_own_set_with_persona_and_memories() -> None:
    own = (
        "state.db config.yaml .env auth.json cron/jobs.json cron/executions.db gateway_state.json "
        "channel_directory.json channel_aliases.json processes.json gateway/discord_message_recovery.db "
        "projects.db response_store.db memory_store.db verification_evidence.db kanban.db "
        "kanban/boards/a/kanban.db pairing/x.json platforms/pairing/x.json feishu_comment_pairing.json"
    ).split()
    for path in [*own, "SOUL.md", "memories/MEMORY.md", "memories/USER.md"]:
        assert HERMES.quick(path), path
    for path in (
        "skills/a/SKILL.md",
        "sessions/x.json",
        "cron/output/1.txt",
        "kanban/boards/a/workspaces/b/c",
    ):
        assert not HERMES.quick(path), path


def test_everything_of_worth_has_its_class() -> None:
    expected = {
        "SOUL.md": "identity",
        "memories/USER.md": "memory",
        "skills/a/SKILL.md": "skills",
        "state.db": "history",
        ".env": "secrets",
        "config.yaml": "settings",
        "whatever.txt": "other",
        "profiles/coder/SOUL.md": "identity",
    }
    assert {path: HERMES.worth(path) for path in expected} == expected


def test_profiles_have_hermes_names() -> None:
    assert HERMES.valid_profile("coder")
    for name in ("hermes", "default", "gateway", "Coder", "-x", "", "a/b", "x" * 65):
        assert not HERMES.valid_profile(name)
    assert HERMES.profile_of("profiles/coder/x") == "profiles/coder"
    assert HERMES.profile_of("profiles") == HERMES.profile_of("skills/a") == "default"


def test_outside_places_are_only_the_declared_ones() -> None:
    assert HERMES.external_targets("/home/u") == {
        "_external/.honcho": "/home/u/.honcho",
        "_external/.hindsight": "/home/u/.hindsight",
        "_external/.openviking/ovcli.conf": "/home/u/.openviking/ovcli.conf",
    }


LEAN = """
[[lean]]
database = '/a.db'
table = 't'
source = 's'
key = 'id'
statement = 'CREATE VIRTUAL TABLE t USING fts5(x)'
columns = { x = 'y' }
"""


def test_what_can_be_made_anew_is_known_in_the_home_and_in_each_profile() -> None:
    hermes = load_layouts()["hermes"]
    for path in ("state.db", "profiles/coder/state.db"):
        assert [recipe.table for recipe in hermes.recipes(path)] == ["messages_fts", "messages_fts_trigram"]
    for path in ("kanban.db", "data/state.db", "state.db.bak"):
        assert hermes.recipes(path) == ()


def test_a_users_layout_is_added_and_one_of_the_same_name_replaces(tmp_path: object) -> None:
    rule = '[[exclude]]\npatterns = ["/junk/"]\nreason = "r"\n'
    mine = load_layouts([write(tmp_path, MINIMAL + 'secrets = ["/key"]\n' + rule)])["mine"]
    assert mine.secret("key")
    assert mine.excluded("junk/x")
    assert mine.excluded(".safekept/x")  # the rules of every layout are added
    assert mine.archive_prefix == "mine-backup"
    replaced = load_layouts([write(tmp_path, 'name = "codex"\ntitle = "Mine"\n', "codex.toml")])
    assert replaced["codex"].title == "Mine"
    assert load_layouts()["codex"].title == "Codex"
    assert load_layouts(["/nonexistent"]).keys() == load_layouts().keys()


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        ('name = "mine"\nsecretz = []', "secretz", "is not a key of a layout"),
        ("title = 'x'", "name", "is missing"),
        ('name = "Not Good"', "name", "lower-case"),
        (MINIMAL + "secrets = 'x'", "secrets", "must be a list"),
        (MINIMAL + "secrets = [1]", "secrets", "list of strings"),
        (MINIMAL + "secrets = ['key']", "secrets", "must start with `/`"),
        (MINIMAL + "default = '/abs'", "default", "relative to the user's home"),
        (MINIMAL + "[[exclude]]\npatterns = ['/a']", "exclude[0].reason", "is missing"),
        (MINIMAL + "[[exclude]]\nreason = 'r'", "exclude[0].patterns", "is missing"),
        (MINIMAL + "[[exclude]]\nreason='r'\npatterns=['/a']\nwhy='x'", "exclude[0].why", "is not a key"),
        (
            MINIMAL + "[[exclude]]\nreason='r'\npatterns=['/a']\nalways=1",
            "exclude[0].always",
            "must be a bool",
        ),
        (MINIMAL + "[[proven]]\nreason='r'", "proven[0].contains", "must be given"),
        (MINIMAL + "[[proven]]\nreason='r'\ncontains='a/b'", "proven[0].contains", "single name"),
        (MINIMAL + "[census.x]\npaths=['/a']\ncount='magic'", "census.x.count", "must be one of"),
        (MINIMAL + "[census.x]\npaths=['/a']\ncount='query'", "census.x.query", "goes with"),
        (
            MINIMAL + "[[external]]\nfile='c'\nkey='k'\nequals='v'\npath='../x'",
            "external[0].path",
            "plain path",
        ),
        (MINIMAL + "markers = []", "markers", "must be a dict"),
        (MINIMAL + "[profiles]\ndirectory = 'a/b'", "profiles.directory", "single name"),
        (MINIMAL + "[profiles]\nname = '['", "profiles.name", "not a regular expression"),
        (MINIMAL + LEAN.replace("/a.db", "a.db"), "lean[0].database", "must start with `/`"),
        (MINIMAL + LEAN.replace("key = 'id'", ""), "lean[0].key", "is missing"),
        (MINIMAL + LEAN.replace("x = 'y'", ""), "lean[0].columns", "is missing"),
        (MINIMAL + LEAN.replace("x = 'y'", "x = 1"), "lean[0].columns.x", "must be a str"),
        (MINIMAL + LEAN.replace("VIRTUAL ", ""), "lean[0].statement", "makes a full-text table"),
        (MINIMAL + LEAN + "more = 1", "lean[0].more", "is not a key of a layout"),
    ],
)
def test_a_wrong_layout_is_refused_naming_file_and_key(
    tmp_path: object, text: str, key: str, why: str
) -> None:
    directory = write(tmp_path, text)
    with pytest.raises(BadLayout) as caught:
        load_layouts([directory])
    assert f"`{directory}/mine.toml`" in caught.value.what
    assert f"`{key}`" in caught.value.what
    assert why in caught.value.what
    assert caught.value.facts["key"] == key
    assert "Nothing changed" in caught.value.kept


def test_a_bad_pattern_in_a_layout_names_file_and_key(tmp_path: object) -> None:
    directory = write(tmp_path, MINIMAL + "secrets = ['/a/../b']")
    with pytest.raises(BadPattern, match=r"mine\.toml`, key `secrets`"):
        load_layouts([directory])


def test_what_is_not_toml_is_said_so(tmp_path: object) -> None:
    with pytest.raises(BadLayout, match="is not TOML"):
        load_layouts([write(tmp_path, "name = [")])
