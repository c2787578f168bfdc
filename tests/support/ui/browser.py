"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from support.ui.served import ServedPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """One browser for many tests."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def tab(browser: Browser, page: ServedPage, **options: Any) -> Iterator[Page]:
    """A tab of a person who came in by the link, with whatever size, colours and scripts they have."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
    name, _, value = page.cookie.partition("=")
    cookie = {"name": name, "value": value, "url": page.origin, "httpOnly": True, "sameSite": "Strict"}
    context.add_cookies([cookie])  # type: ignore[list-item]
    context.set_default_timeout(120_000)
    try:
        yield context.new_page()
    finally:
        context.close()
