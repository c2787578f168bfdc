"""Seeded makers of large, realistic homes, built once and kept for the next run.

The chat database has the real Hermes schema, made by the real Hermes, filled in bulk: messages,
tool calls and both full-text indexes through Hermes's own triggers. The text is neither random
bytes nor a repeated phrase: words of a made-up language with the frequencies of a natural one,
mixed with identifiers, paths, numbers and JSON. Deflate makes about half of it, as of a real home.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import dataclass

#: Raise this when the makers change, so that kept homes are made anew.
VERSION = 1
GIGABYTE = 1_000_000_000

#: Of one gigabyte: a database of 700 MB, 20,000 small files of together 40 MB, the rest in JSONL.
DATABASE_SHARE = 0.70
SMALL_FILES = 20_000
SMALL_SHARE = 0.04

#: How much of what is said are phrases rather than single words, and what that makes of a count.
PHRASES = 1.0
WORDS_PER_UNIT = 2.9
BYTES_PER_WORD = 4.6  # over the three kinds of small files


@dataclass(frozen=True)
class Home:
    """A made home and what is in it."""

    path: str
    gigabytes: float
    files: int
    bytes: int
    database_bytes: int
    messages: int


class Language:
    """Sentences of a made-up language, with the two regularities that a compressor lives on.

    Words fall in frequency as in natural text, and every third thing said is a phrase that was
    said before: 20,000 of them, also falling in frequency.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        onsets = [*"b br c ch d dr f fl g gr h j k l m n p pl pr qu r s sh sl st t th tr v w".split(), ""]
        vowels = "a e i o u ai ea ee ou oo y".split()
        codas = [*"b ck d f g l ll m n nd ng nt p r rd s ss st t th x".split(), "", "", ""]
        words: dict[str, None] = {}
        while len(words) < 30_000:
            syllables = self.rng.choices((1, 2, 3, 4), (30, 40, 22, 8))[0]
            parts = (
                self.rng.choice(onsets) + self.rng.choice(vowels) + self.rng.choice(codas)
                for _ in range(syllables)
            )
            words["".join(parts)] = None
        self.words = sorted(words, key=lambda word: (len(word), self.rng.random()))
        weights = [1 / (rank + 2.7) for rank in range(len(self.words))]
        cumulative = list(itertools.accumulate(weights))
        phrases = [
            " ".join(self.rng.choices(self.words, cum_weights=cumulative, k=self.rng.randrange(3, 8)))
            for _ in range(20_000)
        ]
        share = PHRASES * sum(weights)
        falling = [1 / (rank + 20) for rank in range(len(phrases))]
        scale = share / sum(falling)
        self.units = [*self.words, *phrases]
        self.weights = list(itertools.accumulate([*weights, *(weight * scale for weight in falling)]))

    def text(self, count: int) -> str:
        """About `count` words, with the odd number, path, identifier and line break."""
        rng = self.rng
        count = max(2, int(count / WORDS_PER_UNIT))
        chosen = rng.choices(self.units, cum_weights=self.weights, k=count)
        for place in range(rng.randrange(3, 18), count, rng.randrange(20, 50)):
            chosen[place] = self.oddity(rng.choice(self.words))
        for place in range(rng.randrange(4, 8), count, 8):
            chosen[place] = chosen[place].capitalize() + rng.choice((".", ".", ",", "?", ":\n", ".\n\n"))
        return " ".join(chosen)

    def output(self, count: int) -> str:
        """What a tool prints: listings and logs, whose lines resemble each other."""
        rng = self.rng
        stem = f"/home/user/{rng.choice(self.words)}/src/{rng.choice(self.words)}"
        lines = []
        for number in range(max(2, count // 9)):
            name = self.words[min(int(rng.paretovariate(0.7)) * 7, len(self.words) - 1)]
            if rng.random() < 0.5:
                size, day = rng.randrange(200, 9000), rng.randrange(1, 29)
                lines.append(
                    f"-rw-r--r-- 1 user user {size:6} Jun {day:2} 12:{number % 60:02} {stem}/{name}.py"
                )
            else:
                lines.append(
                    f"2026-06-01 09:{number % 60:02}:00 INFO agent.tools.{name}: {rng.choice(self.units)}"
                )
        return "\n".join(lines)

    def oddity(self, word: str) -> str:
        rng = self.rng
        kind = rng.randrange(6)
        if kind == 0:
            return f"{rng.getrandbits(64):016x}"
        if kind == 1:
            return f"/home/user/{word}/{rng.choice(self.words)}_{rng.randrange(1000)}.py"
        if kind == 2:
            return str(rng.randrange(10**9))
        if kind == 3:
            return f"`{word}_{rng.choice(self.words)}()`"
        if kind == 4:
            return f"{rng.randrange(2024, 2027)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        return f"https://{word}.example/{rng.getrandbits(40):x}"

    def tool_calls(self) -> str:
        arguments = json.dumps({"path": self.oddity("src"), "content": self.text(40)})
        name = self.rng.choice(("write_file", "terminal", "read_file", "patch", "search_files"))
        call = {"id": f"call_{self.rng.getrandbits(96):024x}", "type": "function"}
        return json.dumps([{**call, "function": {"name": name, "arguments": arguments}}])


def kept_home(directory: str, gigabytes: float, hermes_python: str) -> Home:
    """The home of that size, made now or found from an earlier run."""
    place = os.path.join(directory, f"home-v{VERSION}-{gigabytes:g}")
    facts = os.path.join(place, "facts.json")
    if not os.path.exists(facts):
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        home = make_home(os.path.join(place, ".hermes"), gigabytes, hermes_python)
        with open(facts, "w") as file:
            json.dump(home.__dict__, file)
    with open(facts) as file:
        return Home(**json.load(file))


def make_home(path: str, gigabytes: float, hermes_python: str, seed: int = 1) -> Home:
    """A Hermes home of about that many bytes."""
    language = Language(seed)
    os.makedirs(path)
    small_things(path, language)
    files = small_files(path, language, int(SMALL_FILES * gigabytes), int(SMALL_SHARE * GIGABYTE * gigabytes))
    database = os.path.join(path, "state.db")
    messages = fill_database(database, language, int(DATABASE_SHARE * GIGABYTE * gigabytes), hermes_python)
    rest = int(GIGABYTE * gigabytes * (1 - DATABASE_SHARE - SMALL_SHARE))
    files += transcripts(os.path.join(path, "sessions"), language, rest)
    total = sum(
        os.lstat(os.path.join(directory, name)).st_size
        for directory, _, names in os.walk(path)
        for name in names
    )
    return Home(path, gigabytes, files + 6, total, os.path.getsize(database), messages)


def small_things(path: str, language: Language) -> None:
    """What makes it a Hermes home."""
    things = {
        "config.yaml": "model:\n  provider: openrouter\n  default: some/model\n",
        ".env": "OPENROUTER_API_KEY=not-a-key\n",
        "auth.json": "{}",
        "SOUL.md": language.text(200),
        "memories/MEMORY.md": "\n§\n".join(language.text(30) for _ in range(20)),
        "cron/jobs.json": json.dumps({"jobs": [{"id": "1", "prompt": language.text(20)}]}),
    }
    for name, text in things.items():
        os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
        with open(os.path.join(path, name), "w") as file:
            file.write(text)


def small_files(path: str, language: Language, count: int, size: int) -> int:
    """Markdown, JSON and Python in directories of twenty, as skills are."""
    words = max(1, int(size / count / BYTES_PER_WORD))
    for number in range(count):
        directory = os.path.join(path, "skills", f"group-{number // 400:03}", f"skill-{number // 20:05}")
        if number % 20 == 0:
            os.makedirs(directory)
        length = max(8, int(language.rng.expovariate(1 / words)))
        kind = number % 3
        if kind == 0:
            name, text = f"note-{number}.md", f"# {language.text(4)}\n\n{language.text(length)}\n"
        elif kind == 1:
            record = {"id": number, "body": language.text(length // 2), "tags": language.text(8).split()}
            name, text = f"data-{number}.json", json.dumps(record, indent=2)
        else:
            lines = [
                f"    {language.rng.choice(language.words)} = {language.oddity('x')!r}"
                for _ in range(length // 6)
            ]
            name, text = f"tool_{number}.py", "def main():\n" + "\n".join(lines) + "\n    return None\n"
        with open(os.path.join(directory, "SKILL.md" if number % 20 == 0 else name), "w") as file:
            file.write(text)
    return count


def fill_database(path: str, language: Language, size: int, hermes_python: str) -> int:
    """Messages through Hermes's own schema and triggers until the file has its size."""
    script = "import sys, pathlib; from hermes_state import *; SessionDB(pathlib.Path(sys.argv[1])).close()"
    with tempfile.TemporaryDirectory() as nowhere:
        environment = {"PATH": os.environ["PATH"], "HOME": nowhere, "HERMES_HOME": nowhere}
        subprocess.run(
            [hermes_python, "-I", "-c", script, path], check=True, env=environment, stdout=subprocess.DEVNULL
        )
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode=off")
        connection.execute("pragma synchronous=off")
        connection.execute("pragma cache_size=-400000")
        page_size = connection.execute("pragma page_size").fetchone()[0]
        messages = 0
        while connection.execute("pragma page_count").fetchone()[0] * page_size < size:
            session = f"{messages:08}"
            connection.execute("begin")
            connection.execute(
                "insert into sessions(id, source, model, title, started_at)"
                " values (?, 'cli', 'some/model', ?, ?)",
                (session, f"{language.text(5)} {session}", 1_780_000_000 + messages),
            )
            connection.executemany(
                "insert into messages(session_id, role, content, tool_calls, timestamp)"
                " values (?, ?, ?, ?, ?)",
                (message(language, session, number) for number in range(200)),
            )
            connection.execute("commit")
            messages += 200
        connection.execute("pragma journal_mode=wal")
    os.chmod(path, 0o600)
    return messages


def message(language: Language, session: str, number: int) -> tuple[str, str, str, str | None, float]:
    role = ("user", "assistant", "tool")[number % 3]
    words = int(language.rng.lognormvariate(4.2, 1.0)) + 3
    calls = language.tool_calls() if role == "assistant" and language.rng.random() < 0.5 else None
    text = language.output(words * 2) if role == "tool" else language.text(words)
    return session, role, text[:20_000], calls, 1_780_000_000.0 + number


def transcripts(path: str, language: Language, size: int) -> int:
    """JSONL files of some megabytes each."""
    os.makedirs(path)
    written = number = 0
    while written < size:
        with open(os.path.join(path, f"session-{number:05}.jsonl"), "w") as file:
            for _ in range(4000):
                line = {
                    "role": "user",
                    "id": f"{language.rng.getrandbits(64):016x}",
                    "content": language.text(90),
                }
                file.write(json.dumps(line) + "\n")
                if written + file.tell() >= size:
                    break
            written += file.tell()
        number += 1
    return number


if __name__ == "__main__":
    checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    python = os.path.join(checkout, ".setup", "hermes", "bin", "python")
    print(kept_home(sys.argv[1], float(sys.argv[2]), python))
