"""With a seat belt every command works as without, and leaves the stores closed.

Root is bound by the immutable attribute and everybody else by modes, so a command that forgets to open what
it writes fails here, whoever runs the test.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from safekept.actions.vault.seat_belt import belts
from safekept.settings.context import context_of
from safekept.settings.loading import load_settings
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.users.states import made
from support.vault.closed import lose


@pytest.fixture
def say(tmp_path, monkeypatch):
    """The commands of a user with a home, a vault and a project, who never heard of a seat belt."""
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    os.makedirs(os.path.join(state.user, "project", ".git"))
    put("project/notes.txt", "first")
    yield say
    for _, belt in stores():
        belt.take_off()  # nobody could remove what the test made


def stores():
    return belts(context_of(load_settings(os.environ)))


def put(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def closed() -> bool:
    found = stores()
    assert found
    return all(belt.holds() for _, belt in found)


def everything() -> dict[str, bytes]:
    found = {}
    for _, belt in stores():
        for parent, _, names in os.walk(belt.root):
            for name in names:
                with open(os.path.join(parent, name), "rb") as file:
                    found[os.path.join(parent, name)] = file.read()
    return found


#: `>` writes a file, `3` is a command that may find something, `ID` stands in what was printed before.
STEPS = """
snapshot
checkpoint project --reason first
> project/notes.txt second
checkpoint project --reason second
rollback 1 --dir project
rollback --undo --dir project
> .hermes/SOUL.md another
snapshot --label another
snapshot pin latest
snapshot forget 3 --yes
snapshot prune --yes
vault prune --now --yes
vault check --read-data
vault repair --yes
vault key list
vault unlock
checkpoint list
checkpoint prune --yes
checkpoint clear --yes
undo ID
checkpoint clear --now --yes
restore SOUL.md --yes
3 doctor
status
""".strip().splitlines()


def test_every_command_works_behind_it_and_leaves_the_stores_closed(say):
    said = None
    for step in STEPS:
        if step.startswith("> "):
            _, path, text = step.split(" ")
            put(path, text)
            continue
        if step == "undo ID":
            step = re.search(r"safekept (undo \S+)`", said.out)[1]
        said = say(*step.removeprefix("3 ").split(" "))
        assert said.code in ((0, 3) if step.startswith("3 ") else (0,)), (step, said.out, said.err)
        assert closed(), step


def begun(say) -> None:
    assert say("snapshot").code == 0
    assert say("checkpoint", "project").code == 0
    assert closed()


def test_what_the_vault_lost_is_fetched_into_it_and_it_is_closed_again(say, tmp_path):
    begun(say)
    assert say("vault", "key", "add", "--recovery", "--passphrase-file", secret(tmp_path)).code == 0
    words = ("destinations", "add", f"file:{tmp_path}/copy", "--name", "copy", "--same-disk")
    assert say(*words).code == 0 and say("push", "copy").code == 0
    vault = stores()[0][1]
    lost = packs_of(vault.root)[0]
    lose(lost)
    vault.let_go()
    assert closed()
    said = say("pull", "copy", "--mend")
    assert said.code == 0, said.err
    assert os.path.exists(lost) and closed()


def secret(tmp_path) -> str:
    put(str(tmp_path / "secret"), "four words are enough\n")
    os.chmod(tmp_path / "secret", 0o600)
    return str(tmp_path / "secret")


def packs_of(vault: str) -> list[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(os.path.join(vault, "data")) for name in names]


def test_rm_leaves_the_stores_and_they_are_whole(say):
    begun(say)
    before = everything()
    assert len(before) > 10
    subprocess.run(["rm", "-rf", os.path.expanduser("~")], capture_output=True, timeout=60)
    assert {path for path in before if "/locks/" not in path} <= set(everything())
    assert not os.path.exists(os.path.expanduser("~/.hermes"))
    assert not os.path.exists(os.path.expanduser("~/project"))


def test_what_is_open_is_said_and_stays_open_until_it_is_closed(say):
    begun(say)
    said = say("vault", "open")
    assert said.code == 0 and said.out.startswith("The stores are open: any program of yours can delete them")
    assert said.out.rstrip().endswith("Close them when you are done: `safekept vault close`")
    assert say("snapshot").code == 0 and say("checkpoint", "project").code == 0
    assert not any(belt.holds() for _, belt in stores())
    said = say("vault", "close", "--json")
    assert said.code == 0
    kept = json.loads(said.out)["stores"]
    assert [(one["state"], one["closed"]) for one in kept] == [("on", True)] * len(kept)
    assert closed()
    said = say("vault", "close")
    assert said.code == 0 and said.out.startswith("The stores are closed: `rm -rf` leaves what is in them")


def test_without_the_setting_nothing_is_closed_and_what_was_is_opened(say, monkeypatch):
    begun(say)
    monkeypatch.setenv("SAFEKEPT_SEAT_BELT", "false")
    put(".hermes/SOUL.md", "changed")
    put("project/notes.txt", "changed")
    assert say("snapshot").code == 0 and say("checkpoint", "project").code == 0
    assert not any(belt.holds() for _, belt in stores())
    said = say("vault", "close")
    assert said.code == 1
    assert error_code(said.err) == "seat-belt-off"
    assert said.err.startswith("The seat belt is off: the setting `seat_belt` is false\n")
    assert "Turn it on: `safekept settings seat_belt true`" in said.err
    for _, belt in stores():
        shutil.rmtree(belt.root)


def test_settings_that_are_gone_do_not_take_the_belt_with_them(say):
    begun(say)
    shutil.rmtree(os.path.expanduser("~/.config"))
    put(".hermes/SOUL.md", "changed")
    put("project/notes.txt", "changed")
    assert say("snapshot").code == 0 and say("checkpoint", "project").code == 0
    assert closed()


def test_a_vault_whose_key_file_is_gone_opens_with_its_copy_and_says_so(say):
    begun(say)
    key = os.path.expanduser("~/.config/safekept/vault.key")
    os.unlink(key)
    said = say("snapshot", "list")
    assert said.code == 0
    assert (
        f"the key file `{key}` is gone; its copy behind the seat belt opened the vault" in said.out + said.err
    )
    copies = stores()[-1][1]
    copies.open(copies.root)
    os.unlink(os.path.join(copies.root, "vault.key"))
    put(os.path.join(copies.root, "vault.key"), "of another vault\n")
    copies.let_go()
    said = say("snapshot", "list")
    assert said.code == 12 and error_code(said.err) == "vault-key-missing"


def test_uninstall_removes_stores_that_are_closed(say):
    begun(say)
    said = say("uninstall", "--stores", "--word", "delete")
    assert said.code == 0, said.err
    assert not os.path.exists(os.path.expanduser("~/.local/share/safekept"))


def test_an_empty_vault_that_is_closed_makes_room_for_another(tmp_path, monkeypatch):
    say = spoken(monkeypatch, str(tmp_path))
    assert say("vault", "init").code == 0
    assert closed()
    from safekept.actions.setup.unused_vault import is_unused, put_aside

    context = context_of(load_settings(os.environ))
    assert is_unused(context)
    aside = put_aside(context)
    assert os.path.isdir(aside) and not os.path.exists(context.places.vault)
    shutil.rmtree(aside)
    for _, belt in stores():
        belt.take_off()
