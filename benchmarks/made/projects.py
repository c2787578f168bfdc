"""Seeded projects for the checkpoint benchmark: source files of 0.4 to 9 KB, forty to a directory."""

from __future__ import annotations

import os
import random


def make_project(path: str, files: int, seed: int = 4) -> None:
    """A project of so many files (and a marker at its root), always the same for the same numbers."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("etaoinshrdlucmfw_", k=chance.randint(2, 10))) for _ in range(3000)]
    weights = [1 / (rank + 2) for rank in range(len(words))]
    # Text is dear to make: a pool of lines, from which every file takes its own selection.
    lines = [
        "    " * chance.randint(0, 3) + " ".join(chance.choices(words, weights, k=chance.randint(2, 9)))
        for _ in range(5000)
    ]
    os.makedirs(path)
    with open(os.path.join(path, "pyproject.toml"), "w", encoding="utf-8") as file:
        file.write('[project]\nname = "bench"\n')
    for number in range(files):
        directory = os.path.join(path, f"d{number // 40:04}")
        if number % 40 == 0:
            os.makedirs(directory)
        text = f"# {seed}-{number}\n" + "\n".join(chance.choices(lines, k=chance.randint(10, 190))) + "\n"
        with open(os.path.join(directory, f"f{number:06}.py"), "w", encoding="utf-8") as file:
            file.write(text)
