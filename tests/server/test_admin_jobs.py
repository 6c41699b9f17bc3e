"""`/api/admin/jobs` over HTTP: find, look into, retry, cancel, edit, put off, enqueue, count; one and many."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.counts import exactly
from tests.support.shop import ADMIN, Shop

from rota.model.ids import new_id

pytestmark = pytest.mark.req("A01")

Conn = psycopg.Connection[Any]


def fail(conn: Conn, *, error: str = "boom", queue: str = "mail") -> UUID:
    worker = given.start_worker(conn, queues=(queue,), tasks=("send", "count"))
    return given.fail(conn, worker, queue=queue, error=error)


async def send(shop: Shop, user_id: int = 1, **options: Any) -> str:
    made = await shop.post("/jobs", {"task": "send", "payload": {"user_id": user_id}, **options}, status=201)
    assert made["created"] is True
    return str(made["id"])


async def ids(shop: Shop, **filter: Any) -> list[str]:
    return [job["id"] for job in (await shop.get("/jobs", **filter))["items"]]


class TestSeed:
    """The endpoints of the source, as written, with Rota's names."""

    async def test_list_get_retry_cancel_stats(self, shop: Shop, conn: Conn) -> None:
        first, second = await send(shop, 1), await send(shop, 2)
        assert fail(conn) == UUID(first)
        page = await shop.get("/jobs", state="failed", task="send", limit=10)
        [job] = page["items"]
        assert (job["id"], job["state"], job["attempt"], job["error"]) == (first, "failed", 1, "boom")
        detail = await shop.get(f"/jobs/{first}")
        assert detail["job"]["payload"] == {"user_id": 1}
        assert [(run["attempt"], run["outcome"]) for run in detail["runs"]] == [(1, "failed")]
        stats = await shop.get("/jobs/stats")
        assert stats["states"]["failed"] == exactly(1)
        assert stats["states"]["queued"] == exactly(1)
        assert set(stats["states"]) == {"waiting", "queued", "running", "completed", "failed", "canceled"}
        assert stats["oldest_queued_age"].startswith("P")
        assert (await shop.post(f"/jobs/{first}/retry"))["state"] == "queued"
        assert (await shop.post(f"/jobs/{second}/cancel", {"reason": "a mistake"}))["state"] == "canceled"
        assert await shop.refused("POST", f"/jobs/{second}/cancel") == (409, "invalid_transition")
        assert await shop.refused("GET", f"/jobs/{new_id()}") == (404, "not_found")
        assert await shop.refused("POST", f"/jobs/{new_id()}/retry") == (404, "not_found")

    async def test_every_change_is_written_down(self, shop: Shop, conn: Conn) -> None:
        id = await send(shop)
        await shop.post(f"/jobs/{id}/cancel", {"reason": "why not"})
        await shop.refused("POST", f"/jobs/{id}/cancel")
        rows = conn.execute(
            "SELECT actor, operation, target, detail FROM rota.audit WHERE target = %s ORDER BY id", [id]
        ).fetchall()
        assert rows == [
            (ADMIN, "jobs.enqueue", id, {"task": "send"}),
            (ADMIN, "jobs.cancel", id, {"reason": "why not"}),
        ]


