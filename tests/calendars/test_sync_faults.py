"""Servers and networks at their worst, and clients that edit at the wrong moment: nothing is lost, nothing is there twice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.calendars.conftest import Office, dav_end, folder_end
from tests.calendars.events import DAILY, Files, event
from tests.calendars.kills import ENVIRONMENT
from tests.calendars.servers import Between, Dav
from tests.support.wait import PATIENCE_S, until
from tests.support.working import working

pytestmark = pytest.mark.req("Y03")


@pytest.fixture
async def far(office: Office, make_dav: Callable[[], Dav], files: Callable[[str], Files], proxy: Between) -> tuple[Dav, Files]:
    """A pair of a calendar behind a proxy and a folder."""
    dav, folder = make_dav(), files("second")
    await office.pair(dav_end(dav, proxy.url(dav)), folder_end(folder))
    return dav, folder


async def again(office: Office) -> dict[str, Any]:
    """Once more, in order this time."""
    summary = await office.sync()
    assert summary["outcome"] == "completed", summary
    return summary


class TestLostAnswers:
    async def test_after_a_creation(self, office: Office, far: tuple[Dav, Files], proxy: Between) -> None:
        dav, folder = far
        folder.put(event("a"))
        proxy.lose = lambda request: request.method == "PUT"
        summary = await office.sync()
        assert (summary["outcome"], dav.titles()) == ("failed", {"a": "Talk"}), "it has arrived, and nobody knows"
        proxy.lose = lambda request: False
        proxy.asked.clear()
        await again(office)
        assert "PUT" not in [method for method, _ in proxy.asked], "it is known for our own work"
        assert (dav.titles(), folder.titles(), office.conflicts()) == ({"a": "Talk"}, {"a": "Talk"}, [])

    async def test_after_an_edit_with_another_edit_before_the_next_attempt(
        self, office: Office, far: tuple[Dav, Files], proxy: Between
    ) -> None:
        dav, folder = far
        folder.put(event("a"))
        await office.sync()
        folder.put(event("a", "Second text"))
        proxy.lose = lambda request: request.method == "PUT"
        await office.sync()
        assert dav.titles() == {"a": "Second text"}
        proxy.lose = lambda request: False
        folder.put(
            event("a", "Third text")
        )  # not newer by its own words, and in the pair's second calendar: a conflict would lose it
        await again(office)
        assert (dav.titles(), folder.titles(), office.conflicts()) == ({"a": "Third text"}, {"a": "Third text"}, [])

    async def test_after_a_creation_whose_source_is_deleted_before_the_next_attempt(
        self, office: Office, far: tuple[Dav, Files], proxy: Between
    ) -> None:
        dav, folder = far
        folder.put(event("a"))
        proxy.lose = lambda request: request.method == "PUT"
        await office.sync()
        proxy.lose = lambda request: False
        folder.remove("a")
        await again(office)
        assert (dav.titles(), folder.titles()) == ({}, {}), "it does not come back"

    async def test_after_a_deletion(self, office: Office, far: tuple[Dav, Files], proxy: Between) -> None:
        dav, folder = far
        folder.put(event("a"))
        folder.put(event("b"))
        await office.sync()
        folder.remove("a")
        proxy.lose = lambda request: request.method == "DELETE"
        assert (await office.sync())["outcome"] == "failed"
        proxy.lose = lambda request: False
        await again(office)
        assert (list(dav.titles()), list(folder.titles())) == (["b"], ["b"])


class TestSomebodyElse:
    async def test_edits_between_our_look_and_our_write(self, office: Office, far: tuple[Dav, Files], proxy: Between) -> None:
        dav, folder = far
        folder.put(event("a"))
        await office.sync()
        folder.put(event("a", "Ours"))
        edited = False

        async def just_before(request: web.Request) -> None:
            nonlocal edited
            if request.method == "PUT" and not edited:
                edited = True
                dav.put(event("a", "Theirs", changed="20290505T000000Z"))

        proxy.trouble = just_before  # type: ignore[assignment]
        await again(office)
        assert dav.titles() == folder.titles() == {"a": "Theirs"}
        assert "SUMMARY:Ours" in office.conflicts()[0]["text"]

    async def test_creates_the_same_between_our_look_and_our_write(
        self, office: Office, far: tuple[Dav, Files], proxy: Between
    ) -> None:
        dav, folder = far
        folder.put(event("a"))

        async def just_before(request: web.Request) -> None:
            if request.method == "PUT" and not dav.texts():
                dav.put(event("a", "Theirs", changed="20290505T000000Z"), "a.ics")

        proxy.trouble = just_before  # type: ignore[assignment]
        await again(office)
        assert dav.titles() == folder.titles() == {"a": "Theirs"}

    async def test_deletes_what_we_are_about_to_edit(self, office: Office, far: tuple[Dav, Files], proxy: Between) -> None:
        dav, folder = far
        folder.put(event("a"))
        await office.sync()
        folder.put(event("a", "Edited"))

        async def just_before(request: web.Request) -> None:
            if request.method == "PUT" and "If-Match" in request.headers:
                dav.remove("a")

        proxy.trouble = just_before  # type: ignore[assignment]
        await again(office)
        assert dav.titles() == folder.titles() == {"a": "Edited"}, "an edit wins over a deletion"

    async def test_has_another_event_under_our_name(self, office: Office, far: tuple[Dav, Files], proxy: Between) -> None:
        dav, folder = far
        folder.put(event("a"))
        await office.sync()
        dav.put(event("z", "Another"), "b.ics")
        folder.put(event("b"))
        await again(office)
        assert dav.titles() == folder.titles() == {"a": "Talk", "b": "Talk", "z": "Another"}

    async def test_never_stops_editing(self, office: Office, far: tuple[Dav, Files], proxy: Between) -> None:
        dav, folder = far
        folder.put(event("a"))
        await office.sync()
        folder.put(event("a", "Ours", changed="20291231T000000Z"))
        count = 0

        async def just_before(request: web.Request) -> None:
            nonlocal count
            if request.method == "PUT":
                count += 1
                dav.put(event("a", f"Theirs {count}"))

        proxy.trouble = just_before  # type: ignore[assignment]
        summary = await office.sync()
        assert (summary["outcome"], summary["error"].split(":")[0]) == ("failed", "Unsettled")
        proxy.trouble = None
        await again(office)
        assert dav.titles() == folder.titles() == {"a": "Ours"}


class TestInterrupted:
    async def test_what_was_listed_and_not_read_is_listed_again(
        self, office: Office, far: tuple[Dav, Files], proxy: Between
    ) -> None:
        dav, folder = far
        dav.put(event("a"))
        await office.sync()
        await office.sync()  # from here on by sync token
        dav.put(event("a", "Edited"))
        dav.put(event("b", "New"))
        reports = 0

        async def second_report(request: web.Request) -> web.StreamResponse | None:
            nonlocal reports
            reports += request.method == "REPORT"
            return web.Response(status=500) if reports == 2 else None  # the one that reads the texts

        proxy.trouble = second_report
        assert (await office.sync())["outcome"] == "failed"
        assert folder.titles() == {"a": "Talk"}
        proxy.trouble = None
        await again(office)
        assert folder.titles() == {"a": "Edited", "b": "New"}

    async def test_a_worker_that_has_lost_the_job_writes_nothing_down(
        self, office: Office, far: tuple[Dav, Files], proxy: Between, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in ENVIRONMENT.items():  # the next attempt runs in a process of its own, as a suspect's does
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("ROTA_DATABASE_URL", office.dsn)
        dav, folder = far
        dav.put(event("a", "Old text"))
        held, read = asyncio.Event(), asyncio.Event()

        async def hold_the_first(request: web.Request, body: bytes) -> None:
            if b"multiget" in body and not read.is_set():
                read.set()
                await held.wait()

        proxy.after = hold_the_first
        async with asynccontextmanager(working)(office.app, queues={"calendar": 1}, concurrency=2):
            job = await office.enqueue()
            await asyncio.wait_for(read.wait(), PATIENCE_S)  # it has the old text, and does not know yet
            with office.conn.transaction():
                office.conn.execute("UPDATE rota.job SET lease_until = rota.now() - interval '1 s' WHERE id = %s", [job])
                assert office.conn.execute("SELECT job_id FROM rota.rescue_runs('{}')").fetchall() == [(job,)]
            await self.completed(office, 1)
            dav.put(event("a", "New text"))
            await office.enqueue()
            await self.completed(office, 2)
            held.set()
        assert dav.titles() == folder.titles() == {"a": "New text"}, "it has not brought the old text back"
        assert sorted((each["attempt"], each["outcome"]) for each in office.summaries()) == [
            (1, "completed"), (1, "lost"), (2, "completed"),
        ]  # fmt: skip
        assert (await again(office))["processed"] == 0

    async def completed(self, office: Office, count: int) -> None:
        """Wait until so many jobs have completed."""
        await until(lambda: len(office.rota.jobs("sync_pair", "completed")) == count, what="for a job to complete")


class TestServersOfTheirOwn:
    async def test_one_that_tells_no_etag_is_asked_what_it_has_made_of_it(
        self, office: Office, far: tuple[Dav, Files], proxy: Between
    ) -> None:
        _dav, folder = far
        proxy.hide = {"etag"}
        folder.put(DAILY)
        await again(office)
        assert (await again(office))["processed"] == 0
        folder.put(DAILY.replace("Stand-up", "Sit-down"))
        assert (await again(office))["details"]["updated"] == {"first": 1, "second": 0}
        assert (await again(office))["processed"] == 0

    async def test_one_that_rewrites_what_it_is_given_plays_no_ping_pong(
        self, office: Office, far: tuple[Dav, Files], proxy: Between
    ) -> None:
        dav, folder = far
        proxy.hide = {"etag"}

        async def adding(request: web.Request) -> web.StreamResponse | None:
            if request.method != "PUT":
                return None
            text = (
                (await request.read()).decode().replace("END:VEVENT", "X-SERVER:was here\r\nCREATED:20300101T000000Z\r\nEND:VEVENT")
            )
            name = request.path.rpartition("/")[2]
            passed = {name: value for name, value in request.headers.items() if name in ("If-Match", "If-None-Match")}
            status, _ = dav.ask("PUT", name, text, Content_Type="text/calendar", **passed)
            return web.Response(status=status)

        proxy.trouble = adding
        folder.put(event("a"))
        await again(office)
        for _ in range(3):
            assert (await again(office))["processed"] == 0
        assert "X-SERVER" not in folder.texts()["a"]
        folder.put(event("a", "Edited"))
        await again(office)
        assert (await again(office))["processed"] == 0
        assert dav.titles() == {"a": "Edited"}

    async def test_one_that_rewrites_and_whose_answer_is_lost(self, office: Office, far: tuple[Dav, Files], proxy: Between) -> None:
        dav, folder = far
        folder.put(event("a"))
        proxy.lose = lambda request: request.method == "PUT"
        await office.sync()
        dav.put(dav.texts()["a"].replace("END:VEVENT", "X-SERVER:was here\r\nEND:VEVENT"))
        proxy.lose = lambda request: False
        await again(office)
        assert (office.conflicts(), (await again(office))["processed"]) == ([], 0)

    @pytest.mark.parametrize("status", [500, 502, 503])
    async def test_one_that_fails_every_other_time(
        self, office: Office, far: tuple[Dav, Files], proxy: Between, status: int
    ) -> None:
        dav, folder = far
        for n in range(8):
            folder.put(event(f"e{n}"))
        calls = 0

        async def flaky(request: web.Request) -> web.StreamResponse | None:
            nonlocal calls
            calls += 1
            return web.Response(status=status) if calls % 5 == 0 else None

        proxy.trouble = flaky
        for _ in range(12):
            if (await office.sync())["outcome"] == "completed":
                break
        assert dav.titles() == folder.titles()
        assert len(dav.titles()) == 8

    @pytest.mark.parametrize(
        ("was", "now", "said"),
        [(r"(UID:a).*?END:VEVENT", r"\1\nDTSTART:nonsense\nEND:VEVENT", "not a time"), (r"UID:a\s*?\n", "", "no UID")],
    )
    async def test_broken_events_of_a_server_are_told_and_left_alone(
        self, office: Office, far: tuple[Dav, Files], proxy: Between, was: str, now: str, said: str
    ) -> None:
        dav, folder = far
        dav.put(event("a"))
        dav.put(event("b"))
        await office.sync()

        async def breaking(request: web.Request) -> web.StreamResponse | None:
            body = (await request.read()).decode()
            if request.method == "REPORT" and "multiget" in body:
                status, answer = dav.ask("REPORT", "", body, Depth="0")
                text = re.sub(was, now, answer.decode(), flags=re.S)
                return web.Response(status=status, text=text, content_type="application/xml")
            return None

        dav.put(event("a", "Edited"))
        proxy.trouble = breaking
        summary = await office.sync()
        assert (summary["outcome"], summary["failed"], folder.titles()) == ("partial", 1, {"a": "Talk", "b": "Talk"})
        assert said in summary["error"]
        proxy.trouble = None
        dav.put(event("a", "Mended"))
        await again(office)
        assert folder.titles()["a"] == "Mended"


async def test_around_the_change_of_clocks(office: Office, far: tuple[Dav, Files]) -> None:
    """What does not exist in spring and is there twice in autumn arrives as it was written, whatever it means."""
    dav, folder = far
    zone = ";TZID=Europe/Berlin"
    folder.put(event("gap", start=f"{zone}:20300331T023000", end=f"{zone}:20300331T031500"))
    folder.put(event("twice", start=f"{zone}:20301027T023000", end=f"{zone}:20301027T023000"))
    folder.put(DAILY)
    await again(office)
    assert f"DTSTART{zone}:20300331T023000" in dav.texts()["gap"]
    assert f"DTSTART{zone}:20301027T023000" in dav.texts()["twice"]
    assert (await again(office))["processed"] == 0
