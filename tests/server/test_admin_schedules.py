"""`/api/admin/schedules` over HTTP: made, changed by those who have seen what they change, fired, previewed."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.shop import Shop

from rota import Rota

pytestmark = pytest.mark.req("A02")

Conn = psycopg.Connection[Any]
NIGHTLY = {"name": "nightly", "task": "send", "cron": "0 3 * * *", "tz": "Europe/Berlin", "payload": {"user_id": 1}}


async def names(shop: Shop, **filter: Any) -> list[str]:
    return [line["record"]["name"] for line in (await shop.get("/schedules", **filter))["items"]]


class TestSeed:
    """The endpoints of the source, as written, with Rota's names."""

    async def test_list_create_update_delete_enable_disable(self, shop: Shop, conn: Conn) -> None:
        made = await shop.post("/schedules", {**NIGHTLY, "enabled": True}, status=201)
        assert (made["name"], made["timing"]["cron"], made["timing"]["tz"]) == ("nightly", "0 3 * * *", "Europe/Berlin")
        assert made["next_run_at"] is not None
        assert await names(shop) == ["nightly", "sweep"]
        id = made["id"]
        changed = await shop.ask("PUT", f"/schedules/{id}", {"cron": "30 4 * * *", "tz": "UTC", "payload": {"user_id": 2}})
        assert changed.status == 200
        assert (changed.body["timing"]["cron"], changed.body["payload"], changed.body["task"]) == (
            "30 4 * * *",
            {"user_id": 2},
            "send",
        )
        assert datetime.fromisoformat(changed.body["next_run_at"]).strftime("%H:%M") == "04:30"
        assert (await shop.post(f"/schedules/{id}/disable"))["enabled"] is False
        assert (await shop.post(f"/schedules/{id}/enable"))["enabled"] is True
        off = await shop.ask("PUT", f"/schedules/{id}", {"enabled": False})
        assert off.body["enabled"] is False
        conn.execute("UPDATE rota.schedule SET next_run_at = '2001-01-01' WHERE name = 'nightly'")
        on = await shop.ask("PUT", f"/schedules/{id}", {"enabled": True})
        assert on.body["next_run_at"] > "2020"  # planned anew
        assert (await shop.ask("DELETE", f"/schedules/{id}")).status == 204
        assert await shop.refused("GET", f"/schedules/{id}") == (404, "not_found")
        told = [each for (each,) in conn.execute("SELECT operation FROM rota.audit WHERE target = 'nightly' ORDER BY id")]
        assert told == ["schedules." + each for each in ("create", "update", "disable", "enable", "update", "update", "delete")]

    async def test_what_cannot_be_is_refused_with_the_field(self, shop: Shop) -> None:
        await shop.post("/schedules", NIGHTLY, status=201)
        assert await shop.refused("POST", "/schedules", NIGHTLY) == (409, "conflict")
        other = {**NIGHTLY, "name": "other"}
        for change, code, field in (
            ({"cron": "61 * * * *"}, "invalid_schedule", "cron"),
            ({"tz": "Europe/Berlim"}, "invalid_schedule", "tz"),
            ({"cron": None}, "usage", None),
            ({"every": "1h"}, "usage", None),
            ({"task": "sent"}, "unknown_task", None),
            ({"payload": {"user_id": "x"}}, "payload", None),
            ({"payload": []}, "validation", "body.payload"),
            ({"enabled": "yes"}, "validation", "body.enabled"),
            ({"max_attempts": 0}, "validation", "body.max_attempts"),
            ({"name": "a/b"}, "usage", None),
            ({"name": "a\0b"}, "validation", "body.name"),
            ({"colour": "red"}, "validation", "body.colour"),
            ({"overlap": "sometimes"}, "validation", "body.overlap"),
            ({"starts_at": "2031-01-02T00:00:00Z", "ends_at": "2031-01-01T00:00:00Z"}, "usage", "ends_at"),
        ):
            answer = await shop.ask("POST", "/schedules", {**other, **change})
            assert (answer.status, answer.body["code"]) == (422, code), change
            assert field is None or answer.body["errors"][0]["field"] == field, answer.body
        for change in ({}, {"cron": "x"}, {"name": "new"}, {"payload": {"user_id": "x"}}, {"task": None}):
            assert (await shop.refused("PUT", "/schedules/nightly", change))[0] == 422, change
        assert (await shop.get("/schedules/nightly"))["record"]["timing"]["cron"] == "0 3 * * *"


