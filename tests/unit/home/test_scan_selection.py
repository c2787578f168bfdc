"""What a caller asks for: `--include`, `--exclude`, `--no-secrets`, `--quick`, one profile."""

from __future__ import annotations

import os

import pytest

from safekept.core.entries import Kind, Outcome
from safekept.home.layout.patterns import BadPattern
from safekept.home.scan.scanning import NoSuchProfile, NothingSelected, Selection
from support.home.scanned import look, paths, plant, remarks

HOME = {
    "config.yaml": "a: 1",
    ".env": "KEY=1",
    "auth.json": "{}",
    "SOUL.md": "soul",
    "mcp-tokens/one.json": "{}",
    "memories/MEMORY.md": "x",
    "skills/foo/SKILL.md": "x",
    "skills/foo/old/x": "x",
    "backups/a.zip": "zip",
    "backups/deep/b.zip": "zip",
    "hermes-agent/run.py": "x",
    "hermes-agent/venv/pyvenv.cfg": "x",
    "hermes-agent/venv/lib": "x",
    "profiles/coder/config.yaml": "a: 1",
    "profiles/coder/.env": "KEY=2",
    "profiles/coder/backups/c.zip": "zip",
    "profiles/writer/config.yaml": "a: 1",
}


@pytest.fixture
def home(tmp_path: object) -> str:
    return plant(tmp_path, HOME)


def files(home: str, selection: Selection) -> set[str]:
    return {entry.path for entry in look(home, selection) if entry.kind is Kind.FILE}


def test_include_brings_back_what_a_rule_left_out(home: str) -> None:
    assert not any(path.startswith("backups/") for path in files(home, Selection()))
    assert {"backups/a.zip", "backups/deep/b.zip"} <= files(home, Selection(include=("backups",)))
    assert "profiles/coder/backups/c.zip" not in files(home, Selection(include=("backups",)))
    assert "profiles/coder/backups/c.zip" in files(home, Selection(include=("/profiles/*/backups",)))


def test_include_reaches_one_thing_under_an_excluded_directory(home: str) -> None:
    source = look(home, Selection(include=("/backups/deep/b.zip",)))
    seen = paths(source)
    assert [path for path in seen if path.startswith("backups")] == [
        "backups",
        "backups/deep",
        "backups/deep/b.zip",
    ]
    left = remarks(source, Outcome.EXCLUDED)["backups"]
    assert (left.files, left.bytes) == (1, 3)  # the other one is still accounted for


def test_an_included_tree_comes_whole_even_where_it_could_be_rebuilt(home: str) -> None:
    assert {"hermes-agent/run.py", "hermes-agent/venv/lib"} <= files(
        home, Selection(include=("/hermes-agent/",))
    )
    only = files(home, Selection(include=("/hermes-agent/venv/lib",)))
    assert "hermes-agent/venv/lib" in only
    assert "hermes-agent/run.py" not in only


def test_an_include_at_any_depth_leaves_the_rest_out(home: str) -> None:
    found = files(home, Selection(include=("**/b.zip",)))
    assert "backups/deep/b.zip" in found
    assert "backups/a.zip" not in found


def test_exclude_is_the_callers_own_anchored_rule(home: str) -> None:
    source = look(home, Selection(exclude=("skills/foo/old", "SOUL.md")))
    seen = paths(source)
    assert "skills/foo/old" not in seen
    assert "SOUL.md" not in seen
    assert "skills/foo/SKILL.md" in seen
    reason = remarks(source, Outcome.EXCLUDED)["skills/foo/old"].reason
    assert reason == "left out by `--exclude skills/foo/old`"


def test_an_exclude_may_be_written_as_a_full_path(home: str) -> None:
    assert "SOUL.md" not in files(home, Selection(exclude=(f"{home}/SOUL.md",)))


def test_a_pattern_that_matched_nothing_is_said(home: str) -> None:
    source = look(home, Selection(exclude=("foo",), include=("/no/such",)))
    assert "skills/foo/SKILL.md" in paths(source)  # a bare name means at the root
    said = remarks(source, Outcome.NOTED)
    assert said["foo"].reason == "`--exclude foo` matched nothing; `foo` means at the root, `**/foo` anywhere"
    assert said["/no/such"].reason == "`--include /no/such` matched nothing"
    assert "skills/foo/SKILL.md" not in files(home, Selection(exclude=("**/foo",)))


def test_a_pattern_that_is_none_is_refused_before_any_work(home: str) -> None:
    with pytest.raises(BadPattern, match=r"`\.\./x`"):
        look(home, Selection(exclude=("../x",)))


def test_include_is_stronger_than_exclude(home: str) -> None:
    found = files(home, Selection(exclude=("/skills",), include=("/skills/foo/SKILL.md",)))
    assert "skills/foo/SKILL.md" in found
    assert "skills/foo/old/x" not in found


def test_no_secrets_leaves_each_secret_out_and_says_so(home: str) -> None:
    source = look(home, Selection(secrets=False))
    seen = paths(source)
    for path in (".env", "auth.json", "mcp-tokens", "mcp-tokens/one.json", "profiles/coder/.env"):
        assert path not in seen
    assert "config.yaml" in seen
    excluded = remarks(source, Outcome.EXCLUDED)
    for path in (".env", "auth.json", "mcp-tokens", "profiles/coder/.env"):
        assert excluded[path].reason == "a secret, left out by `--no-secrets`"
    assert excluded["mcp-tokens"].files == 1


