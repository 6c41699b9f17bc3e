"""Pictures of every page, light and dark, for the documentation: `make screenshots`. The demo runs meanwhile."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from playwright.async_api import Page, async_playwright, expect
from tests.browser.conftest import ARGUMENTS
from tests.support import programs
from tests.support.command import environment, start
from tests.support.processes import ended_after, until
from tests.support.sign_in import printed_link

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "dashboard"
SIZE = {"width": 1280, "height": 800}
WARM_UP_S = 75  # until charts, schedules and errors have something to show
PAGES = {
    "overview": "",
    "jobs": "/jobs",
    "errors": "/errors",
    "logs": "/logs",
    "alerts": "/alerts",
    "schedules": "/schedules",
    "calendar": "/calendar",
    "tasks": "/tasks",
    "queues": "/queues",
    "queue": "/queues/payments",
    "workers": "/workers",
    "own-jobs": "/own-jobs",
    "settings": "/settings",
    "task": "/tasks/charge_card",
}


async def settle(page: Page) -> None:
    """Wait until nothing loads any more; the live stream never ends, so the network is not asked."""
    await page.wait_for_selector("h1")
    await expect(page.locator("[aria-busy=true]")).to_have_count(0)
    await page.wait_for_timeout(700)


async def take(link: str) -> None:
    """Sign in by a link, and take a picture of each page in both themes."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=programs.find("chromium"), args=ARGUMENTS)
        context = await browser.new_context(viewport=SIZE, reduced_motion="reduce", device_scale_factor=1)
        page = await context.new_page()
        await page.goto(link)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/dashboard**")
        base = page.url.partition("/dashboard")[0] + "/dashboard"
        await page.goto(f"{base}/jobs?q=state:failed")
        await settle(page)
        job = await page.locator("table a[href*='/jobs/']").first.get_attribute("href")
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            for name, path in {**PAGES, "job": None}.items():
                await page.goto(f"{base}{path}" if path is not None else f"{base.removesuffix('/dashboard')}{job}")
                await settle(page)
                await page.screenshot(path=FOLDER / f"{name}-{theme}.png")
        await page.set_viewport_size({"width": 360, "height": 740})
        for name in ("overview", "jobs"):
            await page.goto(f"{base}{PAGES[name]}")
            await settle(page)
            await page.screenshot(path=FOLDER / f"{name}-phone.png")
        stranger = await browser.new_page(viewport=SIZE, reduced_motion="reduce")
        for theme in ("light", "dark"):
            await stranger.emulate_media(color_scheme=theme)
            await stranger.goto(f"{base}/sign-in")
            await settle(stranger)
            await stranger.screenshot(path=FOLDER / f"sign-in-{theme}.png")
        await browser.close()


def main() -> None:
    """Run the demo and take the pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ended_after(start("demo", "--rate", "20", cwd=folder, env=environment())):
            link = until(lambda: printed_link((folder / "stderr").read_text()), why="for the demo")
            time.sleep(WARM_UP_S)
            asyncio.run(take(link))


if __name__ == "__main__":
    main()
