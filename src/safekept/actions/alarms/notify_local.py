"""Telling by a program on this machine: sendmail, or a command of the user's own.

Neither is run by a shell. A program that is not done in time is ended, with whatever it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .notify import Notice


class Local:
    """Programs with a deadline, in the environment that it is given."""

    def __init__(self, environment: Mapping[str, str], deadline: float) -> None:
        self._environment, self._deadline = environment, deadline

    def mail(self, sendmail: str, addresses: Sequence[str], notice: Notice) -> str:
        """A plain-text mail by `sendmail -t`, which every mail program of a Unix brings along."""
        from email.message import EmailMessage
        from email.policy import SMTP

        facts = notice.as_dict()
        message = EmailMessage(policy=SMTP.clone(linesep="\n"))
        message["To"] = ", ".join(addresses)
        message["Subject"] = " ".join(f"[safekept] {notice.title}".split())
        message["Auto-Submitted"] = "auto-generated"
        lines = [notice.text or notice.title, "", f"Host: {facts['host']}", f"Time: {facts['time']}"]
        message.set_content("\n".join([*lines, *([f"Home: {notice.home}"] if notice.home else []), ""]))
        return self._run((sendmail, "-i", "-t"), message.as_bytes(), {})

    def command(self, words: Sequence[str], notice: Notice) -> str:
        """The facts as JSON on its stdin, and the few that a shell script wants in its environment."""
        variables = {
            "SAFEKEPT_NOTICE_KIND": notice.kind,
            "SAFEKEPT_NOTICE_TITLE": notice.title,
            "SAFEKEPT_NOTICE_TEXT": notice.text,
            "SAFEKEPT_NOTICE_HOME": notice.home,
        }
        return self._run(words, json.dumps(notice.as_dict()).encode() + b"\n", variables)

    def _run(self, words: Sequence[str], given: bytes, variables: Mapping[str, str]) -> str:
        try:
            process = subprocess.Popen(
                list(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**self._environment, **variables},
                start_new_session=True,  # so that it can be ended with its children
            )
        except (OSError, ValueError) as error:
            return f"it cannot be run: {getattr(error, 'strerror', None) or type(error).__name__}"
        with process:
            try:
                process.communicate(given, timeout=self._deadline)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return "it was not done in time, and was ended"
        return "" if process.returncode == 0 else f"it ended with status {process.returncode}"