def test_an_included_tree_does_not_bring_secrets_back(home: str) -> None:
    found = files(home, Selection(secrets=False, include=("/profiles",)))
    assert "profiles/coder/.env" not in found
    assert "profiles/coder/backups/c.zip" in found
    assert ".env" in files(home, Selection(secrets=False, include=("/.env",)))  # named itself


def test_quick_takes_the_state_files_of_all_profiles(home: str) -> None:
    seen = paths(look(home, Selection(quick=True)))
    assert [path for path in seen if not os.path.isdir(os.path.join(home, path))] == [
        ".env",
        "SOUL.md",
        "auth.json",
        "config.yaml",
        "memories/MEMORY.md",
        "profiles/coder/.env",
        "profiles/coder/config.yaml",
        "profiles/writer/config.yaml",
    ]
    assert "skills" not in seen
    assert seen.index("profiles/coder") < seen.index("profiles/coder/.env")


def test_quick_can_be_widened_and_narrowed(home: str) -> None:
    found = files(home, Selection(quick=True, include=("/skills",), exclude=("/memories",), profile=""))
    assert "skills/foo/SKILL.md" in found
    assert "memories/MEMORY.md" not in found


def test_one_profile_keeps_its_path_in_the_home(home: str) -> None:
    assert paths(look(home, Selection(profile="coder"))) == [
        "profiles",
        "profiles/coder",
        "profiles/coder/.env",
        "profiles/coder/config.yaml",
    ]
    assert files(home, Selection(profile="coder", quick=True)) == {
        "profiles/coder/.env",
        "profiles/coder/config.yaml",
    }


@pytest.mark.parametrize("name", ["nobody", "..", "coder/skills", "."])
def test_a_profile_that_does_not_exist_is_refused_naming_those_that_do(home: str, name: str) -> None:
    with pytest.raises(NoSuchProfile) as caught:
        look(home, Selection(profile=name))
    assert f"There is no profile `{name}`" in caught.value.what
    assert caught.value.advice() == ("Choose one of: coder, writer",)


def test_a_rule_with_a_proof_holds_only_where_it_is_proven(tmp_path: object) -> None:
    home = plant(tmp_path, {"node/mine.txt": "x", "profiles/c/node/bin/node": "x", "config.yaml": ""})
    source = look(home)
    assert "node/mine.txt" in paths(source)
    assert "Node runtime" in remarks(source, Outcome.EXCLUDED)["profiles/c/node"].reason


def test_locks_and_process_numbers_are_not_state(tmp_path: object) -> None:
    names = [
        "gateway.pid",
        "cron.pid",
        "gateway.lock",
        "auth.lock",
        "cron/.tick.lock",
        "memories/MEMORY.md.lock",
    ]
    home = plant(
        tmp_path, {**dict.fromkeys(names, "1"), "skills/x/poetry.lock": "mine", "gateway_state.json": "{}"}
    )
    source = look(home)
    assert {entry.path for entry in source if entry.kind is Kind.FILE} == {
        "skills/x/poetry.lock",
        "gateway_state.json",
    }
    assert set(remarks(source, Outcome.EXCLUDED)) == set(names)


def test_one_profile_says_nothing_of_exclusions_elsewhere(tmp_path: object) -> None:
    home = plant(
        tmp_path,
        {
            "backups/x": "x",
            "skills/x/__pycache__/y": "y",
            "gateway.pid": "1",
            ".safekept/journal": "j",
            "kept/out.zip": "z",
            "profiles/other/backups/x": "x",
            "profiles/coder/backups/x": "x",
            "profiles/coder/SOUL.md": "me",
        },
    )
    source = look(home, Selection(profile="coder"), avoid=(f"{home}/kept/out.zip",))
    assert paths(source) == ["profiles", "profiles/coder", "profiles/coder/SOUL.md"]
    assert set(remarks(source, Outcome.EXCLUDED)) == {"profiles/coder/backups"}
    assert set(source.census()) == {"profiles/coder"}


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(exclude=("*",)), "`--exclude *`"),
        (Selection(exclude=("**/*",), secrets=False), "`--exclude **/*`, `--no-secrets`"),
        (Selection(profile="empty"), "`--profile empty`"),
        (Selection(quick=True, exclude=("*",)), "`--quick`"),
    ],
)
def test_a_selection_that_leaves_nothing_is_refused(
    tmp_path: object, selection: Selection, words: str
) -> None:
    home = plant(tmp_path, {"note": "x", "profiles/empty": None})
    with pytest.raises(NothingSelected) as caught:
        paths(look(home, selection))
    assert words in caught.value.what
    assert home in caught.value.what
    with pytest.raises(NothingSelected):
        look(home, selection).measure()


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_alone_is_something(tmp_path: object) -> None:
    home = plant(tmp_path, {"other": "x"})
    os.symlink("nowhere", f"{home}/link")
    assert paths(look(home, Selection(exclude=("/other",)))) == ["link"]


def test_no_include_reaches_into_what_must_never_be_inside(tmp_path: object) -> None:
    home = plant(tmp_path, {".safekept/kept/x": "x", "store/a/pack": "p", "note": "n"})
    selection = Selection(include=("/.safekept/kept/x", "/store/a/pack", "**/pack"))
    source = look(home, selection, avoid=(f"{home}/store",))
    assert paths(source) == ["note"]
    left = remarks(source, Outcome.EXCLUDED)
    assert {path: remark.files for path, remark in left.items()} == {".safekept": 1, "store": 1}
