"""Caps and retention: ours first, then what Hermes's own file says, then the default."""

from __future__ import annotations

import pytest

from safekept.settings import BadSetting, checkpoint_policy, load_settings, with_hermes
from support.projects.checkpoints import put


@pytest.fixture
def environment(tmp_path):
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def home(tmp_path):
    put(
        str(tmp_path / "hermes" / "config.yaml"),
        "checkpoints:\n  enabled: false\n  max_snapshots: 7\n  max_total_size_mb: 50\n  max_file_size_mb: 2\n"
        "  auto_prune: false\n  retention_days: 3\n  delete_orphans: false\n  min_interval_hours: 6\n",
    )
    return str(tmp_path / "hermes")


def test_22841_every_cap_of_hermes_config_is_honoured(environment, home):
    policy = checkpoint_policy(load_settings(environment), home)
    keeping = policy.maintenance
    assert (keeping.limits.max_snapshots, keeping.limits.max_total_bytes) == (7, 50_000_000)
    assert (keeping.limits.retention_days, keeping.auto_prune) == (3, False)
    assert (policy.take.max_file_size, policy.delete_orphans) == (2 << 20, False)
    assert keeping.min_interval_seconds == 6 * 3600


def test_ours_comes_before_hermes_and_hermes_before_the_default(environment, home, tmp_path):
    put(str(tmp_path / "config" / "safekept" / "config.toml"), "[checkpoints]\nmax_snapshots = 11\n")
    environment["SAFEKEPT_CHECKPOINTS_RETENTION_DAYS"] = "90"
    settings = with_hermes(load_settings(environment), home)
    assert settings.whole("checkpoints.max_snapshots") == 11
    assert settings.whole("checkpoints.retention_days") == 90
    assert settings.whole("checkpoints.max_total_size_mb") == 50
    assert (
        with_hermes(load_settings(environment), str(tmp_path)).whole("checkpoints.max_total_size_mb") == 2000
    )


@pytest.mark.parametrize(
    "text",
    [
        "checkpoints: true\n",
        "checkpoints:\n  max_snapshots: many\n  retention_days: -3\n  auto_prune: perhaps\n",
        "checkpoints: [1, 2]\n",
        "{ not yaml",
        "",
    ],
)
def test_a_section_that_makes_no_sense_is_passed_over(environment, tmp_path, text):
    put(str(tmp_path / "hermes" / "config.yaml"), text)
    settings = with_hermes(load_settings(environment), str(tmp_path / "hermes"))
    assert settings.values == load_settings(environment).values


def test_hermes_zero_snapshots_means_one_and_not_all(environment, tmp_path):
    put(
        str(tmp_path / "hermes" / "config.yaml"), "checkpoints:\n  max_snapshots: 0\n  max_total_size_mb: 0\n"
    )
    settings = with_hermes(load_settings(environment), str(tmp_path / "hermes"))
    assert settings.whole("checkpoints.max_snapshots") == 1
    assert settings.whole("checkpoints.max_total_size_mb") == 0


@pytest.mark.parametrize(("raw", "value"), [("1", True), ("off", False), ("Yes", True), ("FALSE", False)])
def test_flags_are_read_from_variables(environment, raw, value):
    environment["SAFEKEPT_CHECKPOINTS_AUTO_PRUNE"] = raw
    assert load_settings(environment).flag("checkpoints.auto_prune") is value


def test_a_flag_that_is_none_is_named(environment, tmp_path):
    environment["SAFEKEPT_CHECKPOINTS_AUTO_PRUNE"] = "perhaps"
    with pytest.raises(BadSetting, match=r"AUTO_PRUNE.*not true or false"):
        load_settings(environment)
    del environment["SAFEKEPT_CHECKPOINTS_AUTO_PRUNE"]
    put(str(tmp_path / "config" / "safekept" / "config.toml"), "[checkpoints]\nmax_snapshots = true\n")
    with pytest.raises(BadSetting, match="not a whole number"):
        load_settings(environment)
