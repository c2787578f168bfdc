"""How fast is a sealed archive, beside `tar -cz | gpg --encrypt` on the same home?

See README.md for the data and the method. Prints a table of medians, ratios and targets; `--json` prints
every single measurement.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from bench_archive import MEGABYTE, Arena, read_through  # noqa: E402
from made.datasets import Home, kept_home  # noqa: E402
from report.ending import finish, limit_of  # noqa: E402
from report.measure import measured  # noqa: E402
from report.promises import Verdict, held  # noqa: E402
from report.results import HERMES_PYTHON, SAFEKEPT, Result, table  # noqa: E402
from report.scratch import Scratch  # noqa: E402

PEER, PEER_BACK = "tar -cz | gpg --encrypt", "gpg --decrypt | tar -xz"
NAME = "keeper@example.org"


class Keys:
    """A pair of age, and a keyring of gpg in a short place, since its sockets need a short name."""

    def __init__(self, directory: str) -> None:
        self.ring = tempfile.mkdtemp(prefix="hf-", dir="/tmp")
        self.identity = os.path.join(directory, "age.key")
        made = subprocess.run(["age-keygen", "-o", self.identity], check=True, capture_output=True, text=True)
        self.public = made.stderr.split()[-1]
        words = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", NAME]
        subprocess.run([*words, "default", "default", "never"], check=True, env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": self.ring, "GNUPGHOME": self.ring}

    def close(self) -> None:
        subprocess.run(["gpgconf", "--kill", "all"], env=self.environment, check=False)
        shutil.rmtree(self.ring, ignore_errors=True)


class SealArena(Arena):
    """The contenders that seal a home, and open it again."""

    def __init__(self, home: Home, place: str, keys: Keys) -> None:
        super().__init__(home, place)
        self.keys = keys

    def environment(self, home: str) -> dict[str, str]:
        return {**super().environment(home), "GNUPGHOME": self.keys.ring}

    def tar_gpg(self) -> str:
        output = os.path.join(self.fresh("peer"), "home.tar.gz.gpg")
        parent, name = os.path.split(self.home.path)
        script = (
            'set -o pipefail; tar -czf - -C "$1" "$2" '
            f'| gpg --batch --quiet --trust-model always -r {NAME} -o "$3" --encrypt'
        )
        command = ["bash", "-c", script, "bash", parent, name, output]
        self.record(PEER, measured(command, self.environment(self.home.path)), output)
        return output

    def sealed(self, to: str, form: str) -> str:
        kind = "gpg" if to.startswith("gpg") else "age"
        output = os.path.join(self.fresh("safekept"), f"home.{form}.{kind}")
        command = [SAFEKEPT, "backup", "--format", form, "--seal", to, "-o", output]
        with self.agent():
            run = measured(command, self.environment(self.home.path))
        self.record(f"safekept backup {form}, {kind}", run, output)
        return output

    def open_archive(self, form: str) -> str:
        """The same archive without a seal, to see what sealing itself costs."""
        return self.safekept_archive(form)

    def gpg_tar(self, archive: str) -> None:
        target = self.fresh("peer-target")
        script = 'set -o pipefail; gpg --batch --quiet --decrypt "$1" | tar -xz --strip-components=1 -C "$2"'
        run = measured(["bash", "-c", script, "bash", archive, target], self.environment(target))
        self.check_import(target)
        self.record(PEER_BACK, run)

    def opened(self, archive: str) -> None:
        target = self.fresh("safekept-target")
        form, kind = os.path.basename(archive).removeprefix("home.").rsplit(".", 1)
        command = [SAFEKEPT, "import", archive, "-f", "--identity", self.keys.identity]
        run = measured(command, self.environment(target))
        self.check_import(target)
        self.record(f"safekept import {form}, {kind}", run)

    def round(self, number: int) -> None:
        """Every contender once; the order turns around from round to round."""
        made: dict[str, str] = {}

        def keep(name: str, job: Callable[[], str]) -> Callable[[], None]:
            return lambda: made.__setitem__(name, job())

        making = [
            keep("peer", self.tar_gpg),
            keep("open", lambda: self.open_archive("tar.zst")),
            keep("age", lambda: self.sealed(self.keys.public, "tar.zst")),
            keep("gpg", lambda: self.sealed(f"gpg:{NAME}", "tar.zst")),
            keep("zip", lambda: self.sealed(self.keys.public, "zip")),
        ]
        taking = [
            lambda: self.gpg_tar(made["peer"]),
            lambda: self.opened(made["age"]),
            lambda: self.opened(made["gpg"]),
            lambda: self.opened(made["zip"]),
        ]
        for jobs in (making, taking):
            for job in jobs if number % 2 == 0 else reversed(jobs):
                job()


def verdicts(results: dict[str, Result]) -> list[Verdict]:
    peer = results[PEER]
    most = max(result.peak for name, result in results.items() if name.startswith("safekept")) / MEGABYTE
    found = [
        held(
            "seal",
            "times faster than tar -cz | gpg --encrypt",
            peer.seconds / results[f"safekept backup tar.zst, {kind}"].seconds,
            of=kind,
        )
        for kind in ("age", "gpg")
    ]
    return [*found, held("seal", "peak memory of every safekept command", most)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench seal", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--size", type=float, default=1.0, help="gigabytes of the home")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", default="/tmp/safekept-bench", help="where homes are kept")
    options = parser.parse_args()
    os.makedirs(options.directory, exist_ok=True)
    home = kept_home(options.directory, options.size, HERMES_PYTHON)
    with Scratch(dir=options.directory, prefix="race-") as place:
        keys = Keys(place)
        try:
            arena = SealArena(home, place, keys)
            read_through(home.path)
            for number in range(options.rounds):
                print(f"round {number + 1} of {options.rounds} ...", file=sys.stderr, flush=True)
                arena.round(number)
            results = arena.results
        finally:
            keys.close()
    judged = verdicts(results)
    document = {
        "home": asdict(home),
        "race": {name: result.as_dict() for name, result in results.items()},
    }
    lines = [f"Home: {home.bytes / MEGABYTE:,.0f} MB, {home.files:,} files; {options.rounds} rounds", ""]
    limit = limit_of(results, [f"safekept backup tar.zst, {kind}" for kind in ("age", "gpg")])
    return finish(judged, document, [*lines, *table(results)], limit=limit, as_json=options.json)


if __name__ == "__main__":
    missing = [name for name in ("age-keygen", "gpg", "zstd") if not shutil.which(name)]
    assert not missing, f"missing: {missing}; ./bench installs them"
    sys.exit(main())
