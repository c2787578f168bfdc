"""The sealing host's view: with only the public key, nothing on it opens what it made a moment ago."""

import base64
import json
import os
import re
import subprocess

import pytest

from conftest import program
from safekept.archive import Identity, open_archive
from safekept.archive.container.handle import open_handle
from safekept.archive.sealing.age.file import AgeFile
from safekept.archive.sealing.identities import load_identities
from safekept.core.errors import SafekeptError
from support.archives.seals import PLAIN, keyring, opener
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import differences, make_hermes_home, tree_facts

pytestmark = pytest.mark.real


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A user with a home, `safekept` at hand, and a keyring with a public key only."""
    user = tmp_path / "user"
    make_hermes_home(str(user / ".hermes"))
    return spoken(monkeypatch, str(user))


def every_file(top):
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    yield path, file.read()


def traces(key):
    """A key in every way a program might have left it."""
    return [key, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key).rstrip(b"=")]


def commands_that_read(archive):
    return (
        ("import", archive, "--into", "elsewhere", "--yes"),
        ("import", archive, "--dry-run"),
        ("import", archive, "--only", "memories", "--into", "elsewhere", "--yes"),
        ("drill", archive),
    )


def test_nothing_on_the_host_opens_what_it_sealed_to_an_age_key(host, tmp_path):
    elsewhere = tmp_path / "laptop"
    elsewhere.mkdir()
    made = host("backup", "keygen", "-o", str(elsewhere / "key"), "--json")
    public = json.loads(made.out)["public_key"]
    assert made.code == 0 and json.loads(made.out)["identity"] is None
    user = tmp_path / "user"
    archives = []
    for form in ("zip", "tar.zst"):
        done = host("backup", "--seal", public, "--format", form, "-o", f"archives/{form}", "--json")
        assert done.code == 0, done.err
        archives.append(json.loads(done.out)["path"])
        assert json.loads(done.out)["sealed"] == {"kind": "age", "to": [public]}
    for archive in archives:
        handle = open_handle(archive)
        (stanza,) = AgeFile(handle).header.stanzas
        handle.close()
        (mine,) = load_identities(str(elsewhere / "key"), opener())
        file_key = mine.unwrap(stanza)
        assert file_key
        for path, content in every_file(user):
            for trace in (*traces(file_key), mine.text.encode(), *traces(mine.private)):
                assert trace not in content, path
            # Nor does any file open it, taken for a key or for a passphrase.
            with pytest.raises(SafekeptError), open_archive(archive, identity=opener(path)):
                pass
        for words in commands_that_read(archive):
            done = host(*words)
            assert done.code in (1, 12), words
            assert error_code(done.err) == "identity-needed" or "not proven" in done.out + done.err, done.err
        assert not os.path.exists(user / "elsewhere")
        with open_archive(archive, identity=opener(elsewhere / "key")) as opened:
            assert opened.head["complete"] is True


def test_nothing_on_the_host_opens_what_it_sealed_to_a_gpg_key(host, tmp_path, monkeypatch):
    program("gpg")
    with keyring() as laptop, keyring() as server:
        laptop.make("keeper")
        server.run("--import", input=laptop.public("keeper"))
        monkeypatch.setenv("GNUPGHOME", server.directory)
        done = host("backup", "--seal", "gpg:keeper", "--format", "tar.zst", "-o", "archives/a", "--json")
        assert done.code == 0, done.err
        archive = json.loads(done.out)["path"]
        assert archive.endswith("/archives/a.tar.zst.gpg")
        shown = subprocess.run(
            ["gpg", "--batch", "--status-fd=1", "--show-session-key", "-o", os.devnull, "-d", archive],
            env=laptop.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        session = bytes.fromhex(re.search(r"SESSION_KEY \d+:([0-9A-F]+)", shown)[1])
        for top in (tmp_path / "user", server.directory):
            for path, content in every_file(top):
                assert not any(trace in content for trace in traces(session)), path
        for words in commands_that_read(archive):
            done = host(*words)
            assert done.code in (1, 12), words
            assert "identity-does-not-fit" in done.err or "not proven" in done.out + done.err, done.err
        with open_archive(archive, identity=Identity(environment=laptop.environment)) as opened:
            assert opened.head["complete"] is True


def test_two_machines_one_that_backs_up_and_one_that_restores(host, tmp_path, monkeypatch):
    """The guide, carried out: a pair made on the laptop, its public half on the server, a restore at home."""
    laptop = tmp_path / "laptop"
    laptop.mkdir()
    program("age")
    at_home = spoken(monkeypatch, str(laptop))
    assert at_home("backup", "keygen", "-o", "agent.key").code == 0
    public = re.search(r"age1\w+", (laptop / "agent.key").read_text())[0]
    server = spoken(monkeypatch, str(tmp_path / "user"))
    config = tmp_path / "user" / ".config" / "safekept"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[backup]\nseal = ["{public}"]\nformat = "tar.zst"\n')
    carried = tmp_path / "carried"
    for words in ((), ("--no-seal",)):
        done = server("backup", "-o", str(carried), *words)
        assert done.code == 0, done.err
    assert sorted(os.listdir(tmp_path)) == ["carried.tar.zst", "carried.tar.zst.age", "laptop", "user"]
    at_home = spoken(monkeypatch, str(laptop))
    sealed, clear = f"{carried}.tar.zst.age", f"{carried}.tar.zst"
    done = at_home("import", sealed, "--identity", "agent.key", "--into", "one", "--yes")
    assert done.code == 0, done.err
    assert at_home("import", clear, "--into", "two", "--yes").code == 0
    assert len(tree_facts(str(laptop / "one"))) > 80
    two, one = (tree_facts(str(laptop / name), skip=(".",)) for name in ("two", "one"))
    assert differences(two, one) == []
    # And without safekept: the file is a tar behind age.
    tool = subprocess.run(
        f"age --decrypt -i agent.key {sealed} | tar --zstd -t", shell=True, cwd=laptop, env=PLAIN,
        capture_output=True, text=True,
    )  # fmt: skip
    assert tool.returncode == 0, tool.stderr
    assert "memories/MEMORY.md\n" in tool.stdout
