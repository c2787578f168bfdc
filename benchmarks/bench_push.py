"""What does it cost to take a vault off this host, beside `rclone copy` and `restic copy`?

A vault of a given size goes to a real S3 server (`rclone serve s3`) and to a real OpenSSH daemon, both on
loopback: once whole, and then night by night with some new megabytes. Every contender sends the same vault
to a place of its own. `--json` prints every measurement. See README.md for the method.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from collections.abc import Callable

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from report.ending import finish, limit_of  # noqa: E402
from report.measure import measured  # noqa: E402
from report.promises import Verdict, held  # noqa: E402
from report.results import SAFEKEPT, Result, table  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from support.offsite.servers import KEY, SECRET, Place, S3Server, SshServer, find_program  # noqa: E402

MEGABYTE = 1_000_000
PASSWORD = "not-a-secret"


class Arena:
    """One user with one vault, and the places that it is sent to."""

    def __init__(self, place: str, s3: S3Server, ssh: SshServer) -> None:
        self.place, self.s3, self.ssh = place, s3, ssh
        self.user = os.path.join(place, "user")
        self.home = os.path.join(place, "agent")
        os.makedirs(self.home)
        os.makedirs(os.path.join(self.user, "config", "safekept"))
        self.results: dict[str, Result] = {}
        self.random = random.Random(5)
        self.places: dict[tuple[str, str], Place] = {}
        self.rclone = find_program("rclone")
        self.serial = 0

    @property
    def vault(self) -> str:
        return os.path.join(self.user, "data", "safekept", "vault")

    @property
    def key_file(self) -> str:
        return os.path.join(self.user, "config", "safekept", "vault.key")

    def environment(self) -> dict[str, str]:
        kinds = ("CONFIG", "DATA", "STATE", "CACHE")
        return {
            "PATH": f"{os.path.dirname(self.rclone)}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": self.user,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            **{f"XDG_{kind}_HOME": os.path.join(self.user, kind.lower()) for kind in kinds},
        }

    def grow(self, megabytes: float) -> None:
        """New files of noise, which nobody can make smaller, and a snapshot of them."""
        left = int(megabytes * MEGABYTE)
        while left > 0:
            self.serial += 1
            size = min(left, 20 * MEGABYTE)
            with open(os.path.join(self.home, f"noise-{self.serial}"), "wb") as file:
                file.write(self.random.randbytes(size))
            left -= size
        command = [SAFEKEPT, "snapshot", "--home", self.home, "--layout", "generic", "--json"]
        measured(command, self.environment())

    def acknowledge(self) -> None:
        """The kit is kept elsewhere, as a person would say once."""
        first = os.path.join(self.place, "first")
        command = [SAFEKEPT, "push", f"file:{first}", "--acknowledge-kit", "--json"]
        self.destinations([f'[[destination]]\nname = "first"\nurl = "file:{first}"\nsame_disk = true\n'])
        measured([SAFEKEPT, "vault", "kit", "--json"], self.environment())  # it names the destination
        measured(command, self.environment())
        shutil.rmtree(first)

    def destinations(self, tables: list[str]) -> None:
        with open(os.path.join(self.user, "config", "safekept", "config.toml"), "w") as file:
            file.write("\n".join(tables))

    def fresh(self, kind: str, contender: str) -> Place:
        made = (self.s3 if kind == "s3" else self.ssh).place()
        self.places[kind, contender] = made
        return made

    # ── the contenders ──

    def safekept(self, kind: str, place: Place) -> list[str]:
        options = f'ssh_config = "{place.options.ssh_config}"\n'
        if kind == "s3":
            options = f'endpoint = "{place.options.endpoint}"\nregion = "us-east-1"\n'
        self.destinations(
            [f'[[destination]]\nname = "far"\nurl = "{place.url}"\ntakes = ["vault"]\n{options}']
        )
        return [SAFEKEPT, "push", "far", "--json"]

    def rclone_copy(self, kind: str, place: Place) -> list[str]:
        below = f"far:{place.url.removeprefix('s3://')}" if kind == "s3" else f"far:{place.directory}"
        return [
            self.rclone,
            "copy",
            self.vault,
            f"{below}/vault",
            "--exclude",
            "/locks/**",
            "--config",
            "/dev/null",
        ]

    def rclone_settings(self, kind: str) -> dict[str, str]:
        if kind == "s3":
            return {
                "RCLONE_CONFIG_FAR_TYPE": "s3",
                "RCLONE_CONFIG_FAR_PROVIDER": "Rclone",
                "RCLONE_CONFIG_FAR_ENDPOINT": self.s3.endpoint,
                "RCLONE_CONFIG_FAR_ENV_AUTH": "true",
            }
        return {
            "RCLONE_CONFIG_FAR_TYPE": "sftp",
            "RCLONE_CONFIG_FAR_HOST": "127.0.0.1",
            "RCLONE_CONFIG_FAR_PORT": str(self.ssh.port),
            "RCLONE_CONFIG_FAR_USER": os.environ.get("USER", "root"),
            "RCLONE_CONFIG_FAR_KEY_FILE": os.path.join(self.ssh.root, "user"),
            "RCLONE_CONFIG_FAR_SHELL_TYPE": "none",
        }

    def restic(self, kind: str, place: Place) -> tuple[list[str], dict[str, str]]:
        """restic and the environment that points it to a repository in that place."""
        command = ["restic"]
        if kind == "s3":
            repository = f"s3:{self.s3.endpoint}/{place.url.removeprefix('s3://')}"
        else:
            repository = f"sftp:far:{place.directory}"
            ssh = f"ssh -F {self.ssh.ssh_config} -p {self.ssh.port} 127.0.0.1 -s sftp"
            command += ["-o", f"sftp.command={ssh}"]
        return command, {
            **self.environment(),
            "RESTIC_REPOSITORY": repository,
            "RESTIC_PASSWORD": PASSWORD,
        }

    def record(self, name: str, command: list[str], environment: dict[str, str], directory: str) -> None:
        before = tree_bytes(directory)
        run = measured(command, environment)
        result = self.results.setdefault(name, Result())
        result.runs.append(run)
        result.output_bytes.append(tree_bytes(directory) - before)

    def send(self, kind: str, contender: str, job: str) -> None:
        """One contender does one job; a first time goes to a place that nobody used before."""
        place = self.fresh(kind, contender) if job == "first" else self.places[kind, contender]
        name = f"{contender} {kind} {job}"
        if contender == "safekept":
            self.record(name, self.safekept(kind, place), self.environment(), place.directory)
        elif contender == "rclone copy":
            settings = {**self.environment(), **self.rclone_settings(kind)}
            self.record(name, self.rclone_copy(kind, place), settings, place.directory)
        else:
            command, settings = self.restic(kind, place)
            if job == "first":
                measured([*command, "init"], settings)
            settings |= {
                "RESTIC_FROM_REPOSITORY": self.vault,
                "RESTIC_FROM_PASSWORD_FILE": self.key_file,
            }
            self.record(name, [*command, "copy", "-q"], settings, place.directory)


CONTENDERS = ("safekept", "rclone copy", "restic copy")


def tree_bytes(path: str) -> int:
    return sum(
        os.lstat(os.path.join(directory, name)).st_size
        for directory, _, names in os.walk(path)
        for name in names
    )


def race(arena: Arena, kinds: list[str], rounds: int, nights: int, say: Callable[[str], None]) -> None:
    for kind in kinds:
        for number in range(rounds):
            order = CONTENDERS[number % 3 :] + CONTENDERS[: number % 3]
            for contender in order:
                say(f"{kind}, first, round {number + 1} of {rounds}: {contender} ...")
                arena.send(kind, contender, "first")
    for night in range(nights):
        arena.grow(10)
        for kind in kinds:
            order = CONTENDERS[night % 3 :] + CONTENDERS[: night % 3]
            for contender in order:
                say(f"{kind}, night {night + 1} of {nights}: {contender} ...")
                arena.send(kind, contender, "night")


def verdicts(results: dict[str, Result], kinds: list[str]) -> list[Verdict]:
    found = []
    for kind in kinds:
        fastest = min(results[f"{one} {kind} first"].seconds for one in CONTENDERS[1:])
        first = fastest / results[f"safekept {kind} first"].seconds
        found.append(held("push", "first: speed relative to the fastest peer", first, of=kind))
        if f"safekept {kind} night" in results:
            night = results[f"rclone copy {kind} night"].seconds / results[f"safekept {kind} night"].seconds
            found.append(held("push", "a night of 10 MB: speed relative to rclone copy", night, of=kind))
    peak = max(result.peak for name, result in results.items() if name.startswith("safekept"))
    found.append(held("push", "peak memory of every push", peak / MEGABYTE))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench push", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--size", type=float, default=1.0, help="gigabytes in the vault")
    parser.add_argument("--rounds", type=int, default=3, help="how often the whole vault is sent")
    parser.add_argument("--nights", type=int, default=5, help="nights of 10 MB; 0 for none")
    parser.add_argument("--kinds", default="s3,sftp", help="s3, sftp, or both")
    parser.add_argument("--directory", default="/tmp/safekept-bench", help="where the work is done")
    options = parser.parse_args()
    kinds = options.kinds.split(",")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    os.makedirs(options.directory, exist_ok=True)
    # Sockets and configuration files of ssh want a short path.
    with Scratch(dir=options.directory, prefix="push-") as place:
        s3, ssh = S3Server(place), SshServer(place)
        try:
            arena = Arena(place, s3, ssh)
            say(f"a vault of {options.size:g} GB ...")
            arena.grow(1)
            arena.acknowledge()
            arena.grow(options.size * 1000)
            race(arena, kinds, options.rounds, options.nights, say)
            size = tree_bytes(arena.vault)
        finally:
            s3.end()
            ssh.end()
    judged = verdicts(arena.results, kinds)
    document = {
        "vault_bytes": size,
        "race": {name: result.as_dict() for name, result in arena.results.items()},
    }
    lines = [f"Vault: {size / MEGABYTE:,.0f} MB; servers on the same machine", "", *table(arena.results)]
    ours = [name for name in arena.results if name.startswith("safekept")]
    limit = limit_of(arena.results, ours)
    return finish(judged, document, lines, limit=limit, as_json=options.json)


if __name__ == "__main__":
    assert shutil.which("restic"), "restic is missing; ./bench installs it"
    sys.exit(main())
