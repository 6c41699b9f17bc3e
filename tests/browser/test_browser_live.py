"""Live pages hold still while they are read, and say how old they are."""

from __future__ import annotations

import os
import re
import signal
from uuid import uuid4

import pytest
from playwright.async_api import Locator, expect
from tests.browser.site import Site
from tests.browser.visit import Visit

pytestmark = pytest.mark.req("D01", "D04")

MINUTE = "SELECT date_trunc('minute', rota.now())"
COUNTED = f"INSERT INTO rota.task_stat (task, at, completed, failed) VALUES (%s, ({MINUTE}) - %s::interval, %s, 0)"
LATER = "SELECT rota.enqueue('add', '{\"a\": 1}', delay => '1 hour')::text FROM generate_series(1, %s)"


def enqueue(site: Site, count: int = 1) -> list[str]:
    """Store jobs that do not run; the last one is the newest."""
    return [id for (id,) in site.execute(LATER, count)]


async def top(element: Locator) -> float:
    box = await element.bounding_box()
    assert box is not None
    return box["y"]


async def test_rows_hold_still_under_the_pointer_with_a_selection_and_in_the_peek(visit: Visit, site: Site) -> None:
    page = visit.page
    *_, lower, upper = enqueue(site, 3)
    await visit.go("/jobs")
    first, second = (page.locator(f"tr[data-row='{id}']") for id in (upper, lower))
    await expect(first).to_be_visible()
    before = await top(first), await top(second)

    await second.hover()
    enqueue(site, 2)
    new = page.locator("button", has_text="new ↑")  # also behind a dialog
    await expect(new).to_have_text("2 new ↑")
    assert (await top(first), await top(second)) == before

    await first.get_by_role("checkbox").click()
    await expect(page.get_by_role("region", name="Selection")).to_contain_text("1 selected")
    await page.get_by_label("Search jobs").hover()  # the selection holds it now
    enqueue(site, 60)
    await expect(new).to_have_text("50+ new ↑")
    await cancel(visit, lower)
    await expect(second).to_contain_text("canceled")  # though it is no longer on the first page
    assert (await top(first), await top(second)) == before
    await page.get_by_role("button", name="Select none").click()
    await page.get_by_label("Search jobs").hover()
    await expect(first).to_be_hidden()  # nobody is at it: the newest are there now

    shown = await page.locator("tr[data-row]").evaluate_all("rows => rows.slice(0, 2).map((row) => row.dataset.row)")
    await page.locator(f"tr[data-row='{shown[0]}'] td").nth(3).click()
    await expect(page).to_have_url(re.compile(f"peek={shown[0]}"))
    enqueue(site)
    await expect(new).to_have_text("1 new ↑")
    await page.keyboard.press("j")
    await expect(page).to_have_url(re.compile(f"peek={shown[1]}"))
    assert await visit.violations() == []


async def cancel(visit: Visit, id: str) -> None:
    """Cancel a job, as another operator would."""
    headers = {"Origin": visit.site.url}
    answer = await visit.page.request.post(f"{visit.site.url}/api/admin/jobs/{id}/cancel", data={}, headers=headers)
    assert answer.ok, await answer.text()


async def test_a_long_list_is_live_where_it_is_read(visit: Visit, site: Site) -> None:
    page = visit.page
    oldest = enqueue(site, 260)[0]
    await visit.go("/jobs")
    rows = page.locator("tr[data-row]")
    for pages in range(1, 6):
        await rows.nth(50 * pages - 1).scroll_into_view_if_needed()
    row = page.locator(f"tr[data-row='{oldest}']")
    await row.scroll_into_view_if_needed()
    before = await top(row)
    await cancel(visit, oldest)
    await expect(row).to_contain_text("canceled")  # on the sixth page
    enqueue(site, 3)
    new = page.get_by_role("button", name="3 new ↑")
    await expect(new).to_be_visible()
    assert await top(row) == before
    await new.click()
    await expect(row).to_be_hidden()
    assert await page.evaluate("document.querySelector('main').scrollTop") == 0


async def test_a_server_that_hangs_is_not_called_live(visit: Visit, site: Site) -> None:
    page = visit.page
    await page.clock.install()
    await visit.go("/queues")
    await expect(page.get_by_text("Live", exact=True).first).to_be_visible()
    os.kill(site.pid, signal.SIGSTOP)
    try:
        await page.clock.fast_forward(10_000)
        await expect(page.get_by_text(re.compile(r"What you see is from \d+ (s|min) ago"))).to_be_visible()
        await expect(page.get_by_text("Disconnected", exact=True).first).to_be_visible()
    finally:
        os.kill(site.pid, signal.SIGCONT)
    await page.clock.fast_forward(30_000)
    await expect(page.get_by_text("Live", exact=True).first).to_be_visible()


async def test_a_chart_shows_whole_minutes_and_leads_to_the_jobs_of_a_time(visit: Visit, site: Site) -> None:
    page, task = visit.page, f"chart_{uuid4().hex[:8]}"
    site.execute(
        "INSERT INTO rota.task (name, queue, priority, max_attempts, payload_schema) VALUES (%s, 'quiet', 0, 1, '{}')", task
    )
    await visit.go(f"/tasks/{task}")
    runs = page.get_by_role("figure", name=re.compile("^Runs that ended"))
    await expect(runs).to_contain_text("No runs in this period")
    while True:
        minute = site.execute(MINUTE)
        site.execute("DELETE FROM rota.task_stat WHERE task = %s", task)
        for ago, completed in (("0", 1000), ("1 minute", 7), ("30 minutes", 35)):
            site.execute(COUNTED, task, ago, completed)
        await page.reload()
        await expect(runs).to_contain_text(re.compile(r"completed [1-9]"))
        shown = await runs.text_content() or ""
        if site.execute(MINUTE) == minute:
            break
    assert re.search(r"completed 7\D", shown), "the minute that has begun is not over"
    drawn = runs.locator(".u-over")
    box = await drawn.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 60, steps=3)
    await page.mouse.up()
    chosen = page.get_by_role("status", name="Selected time")
    await expect(chosen).to_contain_text("35 completed, 0 failed")
    await chosen.get_by_role("link", name="Jobs created in this time").click()
    await expect(page.get_by_label("Search jobs")).to_have_value(re.compile(rf"^since:\S+Z until:\S+Z task:{task}$"))
    await expect(page.get_by_text("No job matches")).to_be_visible()