class TestList:
    async def test_filters(self, shop: Shop, conn: Conn) -> None:
        a = await send(shop, 1, key="k1")
        b = await send(shop, 2)
        c = (await shop.post("/jobs", {"task": "count", "payload": {"n": 42}}, status=201))["id"]
        assert fail(conn, error="Connection RESET by peer") == UUID(a)
        assert await ids(shop) == [c, b, a]
        assert await ids(shop, task="send") == [b, a]
        assert await ids(shop, task="s?n*") == [b, a]
        assert await ids(shop, queue="default") == [c]
        assert await ids(shop, key="k1") == [a]
        assert await ids(shop, text="connection reset") == [a]
        assert await ids(shop, since="1h") == [c, b, a]
        assert await ids(shop, until="1h") == []
        assert await ids(shop, since=datetime.now(UTC) + timedelta(hours=1)) == []
        assert await ids(shop, owner="nobody") == []
        assert await ids(shop, q="state:failed,queued task:send payload.user_id:2") == [b]
        assert await ids(shop, q="payload.n:42.0") == [c]
        assert await ids(shop, q='payload.n:"42"') == [c]
        assert await ids(shop, q="reset", task="send") == [a]
        assert await shop.refused("GET", "/jobs", params={"q": "task:x", "task": "y"}) == (422, "usage")

    async def test_payloads_are_compared_as_they_are_written(self, shop: Shop, conn: Conn) -> None:
        payload = {"user": {"id": 7, "mail": "ann@example.org"}, "tags": ["a", "b"], "none": None, "on": True, "100%": "5%s"}
        conn.execute("UPDATE rota.task SET payload_schema = '{}' WHERE name = 'count'")
        id = given.enqueue(conn, "count", payload=payload)
        for found in (
            "payload.user.id:7", "payload.user.mail:*@example.org", "payload.tags.1:b", "payload.none:null", "payload.on:true",
            'payload."100%":5%s', "payload.user.mail:ann@* payload.on:true", 'payload.user.mail:"ann@example.org"',
        ):  # fmt: skip
            assert await ids(shop, q=found) == [str(id)], found
        for missed in ("payload.user.id:8", "payload.user:7", "payload.tags.2:b", "payload.missing:null", 'payload.user.mail:"*"'):
            assert await ids(shop, q=missed) == [], missed

    async def test_pages_go_on_where_the_last_one_ended_whatever_comes_and_goes(self, shop: Shop, conn: Conn) -> None:
        made = [await send(shop, n) for n in range(7)]
        seen: list[str] = []
        cursor, pages = None, 0
        while pages == 0 or cursor is not None:
            page = await shop.get("/jobs", limit=2, **({"cursor": cursor} if cursor else {}))
            seen += [job["id"] for job in page["items"]]
            cursor, pages = page["next"], pages + 1
            # New ones come first, what is shown goes, what is to come changes its state.
            await send(shop, 100 + pages)
            conn.execute("DELETE FROM rota.job WHERE id = %s", [seen[-1]])
            if pages == 1:
                fail(conn)
        assert seen == made[::-1]
        assert pages >= 4

    async def test_limits_are_clamped_and_counts_capped(self, shop: Shop) -> None:
        for n in range(3):
            await send(shop, n)
        page = await shop.get("/jobs", limit=10**9, count="true")
        assert (len(page["items"]), page["next"], page["count"]) == (3, None, exactly(3))
        assert await shop.get("/jobs/count", state="queued") == exactly(3)
        assert (await shop.get("/jobs"))["count"] is None
        assert await shop.refused("GET", "/jobs", params={"limit": "0"}) == (422, "validation")

    async def test_what_cannot_be_read_is_said(self, shop: Shop) -> None:
        answer = await shop.ask("GET", "/jobs", params={"q": "task:send stat:failed"})
        assert (answer.status, answer.body["code"]) == (422, "query")
        assert answer.body["detail"].startswith("q at 10: 'stat' is not a qualifier: did you mean 'state'?")
        assert answer.body["errors"][0]["field"] == "q"
        for params in ({"stat": "failed"}, {"state": "lost"}, {"since": "yesterday"}, {"task": "a\0b"}, {"task": "x" * 501}):
            assert await shop.refused("GET", "/jobs", params=params) == (422, "validation"), params


