"""What a shell command names: files that a full pass would leave, and other projects.

A full pass follows the project's .gitignore; a file that the command itself names is kept all the same, as
if a tool had named it. The same holds for what the arguments of an unknown tool name. This is a
help and no promise: what a program makes up as it runs is not seen.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable

from ..hermes.plugin.elsewhere import named_projects, of_the_system, project_of

_WORD = re.compile(r"""[^\s'"`;|&<>()$=,]+""")
_HOME = re.compile(r"\$HOME\b|\$\{HOME\}")
#: After these the next word is where the rest works.
_GOES = frozenset({"cd", "pushd", "-C"})
#: Commands that take a directory away with all that is in it.
_TAKES_AWAY = re.compile(r"(?<![\w./-])(?:rm|rmdir|mv|find|rsync|shred|xargs|trash)(?![\w.-])")
_TOOL_TAKES_AWAY = re.compile(r"delete|remove|move|rename|trash|clean")
_EVERYTHING = re.compile(r"\*|(?<!\S)\.{1,2}/?(?!\S)")
#: Of a command, in characters; of its words; of the files and the projects that are looked at.
_LONGEST = 20_000
_WORDS = 400
_FILES = 32
_PROJECTS = 10
_PLACES = 4
#: Directories that are opened in the search for projects, two levels down.
_OPENED = 200


def named_by(command: str, directory: str, user_home: str = "") -> tuple[str, ...]:
    """Files in this directory that the command names, and what it names in other projects."""
    if not command or not os.path.isabs(directory) or "\0" in directory:
        return ()
    text = command[:_LONGEST].replace("\0", " ")
    if user_home:
        text = _HOME.sub(lambda match: user_home, text)
    takes_away = _TAKES_AWAY.search(text) is not None
    named = _Named(directory, user_home, takes_away)
    words = [match[0] for _, match in zip(range(_WORDS), _WORD.finditer(text), strict=False)]
    for before, word in zip(["", *words], words, strict=False):
        named.look(word, goes_there=before in _GOES)
    if takes_away and _EVERYTHING.search(text) and not named.here:
        named.projects_below(directory)
    return tuple(dict.fromkeys((*named.found, *named_projects(text, directory))))


def named_in(tool: str, values: Iterable[object], directory: str, user_home: str = "") -> tuple[str, ...]:
    """The same of a tool's arguments: those that are names, or lists of names."""
    if not os.path.isabs(directory) or "\0" in directory:
        return ()
    named = _Named(directory, user_home, takes_away=_TOOL_TAKES_AWAY.search(tool.lower()) is not None)
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    for one in flat[:_WORDS]:
        if isinstance(one, str) and 0 < len(one) < 4096 and one.isprintable():
            named.look(one)
    return tuple(named.found)


def at_home(path: str, directory: str, user_home: str) -> str:
    """A path with `~` as the tool will open it: some expand it, and none has a directory of that name."""
    if not user_home or not (path == "~" or path.startswith("~/")):
        return path
    return path if os.path.lexists(os.path.join(directory, "~")) else user_home + path[1:]


class _Named:
    """What the words of one command name."""

    def __init__(self, directory: str, user_home: str, takes_away: bool) -> None:
        self.places, self._user_home, self._takes_away = [directory], user_home, takes_away
        self.here = project_of(directory)
        self._below = os.path.realpath(directory) + os.sep
        self._files = self._opened = 0
        self._others: set[str] = set()  # projects beside the one around it
        self.found: dict[str, None] = {}

    def look(self, word: str, goes_there: bool = False) -> None:
        if word.startswith("-") or (word == "." and not goes_there):
            return
        for place in list(self.places):
            path = os.path.normpath(os.path.join(place, at_home(word, place, self._user_home)))
            if path == os.sep or of_the_system(path):
                return
            try:
                mode = os.stat(path).st_mode
            except (OSError, ValueError):
                if os.path.isabs(word) or goes_there:
                    self._elsewhere(path)
                continue
            if stat.S_ISREG(mode):
                self._file(path)
            elif stat.S_ISDIR(mode):
                if goes_there and len(self.places) < _PLACES and path not in self.places:
                    self.places.append(path)
                if not self._elsewhere(path) and self._takes_away and not project_of(path):
                    self.projects_below(path)

    def _file(self, path: str) -> None:
        if os.path.realpath(path).startswith(self._below):
            if self._files < _FILES:
                self.found[path] = None
                self._files += 1
        else:
            self._elsewhere(path)

    def _elsewhere(self, path: str) -> bool:
        """Whether it lies in another project, which is then looked at."""
        project = project_of(path)
        if not project or project == self.here:
            return False
        if project not in self._others:
            if len(self._others) >= _PROJECTS:
                return True
            self._others.add(project)
        elif os.path.isdir(path):
            return True  # the whole project is looked at anyway
        self.found[path if os.path.lexists(path) else project] = None
        return True

    def projects_below(self, path: str, levels: int = 2) -> None:
        """Projects in a directory that is none itself."""
        try:
            with os.scandir(path) as listing:
                inner = [one.path for one in listing if one.is_dir(follow_symlinks=False)]
        except (OSError, ValueError):
            return
        deeper = []
        for one in sorted(inner):
            self._opened += 1
            if self._opened > _OPENED or len(self._others) >= _PROJECTS:
                return
            if project_of(one) == one:
                self._elsewhere(one)
            elif not os.path.basename(one).startswith("."):
                deeper.append(one)
        if levels > 1:
            for one in deeper:
                self.projects_below(one, levels - 1)
