"""Settings are loaded once for each environment, and again when they change; callers hardly ever wait."""

from __future__ import annotations

import os

import pytest

from safekept.integrations import places as place_cache
from safekept.integrations.places import PlaceCache
from support.hosts.throwaway_helper import throwaway
from support.projects.checkpoints import put


@pytest.fixture
def user(tmp_path):
    return throwaway(tmp_path)


class Waiting:
    """What is to be done later, and is not done before somebody says so."""

    def __init__(self) -> None:
        self.work: dict[object, object] = {}

    def add(self, key, work) -> None:
        self.work[key] = work

    def run(self) -> None:
        for work in list(self.work.values()):
            work()
        self.work.clear()


@pytest.fixture
def later():
    return Waiting()


@pytest.fixture
def cache(later):
    return PlaceCache({"HOME": "/of/the/starter", "LANG": "C", "SAFEKEPT_CHECKPOINTS": "0"}, later.add)


def test_the_environment_of_whoever_started_the_helper_says_nothing(cache, user):
    place = cache.get(user.environment)
    assert place.user_home == user.home and place.data_directory == user.data
    assert "SAFEKEPT_CHECKPOINTS" not in place.environment
    assert place.environment["LANG"] == "C", "what no client sends is the helper's"


def test_the_same_environment_is_loaded_once(cache, user):
    assert cache.get(user.environment) is cache.get(dict(reversed(user.environment.items())))
    assert cache.get({**user.environment, "SAFEKEPT_CHECKPOINTS": "1"}) is not cache.get(user.environment)


@pytest.mark.parametrize("name", ["config.toml", "layouts", "layouts/mine.toml"])
@pytest.mark.needs("times", "it looks at times finer than a second", only={"layouts/mine.toml"})
def test_a_file_that_appears_is_read_at_once(cache, user, name):
    directory = os.path.dirname(user.config)
    os.makedirs(os.path.join(directory, "layouts") if name == "layouts/mine.toml" else directory)
    first = cache.get(user.environment)
    if name == "layouts":
        os.mkdir(os.path.join(directory, name))
    else:
        put(os.path.join(directory, name), "")
    assert cache.get(user.environment) is not first


def test_the_caps_of_a_hermes_home_are_read_again_when_its_file_changes(cache, user):
    config = put(os.path.join(user.home, ".hermes", "config.yaml"), "checkpoints:\n  max_snapshots: 7\n")
    assert cache.get(user.environment).policy.maintenance.limits.max_snapshots == 7
    put(config, "checkpoints:\n  max_snapshots: 12345\n")
    assert cache.get(user.environment).policy.maintenance.limits.max_snapshots == 12345


def test_after_a_while_it_is_loaded_again_while_nobody_waits(cache, later, user, monkeypatch):
    monkeypatch.setattr(place_cache, "_SECONDS", 0.0)
    first = cache.get(user.environment)
    first.first_time("s", "said")
    assert cache.get(user.environment) is first, "a caller gets what is there"
    assert first.homes == ()
    put(os.path.join(user.home, ".claude", "settings.json"), "{}")
    later.run()
    second = cache.get(user.environment)
    assert second is not first and [name for _, name in second.homes] == ["claude-code"]
    assert not second.first_time("s", "said"), "what a session was told it stays told"


def test_a_refresh_does_not_bring_older_settings_back(cache, later, user, monkeypatch):
    monkeypatch.setattr(place_cache, "_SECONDS", 0.0)
    cache.get(user.environment)
    put(user.config, "[checkpoints]\nmax_files = 7\n")
    newer = cache.get(user.environment)
    later.run()
    assert cache.get(user.environment).policy.take.max_files == newer.policy.take.max_files == 7


def test_only_so_many_environments_are_kept(cache, user, monkeypatch):
    monkeypatch.setattr(place_cache, "_MOST", 2)
    first = cache.get(user.environment)
    others = [cache.get({**user.environment, "XDG_CACHE_HOME": f"/c{number}"}) for number in range(2)]
    assert cache.get({**user.environment, "XDG_CACHE_HOME": "/c1"}) is others[1]
    assert cache.get(user.environment) is not first


def test_every_home_that_the_settings_name_is_one(cache, user):
    usual, beside = (os.path.join(user.home, name) for name in ("usual", "beside"))
    for home in (usual, beside):
        put(os.path.join(home, "config.yaml"), "model: x\n")
        put(os.path.join(home, "state.db"))
        put(os.path.join(home, "SOUL.md"), "I am\n")
    put(user.config, f'home = "{usual}"\n[schedule]\nhomes = ["{usual}", "{beside}"]\n')
    assert dict(cache.get(user.environment).homes) == {usual: "hermes", beside: "hermes"}