class TestOne:
    async def test_show_and_next_times(self, shop: Shop) -> None:
        await shop.post("/schedules", {**NIGHTLY, "name": "my nightly + more?"}, status=201)
        path = "/schedules/my%20nightly%20+%20more%3F"
        detail = await shop.get(path)
        assert len(detail["upcoming"]) == 5
        assert detail["ledger"] == []
        times = (await shop.get(path + "/times", count=3))["items"]
        assert [each["at_utc"] for each in times] == [each["at_utc"] for each in detail["upcoming"][:3]]

    async def test_settings_are_taken_away_with_null(self, shop: Shop) -> None:
        await shop.post(
            "/schedules", {**NIGHTLY, "queue": "mail", "ends_at": "2040-01-01T00:00:00Z", "max_attempts": 3}, status=201
        )
        changed = await shop.ask("PATCH", "/schedules/nightly", {"queue": None, "ends_at": None})
        record = changed.body
        assert (record["queue"], record["timing"]["ends_at"], record["max_attempts"]) == (None, None, 3)
        every = await shop.ask("PATCH", "/schedules/nightly", {"every": "90m", "tz": "UTC"})
        assert (every.body["timing"]["strategy"], every.body["timing"]["every"]) == ("interval", "PT1H30M")

    async def test_run_now(self, shop: Shop, conn: Conn) -> None:
        await shop.post("/schedules", NIGHTLY, status=201)
        fired = await shop.post("/schedules/nightly/run")
        [(id, by)] = conn.execute("SELECT id::text, triggered_by FROM rota.job").fetchall()
        assert fired == {"job_id": id}
        assert by["kind"] == "manual"

    async def test_recurring_rows_are_named_by_task_and_key(self, dsn: str, shop: Shop, conn: Conn) -> None:
        async with Rota(dsn, name="feeds") as app:

            @app.recurring(key="feed:{id}/x", every="1h")
            def fetch(id: int) -> None: ...

            await app.control.sync_definitions()
            await fetch.aensure(id=1)
        [line] = (await shop.get("/schedules", task="fetch"))["items"]
        path = "/schedules/fetch/feed:1/x"
        assert (await shop.get(path))["record"]["id"] == line["record"]["id"]
        assert (await shop.post(path + "/disable"))["enabled"] is False
        assert (await shop.post(f"/schedules/{line['record']['id']}/enable"))["enabled"] is True
        assert await shop.refused("PUT", path, {"enabled": False}) == (409, "conflict")
        assert await shop.refused("DELETE", path) == (409, "conflict")
        assert await shop.get("/schedules", recurring="true", enabled="false") == {"items": [], "next": None, "count": None}


