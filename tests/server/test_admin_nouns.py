"""Tasks, runs, logs, errors, queues, workers, alerts, webhooks and statistics over HTTP."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.counts import exactly
from tests.support.shop import ADMIN, Shop

from rota.model.ids import new_id

pytestmark = pytest.mark.req("A04")

Conn = psycopg.Connection[Any]


def fail(conn: Conn, *, error: str = "boom") -> UUID:
    worker = given.start_worker(conn, queues=("mail",), tasks=("send",))
    return given.fail(conn, worker, queue="mail", error=error)


async def send(shop: Shop, user_id: int = 1) -> str:
    return str((await shop.post("/tasks/send/trigger", {"payload": {"user_id": user_id}}, status=201))["id"])


class TestTasks:
    async def test_list_and_show(self, shop: Shop) -> None:
        assert [task["record"]["name"] for task in (await shop.get("/tasks"))["items"]] == ["count", "send", "sweep"]
        assert [task["record"]["name"] for task in (await shop.get("/tasks", tag="post"))["items"]] == ["send"]
        assert any(task["record"]["system"] for task in (await shop.get("/tasks", system="true"))["items"])
        page = await shop.get("/tasks", limit=2)
        assert [each["record"]["name"] for each in (await shop.get("/tasks", limit=2, cursor=page["next"]))["items"]] == ["sweep"]
        view = await shop.get("/tasks/send")
        assert view["record"]["payload_schema"]["properties"]["user_id"]["type"] == "integer"
        assert (view["record"]["description"], view["workers"], view["record"]["overrides"]) == ("Sends a letter.", 0, None)
        assert await shop.refused("GET", "/tasks/sent") == (404, "not_found")

    async def test_switch_set_and_reset(self, shop: Shop, conn: Conn) -> None:
        off = await shop.post("/tasks/send/disable", {"reason": "mail is down"})
        assert (off["record"]["enabled"], off["record"]["disabled_by"], off["record"]["disable_reason"]) == (
            False, ADMIN, "mail is down",
        )  # fmt: skip
        assert (await shop.post("/tasks/send/enable"))["record"]["enabled"] is True
        settings = {"max_concurrency": 3, "timeout": "90s", "retry": {"base": "30s"}, "default_payload": {"user_id": 5}}
        answer = await shop.ask("PUT", "/tasks/send/settings", settings)
        record = answer.body["record"]
        assert (record["max_concurrency"], record["timeout_s"], record["retry"]["base"]) == (3, 90, 30)
        assert record["overrides"]["default_payload"] == {"user_id": 5}
        unlimited = await shop.ask("PUT", "/tasks/send/settings", {"max_concurrency": None})
        assert unlimited.body["record"]["max_concurrency"] is None
        some = await shop.ask("DELETE", "/tasks/send/settings", params={"setting": "timeout"})
        assert set(some.body["record"]["overrides"]) == {"max_concurrency", "retry.base", "default_payload"}
        assert (await shop.ask("DELETE", "/tasks/send/settings")).body["record"]["overrides"] is None
        for wrong in (
            {},
            {"max_concurrency": 0},
            {"max_concurrency": True},
            {"rate": "x"},
            {"queue": "a"},
            {"default_payload": {}},
        ):
            assert (await shop.refused("PUT", "/tasks/send/settings", wrong))[0] == 422, wrong
        told = [each for (each,) in conn.execute("SELECT operation FROM rota.audit WHERE target = 'send' ORDER BY id")]
        assert told == ["tasks." + each for each in ("disable", "enable", "update", "update", "reset", "reset")]

    async def test_versions(self, shop: Shop) -> None:
        seen = {"If-Match": (await shop.ask("GET", "/tasks/send")).etag}
        await send(shop)
        changed = await shop.ask("PUT", "/tasks/send/settings", {"max_attempts": 7}, headers=seen)
        assert changed.status == 200
        for method, path, body in (
            ("PUT", "/settings", {"max_attempts": 8}), ("DELETE", "/settings", None), ("POST", "/disable", None),
            ("POST", "/enable", None),
        ):  # fmt: skip
            assert await shop.refused(method, f"/tasks/send{path}", body, headers=seen) == (412, "stale"), path
        assert (await shop.ask("POST", "/tasks/send/disable", headers={"If-Match": changed.etag})).status == 200

    async def test_trigger(self, shop: Shop, conn: Conn) -> None:
        id = (await shop.post("/tasks/count/trigger", status=201))["id"]
        assert conn.execute("SELECT id::text, payload FROM rota.job").fetchone() == (id, {"n": 1})
        assert await shop.refused("POST", "/tasks/count/trigger", {"payload": {"n": "x"}}) == (422, "payload")
        assert await shop.refused("POST", "/tasks/none/trigger") == (404, "not_found")
        for timeout in (0, 6.2e-111):
            assert (await shop.ask("POST", "/tasks/count/trigger", {"timeout": timeout})).status == 422
            assert (await shop.ask("POST", "/jobs", {"task": "count", "timeout": timeout})).status == 422

    async def test_plan_and_sync(self, shop: Shop) -> None:
        await shop.post("/tasks/send/disable")
        plan = await shop.get("/plan")
        assert plan["changes"] == []
        assert {"task": "send", "setting": "enabled", "code": True, "database": False} in plan["drift"]
        assert (await shop.post("/sync", {"force": ["send"]}))["changed"] == ["send"]
        assert (await shop.get("/tasks/send"))["record"]["enabled"] is True
        assert await shop.refused("POST", "/sync", {"force": ["none"]}) == (422, "unknown_task")

    async def test_stats(self, shop: Shop, conn: Conn) -> None:
        stats = await shop.get("/tasks/send/stats")
        assert {name: each["completed"] for name, each in stats.items()} == {"1h": 0, "24h": 0, "7d": 0}
        assert (await shop.get("/stats/tasks", period="1h", task="send"))["items"][0]["task"] == "send"
        assert await shop.refused("GET", "/tasks/none/stats") == (404, "not_found")
        assert await shop.refused("GET", "/stats/tasks", params={"period": "90d"}) == (422, "usage")


class TestRuns:
    async def test_list_filter_and_show(self, shop: Shop, conn: Conn) -> None:
        made = [await send(shop, n) for n in range(4)]
        for _ in range(4):
            fail(conn)
        page = await shop.get("/runs", status="failed", limit=3, count="true")
        assert [run["job_id"] for run in page["items"]] == made[:0:-1]
        assert page["count"] == exactly(4)
        page = await shop.get("/runs", status="failed", limit=3, cursor=page["next"])
        assert [run["job_id"] for run in page["items"]] == made[:1]
        assert len((await shop.get("/runs", job_id=made[0]))["items"]) == 1
        assert (await shop.get("/runs", task="co*"))["items"] == []
        run = await shop.get(f"/runs/{made[0]}/1")
        assert (run["status"], run["payload"], run["error"]["message"]) == ("failed", {"user_id": 0}, "boom")
        assert await shop.get(f"/runs/{made[0]}") == run
        assert await shop.refused("GET", f"/runs/{made[0]}/2") == (404, "not_found")
        assert await shop.refused("GET", f"/runs/{made[0]}/0") == (422, "validation")
        assert await shop.refused("GET", "/runs", params={"schedule": "none"}) == (404, "not_found")


class TestErrors:
    async def test_groups_are_listed_shown_and_retried(self, shop: Shop, conn: Conn) -> None:
        for n in range(6):
            await send(shop, n)
        for n in range(6):
            fail(conn, error=f"kind {'abc'[n % 3]}")
            given.move_clock(conn, timedelta(seconds=n + 1))
        seen: list[Any] = []
        cursor = ""
        while cursor is not None:
            page = await shop.get("/errors", limit=1, **({"cursor": cursor} if cursor else {}))
            seen, cursor = seen + page["items"], page["next"]
        assert [group["message"] for group in seen] == ["kind c", "kind b", "kind a"]
        assert [group["count"] for group in seen] == [exactly(2)] * 3
        fingerprint = seen[0]["fingerprint"]
        detail = await shop.get(f"/errors/{fingerprint}")
        assert (len(detail["latest"]), detail["error"]["message"]) == (2, "kind c")
        done = await shop.post(f"/errors/{fingerprint}/retry")
        assert (done["changed"], done["next"]) == (2, None)
        assert await shop.get("/jobs/count", state="failed") == exactly(4)
        assert await shop.refused("GET", "/errors/0123456789abcdef") == (404, "not_found")
        assert await shop.refused("GET", "/errors/xyz") == (422, "validation")


class TestLogs:
    def say(self, conn: Conn, job: str, lines: int, *, at: datetime) -> None:
        for n in range(lines):
            conn.execute(
                "INSERT INTO rota.log (at, task, job_id, attempt, sequence, level, message) VALUES (%s, 'send', %s, 1, %s, %s, %s)",
                [at + timedelta(milliseconds=n), job, n, 40 if n % 2 else 20, f"line {n}"],
            )

    async def test_list_search_and_follow(self, shop: Shop, conn: Conn) -> None:
        conn.execute("SELECT rota.make_log_partitions()")
        id, now = await send(shop), datetime.now(UTC)
        self.say(conn, id, 5, at=now)
        page = await shop.get("/logs", task="send", limit=2)
        assert [line["message"] for line in page["items"]] == ["line 4", "line 3"]
        page = await shop.get("/logs", task="send", limit=2, cursor=page["next"])
        assert [line["message"] for line in page["items"]] == ["line 2", "line 1"]
        assert [line["sequence"] for line in (await shop.get("/logs", job_id=id, level="error"))["items"]] == [3, 1]
        assert [line["sequence"] for line in (await shop.get("/logs", text='"line 2"'))["items"]] == [2]
        assert await shop.refused("GET", "/logs", params={"attempt": "1"}) == (422, "usage")

        page = await shop.get("/logs/follow", limit=2)
        assert [line["message"] for line in page["items"]] == ["line 3", "line 4"]
        other = str(new_id())
        self.say(conn, other, 1, at=now - timedelta(seconds=5))  # said before, and written down after
        page = await shop.get("/logs/follow", cursor=page["next"])
        assert other in [line["job_id"] for line in page["items"]]
        assert page["next"] is not None


class TestQueues:
    async def test_pause_resume_and_limits(self, shop: Shop, conn: Conn) -> None:
        await send(shop)
        queue = next(each for each in (await shop.get("/queues"))["items"] if each["name"] == "mail")
        assert queue["ready"] == exactly(1)
        paused = await shop.post("/queues/mail/pause", {"reason": "mail is down"})
        assert paused["pause_reason"] == "mail is down"
        assert (await shop.post("/queues/mail/resume"))["paused_at"] is None
        limits = await shop.ask("PUT", "/queues/mail/limits", {"max_concurrency": 3, "rate": "5/s"})
        assert limits.body == {"max_concurrency": 3, "rate": "5/1s"}
        assert (await shop.get("/queues/mail"))["overridden"] is True
        assert (await shop.ask("DELETE", "/queues/mail/limits")).body == {"max_concurrency": None, "rate": None}
        for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("DELETE", "/limits")):
            assert await shop.refused(method, f"/queues/none{path}") == (404, "not_found")
        assert await shop.refused("PUT", "/queues/none/limits", {"rate": "5/s"}) == (404, "not_found")
        assert await shop.refused("PUT", "/queues/mail/limits", {}) == (422, "usage")

    async def test_versions(self, shop: Shop) -> None:
        seen = {"If-Match": (await shop.ask("GET", "/queues/mail")).etag}
        await send(shop)
        assert (await shop.ask("POST", "/queues/mail/pause", headers=seen)).status == 200
        for method, path, body in (
            ("POST", "/resume", None), ("POST", "/pause", None), ("PUT", "/limits", {"rate": "1/s"}), ("DELETE", "/limits", None),
        ):  # fmt: skip
            assert await shop.refused(method, f"/queues/mail{path}", body, headers=seen) == (412, "stale"), path


async def test_of_many_who_have_seen_the_same_one_changes_it(shop: Shop) -> None:
    hook = (await shop.post("/webhooks", {"url": "https://example.org/"}, status=201))["id"]
    for seen, changes in (
        ("/tasks/send", [("PUT", "/tasks/send/settings", {"max_attempts": n + 10}) for n in range(8)]),
        ("/queues/mail", [("POST", "/queues/mail/pause", {"reason": f"reason {n}"}) for n in range(8)]),
        (f"/webhooks/{hook}", [("POST", f"/webhooks/{hook}/disable", None) for _ in range(8)]),
    ):
        match = {"If-Match": (await shop.ask("GET", seen)).etag}
        answers = await asyncio.gather(*(shop.ask(*change, headers=match) for change in changes))
        statuses = [answer.status for answer in answers]
        assert statuses.count(200) == 1, (seen, statuses)
        assert set(statuses) <= {200, 412, 409}, (seen, statuses)


async def test_workers(shop: Shop, conn: Conn) -> None:
    id = given.start_worker(conn, queues=("mail",), tasks=("send",))
    await send(shop)
    given.claim(conn, id, queue="mail")
    [worker] = (await shop.get("/workers", state="live"))["items"]
    assert (worker["id"], worker["holds"]) == (str(id), 1)
    assert (await shop.get(f"/workers/{id}"))["jobs"][0]["task"] == "send"
    assert (await shop.get("/workers", state="dead"))["items"] == []
    assert await shop.refused("GET", f"/workers/{new_id()}") == (404, "not_found")


async def test_alerts(shop: Shop, conn: Conn) -> None:
    for n in range(3):
        raised = "SELECT rota.raise_alert('job_failed', %s, 'f', 'error', 'broken', '{}', 1, rota.now(), rota.now() + %s)"
        conn.execute(raised, [f"task {n}", timedelta(seconds=n)])
    page = await shop.get("/alerts", limit=2)
    assert [alert["subject"] for alert in page["items"]] == ["task 2", "task 1"]
    rest = await shop.get("/alerts", limit=2, cursor=page["next"])
    assert [alert["subject"] for alert in rest["items"]] == ["task 0"]
    assert rest["next"] is None
    id = rest["items"][0]["id"]
    known = await shop.post(f"/alerts/{id}/acknowledge", {"note": "on it"})
    assert (known["state"], known["acknowledged_by"], known["note"]) == ("acknowledged", ADMIN, "on it")
    assert len((await shop.get("/alerts"))["items"]) == 2
    assert len((await shop.get("/alerts", all="true", kind="job_failed"))["items"]) == 3
    assert (await shop.get(f"/alerts/{id}"))["id"] == id
    assert await shop.refused("GET", "/alerts/999999") == (404, "not_found")
    assert await shop.refused("GET", "/alerts/99999999999999999999") == (422, "validation")
    assert await shop.refused("GET", "/alerts", params={"kind": "none"}) == (422, "usage")


async def test_webhooks(shop: Shop, conn: Conn) -> None:
    made = await shop.post("/webhooks", {"url": "https://example.org/hook/secret", "kinds": ["job_failed"]}, status=201)
    id = made["id"]
    seen = await shop.ask("GET", f"/webhooks/{id}")
    assert (seen.body["url"], seen.body["enabled"]) == ("https://example.org/…", True)
    assert made["secret"] not in str((await shop.get("/webhooks"))["items"])
    sent = [(await shop.ask("POST", f"/webhooks/{id}/test")) for _ in range(3)]
    assert {answer.status for answer in sent} == {202}
    page = await shop.get("/webhooks/deliveries", webhook=id, limit=2)
    assert [each["id"] for each in page["items"]] == [answer.body["delivery_id"] for answer in sent[:0:-1]]
    page = await shop.get("/webhooks/deliveries", webhook=id, limit=2, cursor=page["next"])
    assert [each["id"] for each in page["items"]] == [sent[0].body["delivery_id"]]
    off = await shop.ask("POST", f"/webhooks/{id}/disable", headers={"If-Match": seen.etag})
    assert off.body["enabled"] is False
    assert await shop.refused("POST", f"/webhooks/{id}/enable", headers={"If-Match": seen.etag}) == (412, "stale")
    assert await shop.refused("DELETE", f"/webhooks/{id}", headers={"If-Match": seen.etag}) == (412, "stale")
    assert (await shop.ask("DELETE", f"/webhooks/{id}", headers={"If-Match": off.etag})).status == 204
    for method, path in (("GET", ""), ("POST", "/enable"), ("POST", "/test"), ("DELETE", "")):
        assert await shop.refused(method, f"/webhooks/{id}{path}") == (404, "not_found")
    for wrong in ({"url": "ftp://x"}, {"url": "https://u:p@x/"}, {"url": "https://x/", "kinds": ["none"]}, {"url": 7}, {}):
        assert (await shop.refused("POST", "/webhooks", wrong))[0] == 422, wrong
    inside = await shop.ask("POST", "/webhooks", {"url": f"http://127.0.0.1:{shop.server.port}/hook"})
    assert (inside.status, inside.body["errors"][0]["field"]) == (422, "url")
    text = "\n".join(str(row) for row in conn.execute("SELECT a::text FROM rota.audit a"))
    assert made["secret"] not in text
    assert "hook/secret" not in text
