"""What a full pass leaves out by name, and what is never stored at all.

The list of exclusions is Hermes 0.19.0's, so that both keep the same files; it is for bulk, and a file
that is named is taken all the same. Secrets are another matter: they are never stored, named or not, and
the checkpoint says so. All of it is decided by name, before anything is opened.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from safekept.core.files import TEMPORARY_PREFIX

DIRECTORIES = (
    "node_modules dist build target out .next .nuxt __pycache__ .cache .pytest_cache .mypy_cache .ruff_cache "
    "coverage .venv venv env .hg .svn .worktrees"
).split()
FILES = (
    "*.pyc *.pyo .coverage *.so *.dylib *.dll *.o *.a *.jar *.class *.exe *.obj *.mp4 *.mov *.mkv *.webm "
    "*.zip *.tar *.tar.gz *.tgz *.7z *.rar *.iso .DS_Store Thumbs.db *.log"
).split()
SECRET_DIRECTORIES = (".ssh", ".gnupg", ".aws", ".secrets", "mcp-tokens", "browser_auth")
SECRET_FILES = (
    ".env .env.* *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk id_rsa id_dsa id_ecdsa id_ed25519 "
    ".netrc _netrc .pgpass .pypirc .htpasswd .git-credentials credentials credentials.json "
    # What agents keep in their homes: also where a copy of one lies in a project.
    ".credentials.json oauth_creds.json gemini-credentials.json mcp-oauth-tokens.json .anthropic_oauth.json "
    "google_token.json google_oauth.json google_oauth_pending.json google_client_secret.json "
    "slack_tokens.json nous_auth.json auth-profiles.json"
).split()
#: A secret in an agent's home and often something else elsewhere: what lies beside it tells.
AMBIGUOUS = b"auth.json"
BESIDE = (b"state.db", b"SOUL.md", b"session_index.jsonl", b"installation_id", b"history.jsonl")
#: Templates that carry the name of a secret and none of it.
NO_SECRETS = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults")

_OURS = TEMPORARY_PREFIX.encode()


class Rules:
    """Decides on names. `excluded` is what the user leaves out beside the list.

    A pattern with a slash inside is matched against the path in the project, one that ends in a slash
    only against directories, any other against the name at any depth. `!pattern` takes something back.
    """

    def __init__(
        self,
        excluded: tuple[str, ...] = (),
        root: bytes = b"",
        secret: Callable[[str], bool] | None = None,
    ) -> None:
        self.excluded = excluded
        self._root, self._secret_of_home = root, secret
        back = [pattern[1:] for pattern in excluded if pattern.startswith("!")]
        more = [pattern for pattern in excluded if pattern and not pattern.startswith("!")]
        taken_back = {pattern.rstrip("/") for pattern in back}
        names = [pattern for pattern in more if "/" not in pattern.rstrip("/")]
        self._directories = _union(
            [name for name in DIRECTORIES if name not in taken_back] + [name.rstrip("/") for name in names]
        )
        self._files = _union(
            [name for name in FILES if name not in taken_back]
            + [name for name in names if not name.endswith("/")]
        )
        self._own_directories = _union([name.rstrip("/") for name in names])
        self._own_files = _union([name for name in names if not name.endswith("/")])
        self._paths = _union([pattern.strip("/") for pattern in more if "/" in pattern.rstrip("/")])
        self._secret_files, self._secret_directories = _union(SECRET_FILES), _union(SECRET_DIRECTORIES)
        self._no_secrets = frozenset(map(os.fsencode, NO_SECRETS))

    def decide(self, directory: bytes, name: bytes, is_directory: bool) -> str | None:
        """The reason why a name is left out: "git", "secret", "excluded"; None to keep it."""
        if name[:1] == b"." and name.lower() == b".git":
            return "git"
        if self.ours(name):
            return "excluded"  # staged by a rollback that runs, or was killed
        if is_directory:
            if self._secret_directories.match(name):
                return "secret"
            if self._directories.match(name):
                return "excluded"
        elif self._secret_name(directory, name):
            return "secret"
        elif self._files.match(name):
            return "excluded"
        if self.excluded and self._paths.match(directory + b"/" + name if directory else name):
            return "excluded"
        return None

    @staticmethod
    def ours(name: bytes) -> bool:
        """Whether it is a name that only safekept gives, for a moment."""
        return name.startswith(_OURS)

    def by_user(self, directory: bytes, name: bytes, is_directory: bool) -> bool:
        """Whether a user's own pattern leaves it out, and not the list."""
        if not self.excluded:
            return False
        own = self._own_directories if is_directory else self._own_files
        path = directory + b"/" + name if directory else name
        return bool(own.match(name) or self._paths.match(path))

    def secret(self, path: bytes) -> bool:
        """Whether a file lies in a place for secrets or is one by its name."""
        *above, name = path.split(b"/")
        if any(self._secret_directories.match(part) for part in above):
            return True
        return self._secret_name(b"/".join(above), name)

    def _secret_name(self, directory: bytes, name: bytes) -> bool:
        if self._secret_files.match(name) and name not in self._no_secrets:
            return True
        if not self._root:
            return False
        place = os.path.join(self._root, directory)
        if self._secret_of_home is not None and self._secret_of_home(os.fsdecode(os.path.join(place, name))):
            return True
        return name == AMBIGUOUS and any(os.path.lexists(os.path.join(place, one)) for one in BESIDE)

    def fingerprint(self) -> bytes:
        """Changes when any decision may have changed."""
        homes = self._secret_of_home is not None
        return repr((DIRECTORIES, FILES, SECRET_FILES, SECRET_DIRECTORIES, self.excluded, homes)).encode()


def _union(patterns: Iterable[str]) -> re.Pattern[bytes]:
    """One expression for many patterns; it matches nothing where there are none."""
    return _expression(tuple(patterns))


@lru_cache(maxsize=64)  # a process that answers one agent after the other makes them once
def _expression(patterns: tuple[str, ...]) -> re.Pattern[bytes]:
    parts = [fnmatch.translate(pattern).encode("utf-8", "surrogateescape") for pattern in patterns]
    return re.compile(b"|".join(parts) if parts else rb"(?!)")
