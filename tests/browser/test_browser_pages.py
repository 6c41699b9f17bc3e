"""Every page: for everybody's eyes and hands, on a phone, and with whatever strings are stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect
from tests.browser.hostile import STRINGS, store
from tests.browser.site import Site
from tests.browser.visit import DESKTOP, PHONE, Visit, Visits

AXE = Path(__file__).parents[2] / "dashboard/node_modules/axe-core/axe.min.js"
PATHS = ["", "/jobs", "/errors", "/logs", "/alerts", "/schedules", "/calendar", "/tasks", "/tasks/add", "/queues", "/queues/mail"]
PATHS += ["/workers", "/own-jobs", "/settings"]


@pytest.fixture(scope="session")
def stored(site: Site) -> list[str]:
    """Something on every page: jobs that failed, waited, spoke; and hostile strings in every field. The jobs' ids."""
    for number in range(3):
        site.enqueue("send_mail", json.dumps({"to": f"{number}", "fails": number == 0, "lines": 2}))
    return store(site)


async def settle(visit: Visit) -> None:
    await expect(visit.page.get_by_role("heading", level=1)).to_be_visible()
    await expect(visit.page.locator("main [aria-busy=true]")).to_have_count(0)


async def serious(visit: Visit, **options: Any) -> list[Any]:
    """What is in somebody's way on this page, by axe."""
    where = {"exclude": ["tr:nth-child(n+20)", "li:nth-child(n+20)"]}  # one row is as the other: there are fifty
    report = await visit.page.evaluate(
        "([where, options]) => axe.run(where, options)", [where, {"resultTypes": ["violations"], **options}]
    )
    found = [each for each in report["violations"] if each["impact"] in ("serious", "critical")]
    return [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found]


async def turn_through(visit: Visit, *more: str) -> AsyncIterator[str]:
    """Every page after the other, at rest; the one that is open comes last."""
    await settle(visit)
    for path in [*PATHS[1:], *more, ""]:
        await visit.turn_to(path)
        await settle(visit)
        yield path


@pytest.mark.req("D03", "D04")
@pytest.mark.parametrize(
    ("scheme", "options"), [("light", {}), ("dark", {"runOnly": ["color-contrast"]})], ids=["light", "dark: colours alone differ"]
)
async def test_nothing_serious_is_in_anybodys_way(
    visits: Visits, site: Site, stored: list[str], scheme: str, options: dict[str, Any]
) -> None:
    visit = await visits.begin(site, color_scheme=scheme)
    await visit.page.evaluate(AXE.read_text())
    found = {path: await serious(visit, **options) async for path in turn_through(visit, f"/jobs/{stored[0]}")}
    assert not any(found.values()), found


# Tables may be moved sideways within a frame of their own; the page and what it has in the middle may not.
WIDTH = "Math.max(...[document.documentElement, document.querySelector('main')].map((each) => each.scrollWidth))"


# What can be done in the rows of a page: the first word of each button, because rows come and go meanwhile.
ROW_BUTTONS = """[...document.querySelectorAll("tbody button, tbody select")]
  .filter((each) => each.checkVisibility())
  .map((each) => (each.ariaLabel || each.textContent).trim().split(/[:\\s]/)[0])"""


@pytest.mark.req("D03", "D04")
async def test_on_a_phone_nothing_sticks_out_and_all_that_can_be_done_can_be_reached(
    visits: Visits, site: Site, stored: list[str]
) -> None:
    site.execute(
        """INSERT INTO rota.alert (kind, subject, severity, summary, first_seen_at, last_seen_at)
           VALUES ('queue_stuck', 'phone', 'error', 'mail does not get on', rota.now(), rota.now())"""
    )
    visit = await visits.begin(site, size=PHONE)
    page = visit.page
    wide, missing = dict[str, int](), dict[str, set[str]]()
    buttons = set[str]()
    async for path in turn_through(visit, f"/jobs/{stored[0]}"):
        width = await page.evaluate(WIDTH)
        if width > PHONE["width"]:
            wide[path] = width
        on_phone = set(await page.evaluate(ROW_BUTTONS))
        await page.set_viewport_size(DESKTOP)
        if gone := set(await page.evaluate(ROW_BUTTONS)) - on_phone:
            missing[path] = gone
        await page.set_viewport_size(PHONE)
        buttons |= on_phone
    assert wide == {}
    assert missing == {}
    assert {"Pause", "Acknowledge"} <= buttons


@pytest.mark.req("D03", "D04")
async def test_hostile_strings_stay_text(visits: Visits, site: Site, stored: list[str]) -> None:
    """In every stored field: no dialog (see `Visits.check`), nothing that the policy had to stop, no code of theirs that ran."""
    visit = await visits.begin(site)
    page = visit.page
    async for path in turn_through(visit):
        assert await visit.violations() == [], path
        assert await page.evaluate("window.hacked") is None
    for id in stored:
        await visit.go(f"/jobs/{id}")
        await settle(visit)
        for tab in ("Attempts", "Logs", "Payload", "Result", "Lineage"):
            await page.get_by_role("tab", name=tab).click()
            await settle(visit)
        assert await visit.violations() == [], id
        assert await page.evaluate("window.hacked") is None
    assert len(STRINGS) >= 40
