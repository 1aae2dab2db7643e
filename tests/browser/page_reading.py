"""Reading what the page shows."""

from __future__ import annotations

from playwright.sync_api import Page


def answer(page: Page) -> str:
    """Return the text of the last answer."""
    return page.locator(".turn .parts").last.inner_text().strip()
