"""Rules: what a layout leaves out, and why.

Every rule carries a reason in words a person understands; a scan reports each use of one with a
count. A rule is either a place (an anchored pattern) or a proof (a directory that holds
`pyvenv.cfg` is a virtual environment wherever it stands). A bare name is never a rule: that is how
`skills/foo/backups` was once lost.
"""

from __future__ import annotations

from safekept.core.records import dataclass

from .patterns import Pattern


@dataclass(frozen=True, slots=True)
class Rule:
    """An anchored exclusion."""

    pattern: Pattern
    reason: str
    root_only: bool = False  # not at the roots of profiles
    always: bool = False  # `--include` does not bring it back
    proof: tuple[str, ...] = ()  # paths below it, one of which must exist for the rule to hold

    @property
    def text(self) -> str:
        return self.pattern.text


@dataclass(frozen=True, slots=True)
class Proven:
    """A tree that proves by its content, or by its neighbour, that it can be rebuilt."""

    reason: str
    contains: str = ""  # a file directly inside it
    signature: bytes = b""  # how that file must begin
    name: str = ""  # with `beside`: the directory's own name …
    beside: str = ""  # … and a file next to it
    beneath: Pattern | None = None  # holds only below such a directory

    @property
    def text(self) -> str:
        if self.contains:
            return f"a directory with `{self.contains}`"
        return f"`{self.name}` beside `{self.beside}`"


@dataclass(frozen=True, slots=True)
class External:
    """State that an agent keeps outside its home: always, or when one of its settings says so."""

    path: str  # relative to the user's home directory
    file: str = ""  # a YAML file at the root of a home or profile …
    key: str = ""  # … the dotted setting in it …
    equals: str = ""  # … and its value; all three empty: always
    variable: str = ""  # an environment variable that moves it
    variable_suffix: str = ""  # what the agent appends to that variable's value
    note: str = ""  # what is not covered, if anything

    @property
    def prefix(self) -> str:
        return f"_external/{self.path}"


@dataclass(frozen=True, slots=True)
class Count:
    """One class of the census: what is counted, and where."""

    name: str
    patterns: tuple[Pattern, ...]
    kind: str  # one of COUNT_KINDS
    query: str = ""  # of a database
    delimiter: str = ""  # between sections
    key: str = ""  # where the list is in a JSON document
    watch: tuple[str, ...] = ()  # fields of its items that only their owner changes: the prompt of a job
    restore: bool = False  # where nothing of it is left, that is a loss beyond doubt

    @property
    def by_name(self) -> bool:
        """Whether a file counts by being there: nothing of it has to be read."""
        return self.kind in ("files", FILE)


COUNT_KINDS = (
    "query",  # the answer of a query, in the same committed state that is captured
    "files",  # files
    "sections",  # non-empty parts of text files between delimiters
    "json",  # items of a JSON list or object
    "yaml",  # single values in a YAML file
    "yaml-sections",  # keys at its top
)
#: One file that stays once it is there, counted by its path; not written in a layout, see `lasting` there.
FILE = "file"


def is_file(name: str) -> bool:
    """Whether a class of the census is one file, by its path: those have a dot, and no other class has."""
    return "." in name
