"""The plugin in a home of Hermes: which files, and what is in each of them.

They are given in the shape that `connect` works with: a plan with a diff first, copies of
what was there, each file whole or not at all, and everything as it was afterwards.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping

from safekept import __version__
from safekept.core.files.small import read_start
from safekept.core.records import dataclass

from ..connecting.program import Program
from ..connecting.settings_file import Unfit
from .enabling import LINES, disabled, enabled, is_enabled

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(os.path.dirname(HERE), "helper", "client.py")
CONNECTION = "connection.json"
#: What tells our plugin.yaml from that of another plugin.
_AUTHOR = b"author: safekept"
#: Where safekept keeps what is this user's: remembered, for a service often starts without them.
_PLACES = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "SAFEKEPT_SYSTEM_USER")


def hermes_home(environment: Mapping[str, str], root: str = "") -> str:
    """The home that `hermes` works in when it is called like this; of a profile, the profile's own.

    `root`: the home that the settings name, if any; the variable then only chooses a profile in it.
    """
    named = environment.get("HERMES_HOME", "").strip()
    if named:
        named = os.path.abspath(os.path.expanduser(named))
        if not root or os.path.realpath(named).startswith(f"{root}/"):
            return named
    root = root or os.path.join(environment.get("HOME") or os.path.expanduser("~"), ".hermes")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        name = read_start(os.path.join(root, "active_profile"), 200).decode("utf-8").strip()
        profile = os.path.join(root, "profiles", name)
        if name and os.sep not in name and name not in (".", "..") and os.path.isdir(profile):
            return profile
    return root


def plugin_directory(home: str) -> str:
    return os.path.join(home, "plugins", "safekept")


@dataclass(frozen=True, slots=True)
class PluginFile:
    """A file of the plugin, the same in every home."""

    path: str
    source: str
    new_mode: int = 0o644

    def put(self, content: bytes | None, program: Program) -> bytes:
        if content is not None and not self._ours(content):
            raise Unfit("belongs to another plugin of that name; move its directory away first")
        return self._shipped()

    def take(self, content: bytes, base: bytes | None) -> bytes | None:
        return None if self._ours(content) else content

    def current(self, content: bytes, program: Program) -> bool:
        return self._shipped() == content

    def commands(self, content: bytes) -> list[tuple[str, ...]]:
        return [("safekept",)] if self._ours(content) else []

    def lines(self, program: Program) -> str:
        return self._shipped().decode()

    def _shipped(self) -> bytes:
        with open(self.source, "rb") as file:
            return file.read()

    def _ours(self, content: bytes) -> bool:
        """As we ship it; or, of an older version or changed by hand, in a directory that is ours."""
        if content == self._shipped():
            return True
        place = os.path.dirname(self.path)
        try:
            return _AUTHOR in read_start(os.path.join(place, "plugin.yaml"), 1 << 16)
        except OSError:
            return os.path.isfile(os.path.join(place, CONNECTION))


@dataclass(frozen=True, slots=True)
class ConnectionFile:
    """How the plugin calls safekept on this machine."""

    path: str
    environment: Mapping[str, str]
    new_mode: int = 0o644

    def put(self, content: bytes | None, program: Program) -> bytes:
        kept = {name: self.environment[name] for name in _PLACES if self.environment.get(name)}
        document = {"command": list(program.words), "version": __version__, "environment": kept}
        return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()

    def take(self, content: bytes, base: bytes | None) -> bytes | None:
        return None

    def current(self, content: bytes, program: Program) -> bool:
        """By its command alone: the look may be made in another environment."""
        return self.commands(content) == [program.hook("hermes")]

    def commands(self, content: bytes) -> list[tuple[str, ...]]:
        try:
            words = json.loads(content).get("command")
        except (ValueError, AttributeError):
            return []
        return [(*map(str, words), "hook", "hermes")] if isinstance(words, list) else []

    def lines(self, program: Program) -> str:
        return self.put(None, program).decode()


def connected_user(home: str) -> str:
    """The home directory of the user whom the plugin in this home calls for; "" where nothing says."""
    try:
        document = json.loads(read_start(os.path.join(plugin_directory(home), CONNECTION), 1 << 16))
        found = document["environment"].get("HOME", "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """`config.yaml`: the plugin's name in `plugins.enabled`, and not in `plugins.disabled`."""

    path: str
    new_mode: int = 0o600

    def put(self, content: bytes | None, program: Program) -> bytes:
        return enabled(_text(content or b"")).encode()

    def take(self, content: bytes, base: bytes | None) -> bytes | None:
        left = disabled(_text(content), None if base is None else _text(base))
        return left.encode() if left or base is not None else None

    def current(self, content: bytes, program: Program) -> bool:
        return is_enabled(_text(content))

    def commands(self, content: bytes) -> list[tuple[str, ...]]:
        return [("safekept",)] if is_enabled(_text(content)) else []

    def lines(self, program: Program) -> str:
        return LINES.rstrip("\n")


File = PluginFile | ConnectionFile | ConfigFile


def host_files(home: str, environment: Mapping[str, str]) -> list[File]:
    """Every file that connecting writes; what makes Hermes load the rest comes last."""
    place = plugin_directory(home)
    source = os.path.join(HERE, "plugin")
    names = sorted(name for name in os.listdir(source) if name.endswith((".py", ".yaml")))
    found: list[File] = [PluginFile(os.path.join(place, name), os.path.join(source, name)) for name in names]
    found.append(PluginFile(os.path.join(place, "client.py"), CLIENT))
    found.append(ConnectionFile(os.path.join(place, CONNECTION), environment))
    found.append(ConfigFile(os.path.join(home, "config.yaml")))
    return found


def own_hashes() -> dict[str, str]:
    """SHA-256 of every file of the plugin as we ship it, by the end of its path in a home."""
    found = {}
    for one in host_files("", {}):
        if isinstance(one, PluginFile):
            with open(one.source, "rb") as file:
                found["/" + one.path] = hashlib.sha256(file.read()).hexdigest()
    return found


def leftovers(home: str) -> list[str]:
    """What Python and the plugin leave beside the plugin's files, to go with them; then their directory.

    Of a home that came from another machine it is not remembered that the directory was made for it.
    """
    above = plugin_directory(home)
    place = os.path.join(above, "__pycache__")
    found = []
    with contextlib.suppress(OSError):
        found = [*(os.path.join(place, name) for name in os.listdir(place) if name.endswith(".pyc")), place]
    return [*found, above] if os.path.isdir(above) else found


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Unfit("is not UTF-8 text") from None
