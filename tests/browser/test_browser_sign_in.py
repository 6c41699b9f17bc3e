"""Signing in and out as people do, at the server's own address and below a path."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect
from tests.browser.site import Site
from tests.browser.visit import Visits

pytestmark = pytest.mark.req("D03", "D04")


async def test_by_a_link_and_out_again(visits: Visits, site: Site) -> None:
    link = site.sign_in_link("ada@example.org", "admin")
    visit = await visits.begin(site, role=None, path="/queues")
    page = visit.page
    visit.allowed = ("401",)
    await expect(page).to_have_url(re.compile(r"/dashboard/sign-in\?next="))
    await expect(page.get_by_label("Email address")).to_be_visible()

    await page.goto(link)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(re.compile(rf"^{re.escape(site.dashboard)}/?$"))
    await expect(page.get_by_role("heading", level=1)).to_be_visible()

    await page.goto(link)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="This link does not work")).to_be_visible()

    await visit.go("/settings")
    await page.get_by_role("button", name=re.compile("sign out", re.IGNORECASE)).first.click()
    await expect(page).to_have_url(re.compile("/sign-in"))
    await visit.go("/jobs")
    await expect(page).to_have_url(re.compile("/sign-in"))


async def test_below_a_path_and_before_anything_has_happened(visits: Visits, empty_site: Site) -> None:
    """The whole of it works there: pages, data, links, the live stream; and it says what to do first."""
    visit = await visits.begin(empty_site)
    page = visit.page
    assert "/ops/rota/dashboard" in page.url
    await expect(page.get_by_text("waiting for the first job", exact=False)).to_be_visible()
    empty_site.enqueue("add", '{"a": 1}')
    await expect(page.get_by_text("waiting for the first job", exact=False)).to_be_hidden()
    await page.get_by_role("link", name="Queues", exact=True).click()
    await expect(page).to_have_url(f"{empty_site.dashboard}/queues")
    await expect(page.get_by_role("link", name="quiet", exact=True)).to_be_visible()
    assert await visit.violations() == []