class TestList:
    async def test_filters_and_pages(self, shop: Shop, conn: Conn) -> None:
        for n in range(5):
            await shop.post("/schedules", {**NIGHTLY, "name": f"s{n}"}, status=201)
        await shop.post("/schedules/s1/disable")
        assert await names(shop, enabled="false") == ["s1"]
        assert await names(shop, task="sen*") == ["s0", "s1", "s2", "s3", "s4"]
        assert any(name.startswith("rota.") for name in await names(shop, system="true"))
        seen, cursor = [], ""
        while cursor is not None:
            page = await shop.get("/schedules", limit=2, **({"cursor": cursor} if cursor else {}))
            seen += [line["record"]["name"] for line in page["items"]]
            cursor = page["next"]
            await shop.ask("DELETE", f"/schedules/{seen[-1]}")  # the very one that the cursor speaks of
        assert seen == ["s0", "s1", "s2", "s3", "s4", "sweep"]

    async def test_failing_ones_by_how_long(self, shop: Shop, conn: Conn) -> None:
        for n in range(4):
            await shop.post("/schedules", {**NIGHTLY, "name": f"s{n}"}, status=201)
            conn.execute(
                "UPDATE rota.schedule SET failing_since = rota.now() - %s WHERE name = %s", [timedelta(hours=n + 1), f"s{n}"]
            )
        page = await shop.get("/schedules", failing="true", limit=2)
        assert [line["record"]["name"] for line in page["items"]] == ["s3", "s2"]
        conn.execute("UPDATE rota.schedule SET failing_since = NULL WHERE name = 's2'")
        page = await shop.get("/schedules", failing="true", limit=2, cursor=page["next"])
        assert [line["record"]["name"] for line in page["items"]] == ["s1", "s0"]
        assert await shop.refused("GET", "/schedules", params={"cursor": "abc"}) == (422, "cursor")


class TestPreview:
    async def test_next_times_with_what_the_clocks_do(self, shop: Shop, conn: Conn) -> None:
        given.move_clock(conn, datetime.fromisoformat("2031-03-29T12:00:00Z") - datetime.now().astimezone())
        asked = {"cron": "30 2 * * *", "tz": "Europe/Berlin", "count": 3}
        told = await shop.get("/schedules/preview", **asked)
        assert told["words"] == "At 02:30 every day, Europe/Berlin"
        assert [each["at_utc"] for each in told["times"]] == [
            "2031-03-30T01:00:00Z", "2031-03-31T00:30:00Z", "2031-04-01T00:30:00Z",
        ]  # fmt: skip
        assert told["times"][0]["note"].startswith("clocks go forward: 02:30 does not exist")
        assert told["times"][0]["local"] == "2031-03-30T03:00:00+02:00"
        assert (await shop.post("/schedules/preview", asked))["times"] == told["times"]
        every = await shop.get("/schedules/preview", every="90m", count=2)
        first, second = (datetime.fromisoformat(each["at_utc"]) for each in every["times"])
        assert (every["words"], second - first) == ("every 1h 30m", timedelta(minutes=90))

    async def test_mistakes_are_said_with_their_field(self, shop: Shop) -> None:
        for body, code, field in (
            ({"cron": "0 3 * *"}, "invalid_schedule", "cron"),
            ({"cron": "0 3 * * *", "tz": "Mars/Olympus"}, "invalid_schedule", "tz"),
            ({"cron": "0 0 30 2 *"}, "invalid_schedule", "cron"),
            ({"every": "1 fortnight"}, "validation", "body.every"),
            ({"every": "10ms"}, "usage", "every"),
            ({"cron": "0 3 * * *", "count": 101}, "validation", "body.count"),
            ({"cron": "0 3 * * *", "count": True}, "validation", "body.count"),
        ):
            answer = await shop.ask("POST", "/schedules/preview", body)
            assert (answer.status, answer.body["code"]) == (422, code), body
            assert answer.body["errors"][0]["field"] == field, answer.body
        assert await shop.refused("GET", "/schedules/preview") == (422, "usage")


