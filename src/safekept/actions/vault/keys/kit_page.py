"""The kit as a page: plain text, and HTML that prints well. Commands stand alone on their lines."""

from __future__ import annotations

import html
import textwrap

from .kit import Kit

#: What every command starts with in the text, so that it is known from prose, also by a test.
INDENT = "    "

_WARNING = (
    "Anyone with this page and the vault can read everything in it. Print it or keep it somewhere else than "
    "the machine: it is of no use if it is lost together with the key."
)

_STYLE = """
body { font: 11pt/1.5 serif; max-width: 46em; margin: 2em auto; padding: 0 1em; color: #000 }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 1.6em }
pre, td + td { font-family: monospace; overflow-wrap: anywhere }
pre { white-space: pre-wrap; border: 1px solid #999; padding: .6em; font-size: .9em }
td { vertical-align: top; padding: .1em 1em .1em 0 }
.warning { border-left: 4px solid #000; padding-left: 1em }
@media print { body { margin: 0 } h2, pre { break-inside: avoid } }
"""


def as_text(kit: Kit) -> str:
    lines = [kit.title, "=" * len(kit.title), "", *textwrap.wrap(_WARNING, 96), ""]
    lines += [f"{name:<9} {value}" for name, value in kit.facts]
    for section in kit.sections:
        lines += ["", section.title, "-" * len(section.title)]
        for paragraph in section.text:
            lines += textwrap.wrap(paragraph, 96, break_long_words=False, break_on_hyphens=False)
        if section.commands:
            lines += ["", *(INDENT + command for command in section.commands)]
    return "\n".join(lines) + "\n"


def as_html(kit: Kit) -> str:
    rows = "\n".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in kit.facts
    )
    parts = []
    for section in kit.sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{html.escape(paragraph)}</p>" for paragraph in section.text]
        if section.commands:
            parts.append("<pre>" + html.escape("\n".join(section.commands)) + "</pre>")
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(kit.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(kit.title)}</h1>\n"
        f'<p class="warning">{html.escape(_WARNING)}</p>\n'
        f"<table>\n{rows}\n</table>\n{body}\n</body>\n</html>\n"
    )
