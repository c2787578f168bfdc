"""`safekept rebuild` without a place: what is gone comes back from what survived here; the rest stays."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from support.commands.in_process import spoken
from support.users.states import made
from support.vault.closed import open_below

STORES = ("vault", "checkpoints/store", "checkpoints/hidden", "kept")


@pytest.fixture
def user(tmp_path):
    return made("fresh", tmp_path).user


@pytest.fixture
def say(user, monkeypatch):
    """The commands of somebody with a home, a snapshot, and a project with a checkpoint."""
    say = spoken(monkeypatch, user)
    put("project/.git/HEAD", "")
    put("project/notes.txt", "first")
    assert say("snapshot").code == say("checkpoint", "project").code == 0
    return say


def put(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def emptied(user: str) -> None:
    """As `rm -rf ~` leaves it; also where root of a container is bound by nothing."""
    data, kept = os.path.join(user, ".local", "share", "safekept"), f"{user}-kept"
    stores = [name for name in STORES if os.path.isdir(os.path.join(data, name))]
    for name in stores:
        shutil.copytree(os.path.join(data, name), os.path.join(kept, name))
    subprocess.run(["rm", "-rf", user], capture_output=True, timeout=60)
    os.makedirs(user, exist_ok=True)
    os.chdir(user)  # where nothing held a store, all of it went
    for name in stores:
        if not os.path.isdir(os.path.join(data, name)):
            shutil.copytree(os.path.join(kept, name), os.path.join(data, name))


def test_all_of_it_comes_back_and_a_second_time_there_is_nothing_to_do(say, user):
    lines = len(json.loads(say("log", "--json").out)["operations"])
    soul, key = read(".hermes/SOUL.md"), read(".config/safekept/vault.key")
    emptied(user)
    dry = say("rebuild", "--dry-run")
    assert dry.code == 0 and dry.out.endswith("Nothing was changed\n")
    assert dry.out.startswith(
        "Bring back what is gone: 1 home, 1 project and what safekept keeps for itself\n"
        "  Key        ~/.config/safekept/vault.key\n"
    )
    assert not os.path.exists(".hermes") and not os.path.exists(".config")
    document = json.loads(say("rebuild", "--json").out)
    assert document["brought"]["homes"] == [os.path.join(user, ".hermes")]
    assert document["brought"]["projects"] == [os.path.join(user, "project")] and document["failed"] == []
    assert (read(".hermes/SOUL.md"), read(".config/safekept/vault.key")) == (soul, key)
    assert read("project/notes.txt") == "first"
    assert len(json.loads(say("log", "--json").out)["operations"]) == lines + 3
    again = say("rebuild")
    assert again.code == 0
    assert again.out.startswith("Nothing is gone: every home and project that safekept keeps is here\n")


def test_a_bare_undo_after_it_takes_nothing_of_it_back(say, user):
    """The person rolled nothing back: what came back is taken away by its id alone."""
    put("project/notes.txt", "second")
    assert say("checkpoint", "project").code == 0
    put("project/notes.txt", "third")
    assert say("rollback", "1", "--dir", "project").code == 0
    emptied(user)
    assert say("rebuild").code == 0
    for where in (".", "project"):
        os.chdir(os.path.join(user, where))
        for words in (("undo", "--dry-run"), ("undo",), ("undo", "--dir", os.path.join(user, "project"))):
            refused = say(*words)
            plain = " ".join(refused.err.split())
            assert refused.code != 0 and "rollback" not in refused.err.split("Kept")[0], (words, refused)
            assert "the last change was made by a rebuild" in plain, plain
    os.chdir(user)
    assert read("project/notes.txt") == "second" and os.path.exists(".hermes/SOUL.md")
    (name,) = set(re.findall(r"/project: `safekept undo (\S+?)`", plain))
    assert "part of the rebuild" in say("undo", name, "--dry-run").out
    put("project/notes.txt", "a slip")
    assert say("rollback", "1", "--dir", "project").code == 0
    assert say("undo", "--dir", "project").code == 0, "what the person did since is theirs"
    assert read("project/notes.txt") == "a slip"
    assert say("undo", name).code == 0


def test_a_project_that_was_not_gone_is_still_taken_back_by_a_bare_undo(say, user, tmp_path):
    other = str(tmp_path / "other")
    put(os.path.join(other, ".git", "HEAD"), "")
    put(os.path.join(other, "a.txt"), "one")
    assert say("checkpoint", other).code == 0
    put(os.path.join(other, "a.txt"), "two")
    assert say("rollback", "1", "--dir", other).code == 0
    shutil.rmtree("project")
    assert say("rebuild", "--yes").code == 0
    assert "the last change was made by a rebuild" in say("undo").err
    os.chdir(other)
    assert say("undo").code == 0 and read("a.txt") == "two"


def test_the_kit_that_went_with_the_rest_is_to_be_written_again(say, user):
    assert say("vault", "kit").code == 0
    emptied(user)
    done = say("rebuild")
    assert done.code == 0, done.err
    assert "Your part  Write the kit again, and keep it elsewhere: `safekept vault kit`" in done.out, done.out
    found = json.loads(say("doctor", "--json").out)["findings"]
    assert "kit-gone" in {one["code"] for one in found}
    assert say("vault", "kit").code == 0
    assert "kit-gone" not in {one["code"] for one in json.loads(say("doctor", "--json").out)["findings"]}


def test_what_the_settings_say_is_not_denied_while_they_are_gone(say, user):
    assert say("settings", "schedule.at", "04:10").code == say("snapshot").code == 0
    assert "no destination is set up" in say("status").out
    emptied(user)
    shown = say("status").out
    assert "their copies are here" in shown and "Off-host   not known: your settings are gone, too" in shown
    assert "none would survive its loss" not in shown and "no destination" not in shown


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_home_that_its_agent_began_anew_is_replaced_after_a_yes_and_undone(say, user):
    soul = read(".hermes/SOUL.md")
    emptied(user)
    put(".hermes/SOUL.md", "of an agent that knows nothing")
    refused = say("rebuild")
    assert refused.code == 1 and not os.path.exists("project")
    assert "his rebuild needs your consent: 1 file of" in refused.err and "would be replaced" in refused.err
    assert "Agree to it: `safekept rebuild --yes`" in refused.err
    done = say("rebuild", "--yes", "--json")
    assert done.code == 0, done.err
    assert read(".hermes/SOUL.md") == soul
    operation = next(
        one["operation"]
        for one in json.loads(say("log", "--json").out)["operations"]
        if one["verb"] == "restore"
    )
    assert say("undo", operation).code == 0
    assert read(".hermes/SOUL.md") == "of an agent that knows nothing"


def test_what_is_there_stays_as_it_is(say, user):
    shutil.rmtree("project")
    put("project/other.txt", "mine")
    put(".hermes/SOUL.md", "changed since")
    os.unlink(".config/safekept/vault.key")
    done = say("rebuild")
    assert done.code == 0, done.err
    assert "Home" not in done.out and "Project" not in done.out
    assert os.listdir("project") == ["other.txt"] and read(".hermes/SOUL.md") == "changed since"
    assert os.path.exists(".config/safekept/vault.key")


def test_a_project_that_may_have_been_deleted_on_purpose_comes_back_after_a_yes(say):
    shutil.rmtree("project")
    refused = say("rebuild")
    assert refused.code == 1 and "1 project that you may have deleted come back" in refused.err
    assert say("rebuild", "--yes").code == 0 and read("project/notes.txt") == "first"


def test_a_project_comes_back_as_a_rollback_left_it(say):
    put("project/notes.txt", "second")
    assert say("checkpoint", "project").code == 0
    put("project/notes.txt", "third")
    assert say("rollback", "2", "--dir", "project").code == 0
    assert read("project/notes.txt") == "first"
    shutil.rmtree("project")
    assert say("rebuild", "--yes").code == 0
    assert read("project/notes.txt") == "first"


def test_settings_that_are_gone_still_say_where_the_vault_is(user, tmp_path, monkeypatch):
    say = spoken(monkeypatch, user)
    put(".config/safekept/config.toml", f'[vault]\npath = "{tmp_path}/elsewhere"\n')
    assert say("vault", "init").code == say("snapshot").code == 0
    shutil.rmtree(".config")
    shutil.rmtree(".hermes")
    first, *_ = say("status").out.splitlines()
    assert first == "ALARM, not protected: 1 home is gone; a copy is here"
    done = say("rebuild")
    assert done.code == 0, done.err
    assert f"{tmp_path}/elsewhere" in read(".config/safekept/config.toml")
    assert os.path.exists(".hermes/SOUL.md")


def test_what_happened_since_stands_after_what_happened_before(say, user):
    before = [one["operation"] for one in json.loads(say("log", "--json").out)["operations"]]
    emptied(user)
    put("another/.git/HEAD", "")
    put("another/a.txt", "a")
    assert say("checkpoint", "another").code == 0
    since = [one["operation"] for one in json.loads(say("log", "--json").out)["operations"]]
    assert say("rebuild").code == 0
    after = [one["operation"] for one in json.loads(say("log", "--json").out)["operations"]]
    assert after[-len(before + since) :] == since + before  # newest first


def test_an_interrupted_rebuild_goes_on_with_what_is_left(say, user, monkeypatch):
    emptied(user)

    def cut_off(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("safekept.cli.commands.restoring.rebuild_here.bring_project", cut_off)
        assert say("rebuild").code == 130
    assert os.path.exists(".hermes/SOUL.md") and not os.path.exists("project")
    assert "safekept rebuild" in say("status").out
    done = say("rebuild")
    assert done.code == 0 and "  Home" not in done.out and read("project/notes.txt") == "first"
    assert "not finished" not in say("status").out


def test_where_nothing_survived_the_ways_that_are_left_are_named(say, user):
    open_below(user)
    shutil.rmtree(user)
    os.makedirs(user)
    refused = say("rebuild")
    what = "Nothing of safekept survived on this machine: no vault, no checkpoints, no copies"
    assert refused.code == 10 and refused.err.splitlines()[0] == what
    assert "nothing-to-rebuild" in refused.err
    assert "With your kit" in refused.err and not os.listdir(user)


def test_options_that_choose_need_a_place_to_choose_from(say):
    refused = say("rebuild", "--of", "/x")
    assert refused.code == 2 and "only --yes, --dry-run and --json go without it" in refused.err


def test_a_project_comes_back_whose_folder_is_gone_too_with_its_secrets(say, user):
    put("projects/site/.git/HEAD", "")
    put("projects/site/.env", "KEY=1")
    put("projects/site/.gitignore", ".env\n")
    put("projects/site/app.py", "print()")
    assert say("checkpoint", "projects/site").code == 0
    os.unlink("projects/site/.env")
    assert say("rollback", "1", "--dir", "projects/site").code == 0
    emptied(user)
    done = say("rebuild")
    assert done.code == 0, done.err
    assert read("projects/site/app.py") == "print()" and read("projects/site/.env") == "KEY=1"


def test_a_project_on_a_disk_that_is_not_there_is_not_made_beside_it(say, tmp_path):
    disk = tmp_path / "disk"
    put(str(disk / "folder" / "work" / "a.txt"), "a")
    assert say("checkpoint", str(disk / "folder" / "work")).code == 0
    shutil.rmtree(disk)
    shutil.rmtree(open_below(".local/share/safekept/checkpoints/projects"))
    shutil.rmtree(".hermes")
    done = say("rebuild")
    assert done.code == 3 and "project-gone" in done.err and not disk.exists()
    assert os.path.exists(".hermes/SOUL.md")


@pytest.mark.needs("modes", "a seat belt is made of modes")
@pytest.mark.needs("proc or programs", "a seat belt asks which filesystem it is on")
def test_what_is_held_of_a_repository_is_closed_from_the_first_checkpoint_on(user, monkeypatch):
    say = spoken(monkeypatch, user)
    put("project/notes.txt", "first")
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm one"):
        subprocess.run(["git", "-C", "project", *words.split()], check=True)
    assert say("checkpoint", "project").code == 0
    held = ".local/share/safekept/checkpoints/repositories"
    inside = [held, *(os.path.join(held, name) for name in os.listdir(held) if name != "belt")]
    assert len(inside) == 2 and [oct(os.stat(one).st_mode & 0o222) for one in inside] == ["0o0", "0o0"]