class TestVersions:
    async def test_who_has_not_seen_the_last_change_is_refused(self, shop: Shop) -> None:
        await shop.post("/schedules", NIGHTLY, status=201)
        seen = (await shop.ask("GET", "/schedules/nightly")).etag
        first = await shop.ask("PUT", "/schedules/nightly", {"cron": "0 4 * * *"}, headers={"If-Match": seen})
        assert first.status == 200
        late = {"If-Match": seen}
        for method, path, body in (
            ("PUT", "", {"cron": "0 5 * * *"}), ("PATCH", "", {"enabled": False}), ("DELETE", "", None), ("POST", "/enable", None),
            ("POST", "/disable", None),
        ):  # fmt: skip
            assert await shop.refused(method, f"/schedules/nightly{path}", body, headers=late) == (412, "stale"), method
        assert (await shop.get("/schedules/nightly"))["record"]["timing"]["cron"] == "0 4 * * *"
        for match in (first.etag, "*", f"W/{first.etag}"):
            answer = await shop.ask("POST", "/schedules/nightly/disable", headers={"If-Match": match})
            assert answer.status == (200 if match != f"W/{first.etag}" else 412)
        assert await shop.refused("PUT", "/schedules/nightly", {"enabled": True}, headers={"If-Match": "abc"}) == (422, "usage")

    async def test_of_many_who_have_seen_the_same_one_changes_it(self, shop: Shop) -> None:
        await shop.post("/schedules", NIGHTLY, status=201)
        seen = {"If-Match": (await shop.ask("GET", "/schedules/nightly")).etag}
        changes = [shop.ask("PUT", "/schedules/nightly", {"cron": f"{n} 5 * * *"}, headers=seen) for n in range(12)]
        statuses = sorted(answer.status for answer in await asyncio.gather(*changes))
        assert statuses[0] == 200
        assert set(statuses[1:]) <= {412, 409}
        assert statuses.count(200) == 1

    async def test_a_run_does_not_make_it_another_one_but_is_sent(self, shop: Shop, conn: Conn) -> None:
        await shop.post("/schedules", NIGHTLY, status=201)
        seen = (await shop.ask("GET", "/schedules/nightly")).etag
        same = await shop.ask("GET", "/schedules/nightly", headers={"If-None-Match": seen})
        assert (same.status, same.body, same.etag) == (304, None, seen)
        conn.execute("UPDATE rota.schedule SET last_run_at = rota.now(), successes = successes + 1 WHERE name = 'nightly'")
        again = await shop.ask("GET", "/schedules/nightly", headers={"If-None-Match": seen})
        assert (again.status, again.etag == seen) == (200, False)
        assert (await shop.ask("PUT", "/schedules/nightly", {"enabled": False}, headers={"If-Match": seen})).status == 200


@pytest.mark.req("B01", "T12")
async def test_a_deleted_schedule_stays_deleted_until_it_is_restored(shop: Shop) -> None:
    assert (await shop.ask("DELETE", "/schedules/sweep")).status == 204
    await shop.post("/sync")
    assert await shop.refused("GET", "/schedules/sweep") == (404, "not_found")
    assert (await shop.get("/tasks/sweep"))["record"]["schedule_deleted_at"] is not None
    drift = [each for each in (await shop.get("/plan"))["drift"] if each["task"] == "sweep"]
    assert drift == [{"task": "sweep", "setting": "schedule", "code": "every 1h", "database": "deleted"}]
    restored = await shop.post("/schedules/sweep/restore")
    assert (restored["name"], restored["timing"]["every"], restored["enabled"]) == ("sweep", "PT1H", True)
    assert (await shop.get("/tasks/sweep"))["record"]["schedule_deleted_at"] is None
    assert await shop.refused("POST", "/schedules/sweep/restore") == (409, "conflict")
    assert await shop.refused("POST", "/schedules/send/restore") == (404, "not_found")
    operations = [each["operation"] for each in (await shop.get("/audit"))["items"]]
    assert operations.count("schedules.restore") == 1


@pytest.mark.req("C03", "T12")
async def test_updating_the_schedule_of_a_task_without_one_creates_it(shop: Shop) -> None:
    made = await shop.ask("PUT", "/schedules/count", {"cron_expr": "0 4 * * *", "timezone": "Europe/Berlin", "payload": {"n": 1}})
    assert (made.status, made.body["name"], made.body["task"], made.body["timing"]["cron"]) == (200, "count", "count", "0 4 * * *")
    assert await shop.refused("PUT", "/schedules/send", {"every": "1h"}) == (422, "payload"), "its jobs could not run"
    assert await shop.refused("GET", "/schedules/send") == (404, "not_found")
    assert await shop.refused("PUT", "/schedules/nothing", {"every": "1h"}) == (404, "not_found")
