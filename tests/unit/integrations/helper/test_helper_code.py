"""An update of the code on disk is noticed, and nothing else is taken for one."""

from __future__ import annotations

import os

import pytest

from safekept.integrations.helper import client, code


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A package of two files of which one is loaded; and a clock that lets every look happen."""
    package = tmp_path / "safekept"
    package.mkdir()
    for name in ("loaded.py", "other.py"):
        (package / name).write_text("")
        os.utime(package / name, ns=(2**62, 2**62))  # far in the future: a clock that was wrong
    monkeypatch.setattr(code, "_PACKAGE", str(package))
    monkeypatch.setattr(code, "_SECONDS", 0.0)
    loaded = [str(package / "loaded.py")]
    monkeypatch.setattr(code, "_loaded", lambda: loaded)
    return package, loaded


def test_files_from_the_future_are_no_change(watched):
    assert not code.CodeWatch().changed()


def test_a_loaded_file_that_changes_or_goes_is_noticed_and_stays_so(watched):
    package, _ = watched
    watch = code.CodeWatch()
    os.utime(package / "other.py", ns=(5, 5))
    assert not watch.changed(), "nobody runs that one"
    os.utime(package / "loaded.py", ns=(5, 5))
    assert watch.changed()
    os.utime(package / "loaded.py", ns=(2**62, 2**62))
    assert watch.changed(), "what was loaded in between may be either"
    gone = code.CodeWatch()
    os.unlink(package / "loaded.py")
    assert gone.changed()


def test_a_file_that_is_loaded_later_must_be_as_it_was(watched):
    package, loaded = watched
    watch = code.CodeWatch()
    os.utime(package / "other.py", ns=(5, 5))
    loaded.append(str(package / "other.py"))
    assert watch.changed()
    watch = code.CodeWatch()
    (package / "new.py").write_text("")
    loaded.append(str(package / "new.py"))
    assert watch.changed()


def test_an_update_has_another_identity(tmp_path):
    files = [tmp_path / "__init__.py", tmp_path / "integrations" / "helper" / "client.py"]
    files[1].parent.mkdir(parents=True)
    for file in files:
        file.write_text("")
    before = client.code_identity(str(tmp_path))
    assert client.code_identity(str(tmp_path)) == before
    for file in files:
        os.utime(file, ns=(1, 1))
        after = client.code_identity(str(tmp_path))
        assert after != before
        before = after
    assert client.code_identity(str(tmp_path / "elsewhere")) != before