class TestOne:
    async def test_a_job_is_enqueued_once_per_key(self, shop: Shop) -> None:
        body = {"task": "send", "payload": {"user_id": 1}, "key": "once"}
        first = await shop.post("/jobs", body, status=201)
        again = await shop.ask("POST", "/jobs", body)
        assert (again.status, again.body) == (200, {"id": first["id"], "created": False})
        assert await shop.refused("POST", "/jobs", {**body, "strict": True}) == (409, "conflict")
        assert await shop.refused("POST", "/jobs", {"task": "sent", "payload": {}}) == (422, "unknown_task")
        assert await shop.refused("POST", "/jobs", {"task": "send", "payload": {"user_id": "x"}}) == (422, "payload")
        assert await shop.refused("POST", "/jobs", {**body, "queue": "nowhere"}) == (422, "unknown_queue")

    async def test_options_of_a_job(self, shop: Shop) -> None:
        parent = await send(shop)
        at = "2031-01-01T10:00:00+01:00"
        id = await send(
            shop, 2, priority=-5, run_at=at, max_attempts=9, timeout="90s", parents=[parent], on_parent_failure="ignore", key="k"
        )
        job = (await shop.get(f"/jobs/{id}"))["job"]
        assert (job["state"], job["priority"], job["max_attempts"], job["key"]) == ("waiting", -5, 9, "k")
        assert (job["run_at"], job["timeout"]) == ("2031-01-01T09:00:00Z", "PT1M30S")
        assert job["triggered_by"] == {"kind": "manual", "user": ADMIN}
        assert (await shop.get(f"/jobs/{parent}"))["children"][0]["id"] == id

    async def test_why(self, shop: Shop) -> None:
        id = await send(shop, delay=3600)
        reasons = (await shop.get(f"/jobs/{id}/why"))["reasons"]
        assert reasons[0]["code"] == "not_due"

    async def test_edit_and_retry(self, shop: Shop, conn: Conn) -> None:
        id = await send(shop, 1)
        fail(conn)
        assert (await shop.post(f"/jobs/{id}/edit", {"changes": {"user_id": 2}}))["state"] == "queued"
        detail = await shop.get(f"/jobs/{id}")
        assert detail["job"]["payload"] == {"user_id": 2}
        assert detail["edits"][0]["payload"] == {"user_id": 1}
        assert await shop.refused("POST", f"/jobs/{id}/edit", {"changes": {"user_id": "x"}}) == (422, "payload")
        assert await shop.refused("POST", f"/jobs/{id}/edit", {}) == (422, "validation")
        told = conn.execute("SELECT detail::text FROM rota.audit WHERE operation = 'jobs.edit'").fetchall()
        assert [json.loads(each) for (each,) in told] == [{"members": ["user_id"]}]

    async def test_runs(self, shop: Shop, conn: Conn) -> None:
        id = await send(shop)
        fail(conn)
        await shop.post(f"/jobs/{id}/retry")
        worker = given.start_worker(conn, queues=("mail",), tasks=("send",))
        given.claim(conn, worker, queue="mail")
        page = await shop.get(f"/jobs/{id}/runs", limit=1)
        assert [(run["attempt"], run["status"]) for run in page["items"]] == [(2, "running")]
        page = await shop.get(f"/jobs/{id}/runs", limit=1, cursor=page["next"])
        assert [(run["attempt"], run["status"]) for run in page["items"]] == [(1, "failed")]

    async def test_a_job_is_put_off_and_back(self, shop: Shop, conn: Conn) -> None:
        id = await send(shop)
        later = await shop.post(f"/jobs/{id}/reschedule", {"run_at": "2040-01-01T00:00:00Z"})
        assert (later["state"], later["run_at"]) == ("queued", "2040-01-01T00:00:00Z")
        assert conn.execute("SELECT state FROM rota.job").fetchone() == ("delayed",)
        await shop.post(f"/jobs/{id}/reschedule", {"run_at": "2020-01-01T00:00:00Z"})
        assert conn.execute("SELECT state, run_at FROM rota.job").fetchone() == ("queued", datetime(2020, 1, 1, tzinfo=UTC))
        worker = given.start_worker(conn, queues=("mail",), tasks=("send",))
        [(claimed, _)] = given.claim(conn, worker, queue="mail")
        assert str(claimed) == id
        assert await shop.refused("POST", f"/jobs/{id}/reschedule", {"run_at": "2040-01-01T00:00:00Z"}) == (
            409,
            "invalid_transition",
        )
        for wrong in ("2040-01-01T00:00:00", "tomorrow", 1900000000, "0001-01-01T00:00:00Z"):
            assert await shop.refused("POST", f"/jobs/{id}/reschedule", {"run_at": wrong}) == (422, "validation")

    async def test_a_job_that_has_a_place_within_a_limit_gives_it_up(self, shop: Shop, conn: Conn) -> None:
        await shop.app.control.limit_queue("mail", max_concurrency=1)
        first, second = await send(shop, 1), await send(shop, 2)
        conn.execute("SELECT rota.admit_due()")
        states = dict(conn.execute("SELECT id::text, state FROM rota.job").fetchall())
        assert states == {first: "queued", second: "held"}
        for id in (first, second):  # from the queue, and from the line before it
            await shop.post(f"/jobs/{id}/reschedule", {"run_at": "2040-01-01T00:00:00Z"})
        assert conn.execute("SELECT DISTINCT state, line, limit_key FROM rota.job").fetchall() == [("delayed", None, None)]
        await shop.post(f"/jobs/{second}/reschedule", {"run_at": "2020-01-01T00:00:00Z"})
        conn.execute("SELECT rota.admit_due()")
        assert conn.execute("SELECT id::text FROM rota.job WHERE state = 'queued'").fetchall() == [(second,)]


