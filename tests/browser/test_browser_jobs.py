"""Jobs in the browser: live states, search, many at once, logs as they come, and all of it by the keyboard."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import pytest
from playwright.async_api import expect
from tests.browser.site import Site
from tests.browser.visit import Visit, Visits
from tests.support.wait import until

pytestmark = pytest.mark.req("D01", "D04")


def payload(**values: object) -> str:
    return json.dumps(values)


async def test_a_job_goes_through_its_states_before_ones_eyes(visit: Visit, site: Site) -> None:
    word = uuid4().hex
    page = visit.page
    id = site.enqueue("wait_for_word", payload(word=word), delay="1 hour")
    await visit.go(f"/jobs/{id}")
    badge = page.get_by_role("heading", level=1)
    await expect(badge).to_contain_text(re.compile("queued", re.IGNORECASE))
    await expect(page.get_by_text("not due", exact=False).first).to_be_visible()
    await page.get_by_role("button", name="Run now").click()
    await expect(badge).to_contain_text(re.compile("running", re.IGNORECASE))
    await page.get_by_role("tab", name="Logs").click()
    await expect(page.get_by_text(f"waiting for {word}").first).to_be_visible()
    site.execute("INSERT INTO word VALUES (%s)", word)
    await expect(badge).to_contain_text(re.compile("completed", re.IGNORECASE))
    assert await visit.violations() == []


async def test_search_is_in_the_address_and_facets_narrow_it(visit: Visit, site: Site) -> None:
    page, mark = visit.page, uuid4().hex[:8]
    for number in range(3):
        site.enqueue("send_mail", payload(to=f"{mark}-{number}@example.org", fails=number == 0))
    await visit.go(f"/jobs?q=payload.to:{mark}*")
    rows = page.get_by_role("table", name="Jobs").get_by_role("row")
    await expect(rows).to_have_count(4)  # with the head
    await page.get_by_role("complementary", name="Filters").get_by_text(re.compile("failed", re.IGNORECASE)).first.click()
    await expect(page).to_have_url(re.compile("state(%3A|:)failed"))
    await expect(rows).to_have_count(2)
    await page.go_back()
    await expect(rows).to_have_count(4)
    box = page.get_by_label("Search jobs")
    await box.fill("stat:failed")
    await box.press("Enter")
    visit.allowed = ("422",)
    await expect(page.get_by_text("did you mean", exact=False).first).to_be_visible()


async def test_many_are_retried_after_a_look_at_how_many(visit: Visit, site: Site) -> None:
    page, mark = visit.page, uuid4().hex[:8]
    ids = [site.enqueue("send_mail", payload(to=f"{mark}-{number}@example.org", fails=True)) for number in range(5)]
    await visit.go(f"/jobs?q=state:failed payload.to:{mark}*")
    rows = page.get_by_role("table", name="Jobs").get_by_role("row")
    await expect(rows).to_have_count(6)
    await page.get_by_role("table", name="Jobs").get_by_role("checkbox").first.click()
    await page.get_by_role("region", name="Selection").get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog", name="Retry jobs")
    await dialog.get_by_role("button", name="Retry 5 jobs").click()
    await dialog.get_by_role("button", name="Close").nth(1).click()  # that below, which is there when all is done
    ran = "SELECT count(*) = 10 FROM rota.run WHERE job_id = ANY (%s::uuid[])"
    await until(lambda: site.execute(ran, ids)[0][0], what="for the second attempts")


async def test_by_the_keyboard_alone(visit: Visit, site: Site) -> None:
    page, mark = visit.page, uuid4().hex[:8]
    id, newer = (site.enqueue("send_mail", payload(to=f"{mark}@example.org", fails=True)) for _ in range(2))
    keys = page.keyboard
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await keys.press("g")
    await keys.press("j")
    await expect(page).to_have_url(re.compile("/dashboard/jobs"))
    await expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    await keys.press("/")
    await keys.type(f"state:failed payload.to:{mark}*")  # letters here are no commands
    await keys.press("Enter")
    rows = page.get_by_role("table", name="Jobs").get_by_role("row")
    await expect(rows).to_have_count(3)
    await keys.press("Escape")
    await keys.press("Escape")
    for key in "jjkjx":  # to the second row
        await keys.press(key)
    await expect(page.get_by_text("1 selected")).to_be_visible()
    await keys.press("r")
    await expect(page.get_by_role("dialog", name="Retry jobs")).to_be_visible()
    await keys.press("Enter")
    await expect(page.get_by_role("dialog").get_by_role("button", name="Close")).to_have_count(2)  # it is done
    await keys.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await keys.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text(re.compile("key", re.IGNORECASE))
    await keys.press("Escape")
    retried = "SELECT count(*) > 0 FROM rota.audit WHERE target LIKE %s"
    assert site.execute(retried, f"%{id}%")[0][0]
    assert not site.execute(retried, f"%{newer}%")[0][0]


async def test_logs_are_followed(visit: Visit, site: Site) -> None:
    page, mark = visit.page, uuid4().hex[:8]
    await visit.go("/logs?task=send_mail")
    await expect(page.get_by_role("status").get_by_text("Following")).to_be_visible()
    site.enqueue("send_mail", payload(to=mark, lines=3))
    await expect(page.get_by_text(f"line 2 for {mark}")).to_be_visible()
    await page.get_by_role("button", name="Pause").click()
    site.enqueue("send_mail", payload(to=f"{mark}b", lines=2))
    await expect(page.get_by_role("button", name="Show 2 new lines")).to_be_visible()
    await expect(page.get_by_text(f"line 1 for {mark}b")).to_be_hidden()
    await page.get_by_role("button", name="Show 2 new lines").click()
    await expect(page.get_by_text(f"line 1 for {mark}b")).to_be_visible()
    await page.get_by_text(f"line 1 for {mark}b").hover()  # nothing moves under the pointer
    site.enqueue("send_mail", payload(to=f"{mark}c", lines=1))
    await expect(page.get_by_role("button", name="Show 1 new line")).to_be_visible()
    await page.get_by_label("Search the logs").hover()
    await expect(page.get_by_text(f"line 0 for {mark}c")).to_be_visible()


async def test_an_error_is_edited_and_retried(visit: Visit, site: Site) -> None:
    page, mark = visit.page, uuid4().hex[:8]
    id = site.enqueue("send_mail", payload(to=mark, fails=True))
    await visit.go(f"/jobs/{id}")
    await expect(page.get_by_text("connection reset by peer").first).to_be_visible()
    await page.get_by_role("button", name="Edit & retry").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(re.compile("fails", re.IGNORECASE)).first.click()
    await dialog.get_by_role("button", name="Review the change").click()
    await expect(page.get_by_role("dialog", name="What changes")).to_contain_text("fails")
    await page.get_by_role("dialog").get_by_role("button", name="Retry with this payload").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("completed", re.IGNORECASE))


@pytest.mark.req("A03")
async def test_who_may_only_look_sees_why(visits: Visits, site: Site) -> None:
    id = site.enqueue("send_mail", payload(to="x", fails=True))
    visit = await visits.begin(site, role="read_only", path=f"/jobs/{id}")
    button = visit.page.get_by_role("button", name="Retry", exact=True)
    await expect(button).to_have_attribute("aria-disabled", "true")
    await button.hover()
    await expect(visit.page.get_by_text(re.compile("read.only|may not", re.IGNORECASE)).first).to_be_visible()
    await button.click(force=True)
    answer = await visit.page.request.post(f"{site.url}/api/admin/jobs/{id}/retry", headers={"Origin": site.url})
    assert answer.status == 403
