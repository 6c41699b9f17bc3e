"""Schedules and queues in the browser: made, checked as one types, changed, switched off and deleted; paused with a reason."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.site import Site
from tests.browser.visit import Visit
from tests.support.wait import until


async def choose(page: Page, row: Locator, action: str) -> None:
    """Open the menu of a row and take an entry of it."""
    await row.get_by_role("button", name=re.compile("Actions")).click()
    await page.get_by_role("menuitem", name=action).click()


@pytest.mark.req("D02", "D04")
async def test_a_schedule_from_its_making_to_its_end(visit: Visit, site: Site) -> None:
    page, name = visit.page, f"nightly-{uuid4().hex[:8]}"
    visit.allowed = ("422",)  # what is typed by halves is asked about
    await visit.go("/schedules")
    await page.get_by_role("button", name="New schedule").click()
    dialog = page.get_by_role("dialog", name="New schedule")
    await dialog.get_by_label("Name", exact=False).first.fill(name)
    await dialog.get_by_label("Task", exact=False).first.fill("add")
    cron = dialog.get_by_label("Cron expression", exact=False)
    await cron.fill("61 2 * * *")
    await expect(dialog.get_by_text(re.compile("61")).first).to_be_visible()
    await expect(cron).to_have_attribute("aria-invalid", "true")
    await cron.fill("30 2 * * *")
    await dialog.get_by_label("Time zone", exact=False).first.fill("Europe/Berlin")
    preview = dialog.get_by_role("region", name="Preview")
    await expect(preview.get_by_text("At 02:30 every day", exact=False)).to_be_visible()
    await expect(preview.get_by_role("listitem")).to_have_count(10)
    await dialog.get_by_label(re.compile(r"^a\b")).fill("40")
    for _ in range(3):  # asks, goes on, asks
        await page.keyboard.press("Escape")
    await dialog.get_by_role("button", name="Keep editing").click()
    await page.mouse.click(5, 5)
    await dialog.get_by_role("button", name="Keep editing").click()
    await expect(cron).to_have_value("30 2 * * *")
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog).to_be_hidden()

    row = page.get_by_role("row").filter(has_text=name)
    await expect(row).to_contain_text("02:30")
    await row.get_by_role("switch").click()
    await until(lambda: not site.execute("SELECT enabled FROM rota.schedule WHERE name = %s", name)[0][0], what="for it to be off")

    await choose(page, row, "Edit…")
    dialog = page.get_by_role("dialog", name=f"Edit {name}")
    await dialog.get_by_label("Cron expression", exact=False).fill("15 4 * * mon")
    await expect(dialog.get_by_text("04:15", exact=False).first).to_be_visible()
    await dialog.get_by_role("button", name="Save").click()
    await expect(row).to_contain_text("04:15")

    await choose(page, row, "Run now…")
    await page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    ran = "SELECT result::text FROM rota.run r JOIN rota.schedule s ON s.id = r.schedule_id WHERE s.name = %s"
    await until(lambda: site.execute(ran, name) == [("42",)], what="for its job")

    await choose(page, row, "Delete…")
    dialog = page.get_by_role("dialog", name=f"Delete {name}")
    await expect(dialog.get_by_role("button", name="Delete")).to_have_attribute("aria-disabled", "true")
    await dialog.get_by_role("textbox").fill(name)
    await dialog.get_by_role("button", name="Delete").click()
    await page.get_by_role("heading", name="Schedules").hover()
    await expect(row).to_be_hidden()
    assert site.execute("SELECT 1 FROM rota.schedule WHERE name = %s", name) == []


@pytest.mark.req("D03", "D04")
async def test_a_queue_is_paused_with_a_reason_and_goes_on(visit: Visit, site: Site) -> None:
    page, why = visit.page, f"the mail server is down {uuid4().hex[:8]}"
    await visit.go("/queues")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="quiet", exact=True))
    await row.get_by_role("button", name=re.compile("^Pause")).click()
    dialog = page.get_by_role("dialog", name="Pause quiet")
    await dialog.get_by_label("Reason", exact=False).fill(why)
    await dialog.get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text(why)
    id = site.enqueue("add", '{"a": 1}')
    await visit.go(f"/jobs/{id}")
    await expect(page.get_by_text(why, exact=False).first).to_be_visible()  # why it has not run
    await visit.go("/queues")
    await row.get_by_role("button", name=re.compile("^Resume")).click()
    ended = "SELECT outcome FROM rota.run WHERE job_id = %s::uuid"
    await until(lambda: site.execute(ended, id) == [("completed",)], what="for the job to run")