class TestBulk:
    async def test_a_dry_run_counts_and_the_real_one_changes(self, shop: Shop, conn: Conn) -> None:
        made = [await send(shop, n) for n in range(5)]
        for _ in range(3):
            fail(conn)
        body = {"action": "retry", "filter": {"state": ["failed"], "task": "send"}, "dry_run": True}
        assert await shop.post("/jobs/bulk", body) == {
            "action": "retry", "dry_run": True, "matched": exactly(3), "changed": 0, "skipped": 0, "next": None,
        }  # fmt: skip
        done = await shop.post("/jobs/bulk", {**body, "dry_run": False})
        assert (done["changed"], done["skipped"], done["next"], done["matched"]) == (3, 0, None, None)
        again = await shop.post("/jobs/bulk", {**body, "dry_run": False})
        assert (again["changed"], again["skipped"]) == (0, 0)
        canceled = await shop.post("/jobs/bulk", {"action": "cancel", "filter": {"q": "task:send"}, "reason": "all of it"})
        assert canceled["changed"] == 5
        assert await ids(shop, state="canceled") == made[::-1]
        rows = conn.execute("SELECT operation, detail FROM rota.audit WHERE operation LIKE 'jobs.%many' ORDER BY id").fetchall()
        assert [(operation, detail["changed"]) for operation, detail in rows] == [("jobs.retry_many", 3), ("jobs.cancel_many", 5)]

    async def test_when_its_time_is_over_it_says_how_to_go_on(
        self, shop: Shop, conn: Conn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rota.server.routes.jobs.WITHIN_S", 0)
        monkeypatch.setattr("rota.control.service.BULK_BATCH", 2)
        for n in range(5):
            await send(shop, n)
        body: dict[str, Any] = {"action": "cancel", "filter": {"task": "send"}}
        total, requests = 0, 0
        while requests == 0 or body["cursor"] is not None:
            done = await shop.post("/jobs/bulk", body)
            total, requests, body["cursor"] = total + done["changed"], requests + 1, done["next"]
        assert (total, requests) == (5, 3)
        assert await ids(shop, state="queued") == []

    async def test_what_is_refused(self, shop: Shop) -> None:
        for body, code in (
            ({"action": "retry", "filter": {}}, "usage"),
            ({"action": "retry", "filter": {"state": ["completed"]}}, "usage"),
            ({"action": "cancel", "filter": {"state": ["failed"]}, "dry_run": True}, "usage"),
            ({"action": "delete", "filter": {"task": "send"}}, "validation"),
            ({"action": "retry", "filter": {"task": "send"}, "dry_run": "yes"}, "validation"),
            ({"action": "retry", "filter": {"taks": "send"}}, "validation"),
            ({"action": "retry", "filter": {"task": "send"}, "cursor": "x"}, "cursor"),
        ):
            assert await shop.refused("POST", "/jobs/bulk", body) == (422, code), body

    async def test_one_that_is_locked_is_skipped(self, shop: Shop, conn: Conn, dsn: str) -> None:
        made = [await send(shop, n) for n in range(3)]
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM rota.job WHERE id = %s FOR UPDATE", [made[1]])
            assert await shop.refused("POST", f"/jobs/{made[1]}/cancel") == (409, "conflict")
            done = await shop.post("/jobs/bulk", {"action": "cancel", "filter": {"task": "send"}})
        assert (done["changed"], done["skipped"]) == (2, 1)
