"""Somebody at a browser: signed in, and with an eye on everything that goes wrong behind the page."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Dialog, Page, expect
from tests.browser.site import Site
from tests.support.wait import PATIENCE_S

DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 360, "height": 740}
WITHIN_MS = PATIENCE_S * 1000

_numbers = itertools.count(1)
# Violations of the policy are told to the page as events; scripts of ours begin before any of its own.
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
"""

# The heading that is left is marked, so that one can wait for another.
_TURN = """(path) => {
  document.querySelector("h1").dataset.left = "";
  history.pushState(null, "", path);
}"""

expect.set_options(timeout=WITHIN_MS)


class Visit:
    """One person's page."""

    def __init__(self, site: Site, context: BrowserContext, page: Page) -> None:
        self.site = site
        self.context = context
        self.page = page
        self.complaints: list[str] = []
        self.allowed: tuple[str, ...] = ()  # parts of complaints that a test has asked for
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", lambda said: self.complaints.append(f"console: {said.text}") if said.type == "error" else None)
        page.on("dialog", self._close)

    async def _close(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    async def go(self, path: str = "") -> None:
        """Open an address below the dashboard."""
        await self.page.goto(f"{self.site.dashboard}{path}")

    async def turn_to(self, path: str) -> None:
        """Go to another page as a link within the dashboard does, which is not loaded anew for it."""
        await self.page.evaluate(_TURN, urlsplit(f"{self.site.dashboard}{path}").path)
        await expect(self.page.locator("h1:not([data-left])")).to_be_visible()

    async def violations(self) -> list[str]:
        """What the page was kept from by its policy."""
        found: list[str] = await self.page.evaluate("window.violations")
        return found

    def unexpected(self) -> list[str]:
        """Complaints that nobody has asked for."""
        return [each for each in self.complaints if not any(part in each for part in self.allowed)]


class Visits:
    """All pages of one test."""

    def __init__(self, browser: Browser, open_pages: AsyncExitStack) -> None:
        self._browser = browser
        self._open_pages = open_pages
        self._made: list[Visit] = []

    async def begin(
        self, site: Site, *, role: str | None = "admin", path: str = "", size: dict[str, int] = DESKTOP, **options: Any
    ) -> Visit:
        """Sign somebody in, and open a page; `role` None: nobody is signed in."""
        context = await self._browser.new_context(viewport=size, reduced_motion="reduce", **options)
        self._open_pages.push_async_callback(context.close)
        await context.add_init_script(_WATCH)
        if role is not None:
            cookie = site.sign_in(f"{role}{next(_numbers)}@example.org", role)
            await context.add_cookies([{"name": "rota", "value": cookie, "url": site.url}])
        page = await context.new_page()
        page.set_default_timeout(WITHIN_MS)
        visit = Visit(site, context, page)
        self._made.append(visit)
        await visit.go(path)
        return visit

    def check(self) -> None:
        """No page has thrown, complained or asked."""
        assert [each.unexpected() for each in self._made] == [[] for _ in self._made]
