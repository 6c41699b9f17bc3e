"""Synchronisations as jobs: what they carry, how they are tried again, what is written down of each attempt, and who is told."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.calendars.conftest import KEY, WINDOW, Office, dav_end, folder_end
from tests.calendars.events import Files, event
from tests.calendars.servers import PASSWORD, Between, Dav
from tests.server.test_calendar_jobs import sign_in
from tests.support.serving import serving, settings_for

from rota import Rota
from rota.apps.calendars import job as job_module
from rota.apps.calendars import pairs
from rota.apps.calendars.connectors import Place
from rota.apps.calendars.pairs import NewEnd
from rota.control import alerts
from rota.errors import ConfigError, Conflict, NotFound, UsageError
from rota.model import secret

MakeFiles = Callable[[str], Files]
AConn = psycopg.AsyncConnection[Any]
MINUTES = [1, 2, 4, 8, 16]


@pytest.fixture
async def folders(office: Office, files: MakeFiles) -> tuple[Files, Files]:
    """A pair of folders."""
    first, second = files("first"), files("second")
    await office.pair(folder_end(first), folder_end(second))
    return first, second


@pytest.mark.req("Y01")
class TestWhatTheyCarry:
    async def test_all_of_it_by_pair(self, office: Office, folders: tuple[Files, Files], aconn: AConn) -> None:
        one = await office.enqueue(anything={"else": 1})
        folders[0].path.rename(folders[0].path.with_name("away"))
        await office.rota.drain()
        [job] = await pairs.rows(aconn, "jobs", "team:rooms", limit=10)
        assert (job["id"], job["state"], job["connector"], job["priority"], job["attempt"], job["max_attempts"]) == (
            one, "queued", "folder", 0, 1, 6,
        )  # fmt: skip
        assert (job["window_start"], job["window_end"]) == WINDOW
        assert "cannot be read" in job["last_error"]
        assert timedelta(seconds=50) < job["run_at"] - office.rota.now() < timedelta(seconds=70)
        [stored] = office.rota.jobs("sync_pair")
        assert stored.payload["payload"] == {"anything": {"else": 1}}

    async def test_also_those_that_have_ended_and_of_no_other_pair(
        self, office: Office, files: MakeFiles, folders: tuple[Files, Files], aconn: AConn
    ) -> None:
        await office.pair(folder_end(files("third")), folder_end(files("fourth")), id="other")
        await office.sync()
        await office.sync()
        await office.sync("other")
        found = await pairs.rows(aconn, "jobs", "team:rooms", limit=10)
        assert [each["state"] for each in found] == ["completed", "completed"]

    @pytest.mark.parametrize("table", ["job", "run"])
    def test_by_an_index(self, conn: psycopg.Connection[Any], table: str) -> None:
        conn.execute("SET enable_seqscan = off")
        final = "AND final" if table == "run" else ""
        plan = conn.execute(
            f"EXPLAIN SELECT * FROM rota.{table} WHERE task = 'sync_pair' {final} AND payload ->> 'calendar_pair_id' = 'a'"
        ).fetchall()
        assert "calendar_id" in str(plan) or "calendar_pair" in str(plan)
        assert "Index Cond" in str(plan)

    def test_by_state_and_next_run(self, conn: psycopg.Connection[Any]) -> None:
        conn.execute("SET enable_seqscan = off")
        plan = conn.execute(
            "EXPLAIN SELECT * FROM rota.job WHERE state = 'delayed' AND run_at <= rota.now() ORDER BY run_at LIMIT 10"
        ).fetchall()
        assert "job_delayed" in str(plan)


class TestRetries:
    @pytest.mark.req("Y01", "Y04", "Y05", "Q08")
    async def test_after_one_two_four_eight_and_sixteen_minutes_and_then_an_alert_without_secrets(
        self, office: Office, make_dav: Callable[[], Dav], files: MakeFiles, aconn: AConn, caplog: pytest.LogCaptureFixture
    ) -> None:
        dav = make_dav()
        await office.pair(dav_end(dav, password="wrong-horse-staple"), folder_end(files("second")))
        caplog.set_level(logging.DEBUG)
        job = await office.enqueue()
        await office.rota.drain("2h")
        [ended] = office.rota.jobs("sync_pair")
        assert (ended.state, ended.attempt) == ("failed", 6)
        runs = office.conn.execute("SELECT started_at FROM rota.run WHERE job_id = %s ORDER BY attempt", [job]).fetchall()
        summaries = office.summaries()[::-1]
        waited = [round((b["started_at"] - a["started_at"]) / timedelta(minutes=1)) for a, b in itertools.pairwise(summaries)]
        assert (waited, len(runs)) == (MINUTES, 6)
        assert [(each["attempt"], each["outcome"], each["processed"], each["failed"]) for each in summaries] == [
            (n, "failed", 0, 1) for n in range(1, 7)
        ]
        assert all(each["error"].startswith("SignInFailed: 127.0.0.1: it answered 401") for each in summaries)
        await alerts.count_signals(aconn)
        [(kind, subject, summary, details)] = office.conn.execute(
            "SELECT kind, subject, summary, details::text FROM rota.alert"
        ).fetchall()
        assert (kind, subject, "SignInFailed" in summary) == ("job_failed", "sync_pair", True)
        said = [summary, details, caplog.text, str(summaries), str(office.rota.jobs()), self.everything(office.conn)]
        assert [text for text in said if "wrong-horse-staple" in text or dav.path in text] == []

    def everything(self, conn: psycopg.Connection[Any]) -> str:
        """All tables, as text."""
        tables = conn.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('rota', 'rota_calendars')"
        ).fetchall()
        return "".join(str(conn.execute(f"SELECT t::text FROM {table} t").fetchall()) for (table,) in tables)  # type: ignore[arg-type]

    @pytest.mark.req("Y04")
    async def test_what_was_done_before_a_failure_is_not_done_again(
        self, office: Office, make_dav: Callable[[], Dav], files: MakeFiles, proxy: Between
    ) -> None:
        dav, second = make_dav(), files("second")
        await office.pair(dav_end(dav, proxy.url(dav)), folder_end(second))
        for n in range(60):
            second.put(event(f"e{n:02}"))
        failing = {f"{dav.path}e{n:02}.ics" for n in range(50, 60)}

        async def trouble(request: Any) -> Any:
            from aiohttp import web

            return web.Response(status=500) if request.path in failing and request.method == "PUT" else None

        proxy.trouble = trouble
        await office.enqueue()
        await office.rota.drain()
        assert len(dav.titles()) == 50
        proxy.trouble = None
        proxy.asked.clear()
        await office.rota.drain("2m")
        assert len(dav.titles()) == 60
        assert sum(method == "PUT" for method, _ in proxy.asked) == 10
        assert [each["outcome"] for each in office.summaries()] == ["completed", "failed"]

    @pytest.mark.req("Y01")
    async def test_being_told_to_wait_does_not_count(
        self, office: Office, make_dav: Callable[[], Dav], files: MakeFiles, proxy: Between
    ) -> None:
        dav = make_dav()
        await office.pair(dav_end(dav, proxy.url(dav)), folder_end(files("second")))
        proxy.answers("PROPFIND", 429, times=8, Retry_After="120")
        job = await office.enqueue()
        await office.rota.drain("1h")
        [ended] = office.rota.jobs("sync_pair")
        assert ended.state == "completed", "eight times is more than there are attempts"
        summaries = office.summaries()[::-1]
        assert [each["outcome"] for each in summaries] == ["snoozed"] * 8 + ["completed"]
        assert round((summaries[1]["started_at"] - summaries[0]["started_at"]).total_seconds() / 60) == 2
        assert "429" in summaries[0]["error"]
        assert job == ended.id

    async def test_unless_it_never_ends(
        self, office: Office, make_dav: Callable[[], Dav], files: MakeFiles, proxy: Between, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(job_module, "SNOOZES", 3)
        dav = make_dav()
        await office.pair(dav_end(dav, proxy.url(dav)), folder_end(files("second")))
        proxy.answers("PROPFIND", 403, body="<error><x>rateLimitExceeded</x></error>")
        await office.enqueue()
        await office.rota.drain("4h")
        assert office.rota.jobs("sync_pair")[0].state == "failed"
        assert [each["outcome"] for each in office.summaries()].count("failed") == 6


class TestProblems:
    @pytest.mark.req("Y04")
    async def test_a_broken_event_does_not_stop_the_others_nor_is_it_deleted(
        self, office: Office, folders: tuple[Files, Files]
    ) -> None:
        first, second = folders
        first.put(event("a"), "a.ics")
        first.put(event("b"), "b.ics")
        await office.sync()
        (first.path / "a.ics").write_text("half of somethi")
        first.put(event("b", "Edited"), "b.ics")
        summary = await office.sync()
        assert (summary["outcome"], summary["processed"]) == ("partial", 1)
        assert summary["failed"] > 0
        assert "a.ics" in summary["error"]
        assert second.titles() == {"a": "Talk", "b": "Edited"}
        first.put(event("a", "Mended"), "mended.ics")
        (first.path / "a.ics").unlink()
        assert (await office.sync())["outcome"] == "completed"
        assert second.titles() == {"a": "Mended", "b": "Edited"}

    async def test_an_event_that_the_other_side_refuses(
        self, office: Office, make_dav: Callable[[], Dav], files: MakeFiles, proxy: Between
    ) -> None:
        dav, second = make_dav(), files("second")
        await office.pair(dav_end(dav, proxy.url(dav)), folder_end(second))
        for uid in "ab":
            second.put(event(uid))
        proxy.answers("PUT", 415, times=1)
        summary = await office.sync()
        assert (summary["outcome"], summary["processed"], summary["failed"]) == ("partial", 1, 1)
        assert (await office.sync())["outcome"] == "completed", "another time it may be taken"

    async def test_a_calendar_that_is_suddenly_empty_empties_no_other(self, office: Office, folders: tuple[Files, Files]) -> None:
        first, second = folders
        for n in range(30):
            first.put(event(f"e{n}"))
        await office.sync()
        for n in range(29):
            first.remove(f"e{n}")
        summary = await office.sync()
        assert (summary["outcome"], len(second.titles())) == ("failed", 30)
        assert "29 of 30 events are gone" in summary["error"]
        assert (await office.sync(allow_deletions=True))["details"]["deleted"] == {"first": 0, "second": 29}

    async def test_a_pair_that_is_not_there_and_a_connector_that_is_not_its(
        self, office: Office, folders: tuple[Files, Files]
    ) -> None:
        payload = {"connector": "caldav", "window_start": WINDOW.start.isoformat(), "window_end": WINDOW.end.isoformat()}
        await office.app.aenqueue("sync_pair", {**payload, "calendar_pair_id": "nobody"}, max_attempts=1)
        await office.app.aenqueue("sync_pair", {**payload, "calendar_pair_id": "team:rooms"}, max_attempts=1)
        await office.rota.drain()
        nobody, another = office.rota.jobs("sync_pair")
        assert "there is no pair 'nobody'" in str(nobody.last_error)
        assert "is not one of pair 'team:rooms'" in str(another.last_error)


class TestPairs:
    @pytest.fixture
    async def calls(self, office: Office, files: MakeFiles) -> Any:
        return NewEnd("folder", Place(str(files("first").path))), NewEnd("folder", Place(str(files("second").path)))

    async def test_refusals(self, office: Office, calls: Any, aconn: AConn) -> None:
        first, second = calls
        feed = NewEnd("ics", Place("https://example.org/x.ics"))
        for wrong, words in (
            ({"direction": "sideways"}, "direction="), ({"every": timedelta(seconds=1)}, "too often"),
            ({"past": timedelta(days=-1)}, "window"),
        ):  # fmt: skip
            with pytest.raises(UsageError, match=words):
                await pairs.add(aconn, office.app.settings, "p", first, second, **wrong)  # type: ignore[arg-type]
        for id in ("", "a b", "a\n", "x" * 201):
            with pytest.raises(UsageError, match="not a name"):
                await pairs.add(aconn, office.app.settings, id, first, second)
        with pytest.raises(UsageError, match="same"):
            await pairs.add(aconn, office.app.settings, "p", first, first)
        with pytest.raises(UsageError, match="only read"):
            await pairs.add(aconn, office.app.settings, "p", first, feed, direction="to_second")
        assert (await pairs.add(aconn, office.app.settings, "p", first, feed)).direction == "to_first"
        with pytest.raises(Conflict, match="already"):
            await pairs.add(aconn, office.app.settings, "p", first, second)
        with pytest.raises(NotFound):
            await pairs.get(aconn, "q")

    async def test_a_password_is_not_stored_without_a_key(
        self, office: Office, calls: Any, aconn: AConn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from pydantic import SecretStr

        monkeypatch.setattr(secret, "_keys", ())
        first, _ = calls
        with pytest.raises(ConfigError, match="ROTA_SECRETS_KEY"):
            await pairs.add(
                aconn, office.app.settings, "p", first, NewEnd("caldav", Place("https://example.org/", "ann", SecretStr("x")))
            )

    async def test_stored_encrypted_and_read_by_who_has_the_key(
        self, office: Office, calls: Any, make_dav: Callable[[], Dav], aconn: AConn
    ) -> None:
        await office.pair(calls[0], dav_end(make_dav()))
        [(sealed,)] = office.conn.execute("SELECT second_sealed FROM rota_calendars.pair").fetchall()
        assert sealed.startswith("rota-secret:")
        assert PASSWORD not in str(await pairs.need(aconn, "team:rooms"))
        await pairs.sign_in(aconn, "team:rooms", "second", user="bob", password="other")
        place = pairs.open_place(await pairs.need(aconn, "team:rooms"), "second")
        assert (place.user, place.password and place.password.get_secret_value()) == ("bob", "other")

    async def test_removed_with_all_that_is_known_of_it(self, office: Office, folders: tuple[Files, Files], aconn: AConn) -> None:
        folders[0].put(event("a"))
        await office.sync()
        await pairs.remove(aconn, "team:rooms")
        for table in ("pair", "resource", "event", "conflict"):
            assert office.conn.execute(f"SELECT count(*) FROM rota_calendars.{table}").fetchone() == (0,)
        assert folders[1].titles() == {"a": "Talk"}

    async def test_by_themselves_as_often_as_they_say(self, office: Office, files: MakeFiles) -> None:
        first, second = files("first"), files("second")
        await office.pair(folder_end(first), folder_end(second), every=timedelta(minutes=15))
        regular = office.app.include("rota.apps.calendars")
        await regular.aensure(calendar_pair_id="team:rooms")
        from rota.apps.calendars import sync_pair_regularly

        assert sync_pair_regularly.__name__ == regular.name
        await office.app.aenqueue("sync_pair_regularly", {"calendar_pair_id": "team:rooms"})
        await office.rota.drain()
        assert len(office.rota.jobs("sync_pair", "completed")) == 1


@pytest.mark.req("Y02")
async def test_a_request_over_the_api_drives_it(office: Office, folders: tuple[Files, Files], dsn: str) -> None:
    folders[0].put(event("a"))
    async with serving(Rota(settings=settings_for(dsn, secrets_key=KEY))) as server:
        admin = sign_in(office.conn, server)
        wanted = {"calendar_pair_id": "team:rooms", "connector": "folder", "window_start": "2030-01-01T00:00:00Z",
                  "window_end": "2030-02-01T00:00:00Z", "payload": {"allow_deletions": False}}  # fmt: skip
        [made] = await admin.schedule(wanted, key="once")
        assert await admin.schedule(wanted, key="once") == [made]
    await office.rota.drain()
    [summary] = office.summaries()
    assert (str(summary["job_id"]), summary["outcome"], folders[1].titles()) == (made["id"], "completed", {"a": "Talk"})
