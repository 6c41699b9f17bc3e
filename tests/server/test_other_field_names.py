"""Clients and scripts written from the text of sources 000 and 003, sent as they are."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.server.conftest import Serve
from tests.server.test_server_process import is_ready
from tests.support import command, people
from tests.support.people import Headers
from tests.support.processes import ended_after, until
from tests.support.serving import Serving
from tests.support.shop import Shop
from tests.support.wait import PATIENCE_S

from rota.server import other_names, schemas
from rota.server.fields import Body
from rota.server.routes import calendar_jobs, http_jobs

pytestmark = pytest.mark.req("T12")

Conn = psycopg.Connection[Any]


class TestAdminApi:
    """Source 000: `/api/admin/jobs` and `/api/admin/schedules`."""

    async def test_jobs_are_listed_by_state_type_limit_and_offset(self, shop: Shop) -> None:
        sent = [(await shop.post("/tasks/send/trigger", {"payload": {"user_id": n}}, status=201))["id"] for n in range(5)]
        await shop.post("/tasks/count/trigger", status=201)
        page = await shop.ask("GET", "/jobs?state=queued&type=send&limit=2&offset=1")
        assert page.status == 200, page.body
        assert [job["id"] for job in page.body["items"]] == [sent[3], sent[2]]
        last = await shop.ask("GET", "/jobs?state=queued&type=send&limit=2&offset=4")
        assert ([job["id"] for job in last.body["items"]], last.body["next"]) == ([sent[0]], None)
        beyond = await shop.ask("GET", "/jobs?type=send&limit=2&offset=5")
        assert (beyond.status, beyond.body["items"]) == (200, [])
        assert (await shop.ask("GET", "/jobs/count?type=send")).body["count"] == 5

    async def test_a_page_at_an_offset_leads_to_the_next_one(self, shop: Shop) -> None:
        sent = [(await shop.post("/tasks/send/trigger", {"payload": {"user_id": n}}, status=201))["id"] for n in range(5)]
        page = await shop.get("/jobs", type="send", limit=2, offset=1)
        rest = await shop.get("/jobs", type="send", limit=2, cursor=page["next"])
        assert [job["id"] for job in page["items"] + rest["items"]] == sent[3::-1]
        both = await shop.ask("GET", f"/jobs?offset=1&cursor={page['next']}")
        assert (both.status, both.body["detail"]) == (
            422,
            "offset=1 and cursor both say where the page begins: give only one of them",
        )
        for offset in (-1, 10_001, "x"):
            assert (await shop.ask("GET", f"/jobs?offset={offset}")).body["errors"][0]["field"] == "query.offset"

    async def test_a_job_is_shown_canceled_and_retried(self, shop: Shop) -> None:
        id = (await shop.post("/tasks/send/trigger", {"payload": {"user_id": 1}}, status=201))["id"]
        assert (await shop.post(f"/jobs/{id}/cancel"))["state"] == "canceled"
        assert (await shop.post(f"/jobs/{id}/retry"))["state"] == "queued"
        assert (await shop.get(f"/jobs/{id}"))["job"]["state"] == "queued"
        stats = await shop.get("/jobs/stats")
        assert stats["states"].keys() >= {"queued", "running", "completed", "failed", "canceled"}
        assert stats["states"]["queued"]["count"] == 1
        assert stats["oldest_queued_age"] is not None

    async def test_schedules_are_created_and_updated(self, shop: Shop) -> None:
        body = (
            '{"name": "session_cleanup_hourly", "job_type": "send", "cron_expr": "0 * * * *", "timezone": "Europe/Berlin",'
            ' "payload": {"user_id": 1}, "enabled": true}'
        )
        made = await shop.ask("POST", "/schedules", data=body)
        assert made.status == 201, made.body
        assert (made.body["task"], made.body["enabled"], made.body["payload"]) == ("send", True, {"user_id": 1})
        assert (made.body["timing"]["cron"], made.body["timing"]["tz"]) == ("0 * * * *", "Europe/Berlin")
        path = f"/schedules/{made.body['id']}"
        body = '{"cron_expr": "30 4 * * *", "timezone": "UTC", "payload": {"user_id": 2}, "enabled": false}'
        changed = await shop.ask("PUT", path, data=body)
        assert changed.status == 200, changed.body
        assert (changed.body["timing"]["cron"], changed.body["timing"]["tz"]) == ("30 4 * * *", "UTC")
        assert (changed.body["payload"], changed.body["enabled"]) == ({"user_id": 2}, False)
        assert (await shop.post(f"{path}/enable"))["enabled"] is True
        assert (await shop.post(f"{path}/disable"))["enabled"] is False
        assert "session_cleanup_hourly" in [line["record"]["name"] for line in (await shop.get("/schedules"))["items"]]
        assert (await shop.ask("DELETE", path)).status == 204
        assert (await shop.ask("GET", path)).status == 404

    async def test_a_timing_is_previewed(self, shop: Shop) -> None:
        shown = await shop.ask("GET", "/schedules/preview?cron_expr=0+3+*+*+*&timezone=Europe/Berlin&count=1")
        assert (shown.status, shown.body["timing"]["tz"], len(shown.body["times"])) == (200, "Europe/Berlin", 1), shown.body

    async def test_wrong_values_are_refused_as_under_our_names(self, shop: Shop) -> None:
        for body, field in (
            ({"cron_expr": "61 * * * *"}, "cron"),
            ({"timezone": "Europe/Berlim"}, "tz"),
            ({"cron_expr": 5}, "body.cron"),
            ({"job_type": ""}, "body.task"),
        ):
            given = {"name": "n", "job_type": "send", "cron_expr": "0 * * * *", "payload": {"user_id": 1}, **body}
            answer = await shop.ask("POST", "/schedules", given)
            assert (answer.status, answer.body["errors"][0]["field"]) == (422, field), answer.body

    async def test_both_names_may_be_given_if_they_agree(self, shop: Shop) -> None:
        given = {"name": "n", "task": "send", "job_type": "send", "cron": "0 * * * *", "payload": {"user_id": 1}}
        assert (await shop.post("/schedules", given, status=201))["task"] == "send"
        for method, path, body, own, other in (
            ("POST", "/schedules", {**given, "name": "m", "job_type": "count"}, "task", "job_type"),
            ("PUT", "/schedules/n", {"cron": "0 1 * * *", "cron_expr": "0 2 * * *"}, "cron", "cron_expr"),
            ("PUT", "/schedules/n", {"tz": "UTC", "timezone": None}, "tz", "timezone"),
            ("GET", "/jobs?task=send&type=count", None, "task", "type"),
            ("POST", "/jobs/bulk", {"action": "retry", "filter": {"task": "send", "type": "count"}}, "task", "type"),
        ):
            answer = await shop.ask(method, path, body)
            assert answer.status == 422, answer.body
            assert f"{own} and {other} are two names of the same field, and they differ" in json.dumps(answer.body)


@pytest.fixture
async def server(serve: Serve) -> AsyncIterator[Serving]:
    """A running server that takes HTTP jobs."""
    async with serve(http_enabled=True) as running:
        yield running


@pytest.fixture
async def ann(server: Serving) -> Headers:
    await people.make(server, "ann@example.org")
    return await people.jwt(server, "ann@example.org")


class TestHttpJobs:
    """Source 003: `POST /jobs` with target URL, method, headers, body and a UTC fire time."""

    async def test_a_job_is_made(self, server: Serving, ann: Headers, conn: Conn) -> None:
        fire = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
        body = {
            "url": "https://example.org/hook", "method": "POST", "headers": {"Content-Type": "application/json"},
            "body": '{"order": 7}', "scheduled_at": fire.isoformat().replace("+00:00", "Z"), "timeout_seconds": 30,
            "max_retries": 3, "idempotency_key": "order-7",
        }  # fmt: skip
        status, job = await people.call(server, ann, "POST", "/jobs", body)
        assert status == 202, job
        assert (datetime.fromisoformat(job["run_at"]), job["timeout_s"], job["max_attempts"]) == (fire, 30, 4)
        [(stored,)] = conn.execute("SELECT max_attempts FROM rota.job WHERE id = %s", (UUID(job["id"]),))
        assert stored == 4
        again = {**body, "run_at": body["scheduled_at"], "retry": {"max_attempts": 4}}
        for name in ("scheduled_at", "max_retries"):
            del again[name]
        assert (await people.call(server, ann, "POST", "/jobs", again))[1]["id"] == job["id"]  # the same in our names
        other = {**body, "max_retries": 2}
        assert (await people.call(server, ann, "POST", "/jobs", other))[1]["code"] == "key_reused"
        assert (await people.call(server, ann, "GET", f"/jobs/{job['id']}/attempts"))[1]["items"] == []

    async def test_no_retries_are_one_attempt_and_the_other_policy_stays(self, server: Serving, ann: Headers) -> None:
        url = "https://example.org/hook"
        once = {"url": url, "max_retries": 0}
        assert (await people.call(server, ann, "POST", "/jobs", once))[1]["max_attempts"] == 1
        slow = {"url": url, "max_retries": 2, "retry": {"base_s": 60}}
        assert (await people.call(server, ann, "POST", "/jobs", slow))[1]["max_attempts"] == 3

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"max_retries": 3, "retry": {"max_attempts": 3}}, "max_retries=3 and retry.max_attempts=3 differ"),
            ({"max_retries": -1}, "body.max_retries"),
            ({"max_retries": "3"}, "body.max_retries"),
            ({"timeout_seconds": 3601}, "body.timeout_s"),
            ({"timeout_s": 10, "timeout_seconds": 20}, "timeout_s and timeout_seconds are two names"),
            ({"run_at": "2090-01-01T00:00:00Z", "scheduled_at": "2091-01-01T00:00:00Z"}, "run_at and scheduled_at are two"),
            ({"scheduled_at": "2090-01-01T00:00:00"}, "body.run_at"),
        ],
    )
    async def test_what_cannot_be_is_refused(self, server: Serving, ann: Headers, body: dict[str, Any], said: str) -> None:
        status, problem = await people.call(server, ann, "POST", "/jobs", {"url": "https://example.org/hook", **body})
        assert status == 422
        assert said in json.dumps(problem)


class TestCalendarJobs:
    """Source 002: `POST /jobs/schedule` for a pair and a window, by the names of its `sync_jobs`."""

    async def test_jobs_are_scheduled(self, conn: Conn, server: Serving) -> None:
        await people.make(server, "ann@example.org", "admin")
        headers = {**await people.cookie(server, "ann@example.org"), "Idempotency-Key": "monday"}
        job = {
            "pair_id": "8b0c3a52-7a4e-4b57-9f3a-000000000001", "connector_id": "caldav", "window_start": "2030-01-01T00:00:00Z",
            "window_end": "2030-02-01T00:00:00Z", "payload": {}, "priority": 10, "max_retries": 2,
            "next_run_at": "2030-01-01T06:00:00Z",
        }  # fmt: skip
        status, made = await people.call(server, headers, "POST", "/jobs/schedule", {"jobs": [job]})
        assert status == 202, made
        stored = "SELECT payload ->> 'calendar_pair_id', payload ->> 'connector', priority, max_attempts, run_at FROM rota.jobs"
        assert conn.execute(stored).fetchall() == [(job["pair_id"], "caldav", 10, 3, datetime(2030, 1, 1, 6, tzinfo=UTC))]
        assert (await people.call(server, headers, "POST", "/jobs/schedule", {"jobs": [job]})) == (202, made)
        status, refused = await people.call(server, headers, "POST", "/jobs/schedule", {"jobs": [{**job, "connector": "ics"}]})
        assert status == 422
        assert "connector and connector_id are two names of the same field" in json.dumps(refused)


SCRIPT = """
set -e
curl -s -X POST http://localhost:8080/auth/magic-link \\
  -H "Content-Type: application/json" \\
  -d '{"email":"you@example.com"}'
until TOKEN=$(grep -o 'http://localhost:8080/auth/verify?token=[^"&<]*' stderr | sed 's/.*token=//'); do sleep 0.1; done
JWT=$(curl -s "http://localhost:8080/auth/verify?token=$TOKEN" | sed 's/{"token":"\\(.*\\)"}/\\1/')
curl -s -o replayed -w '%{http_code}' "http://localhost:8080/auth/verify?token=$TOKEN"
ID=$(curl -s -X POST http://localhost:8080/jobs -H "Authorization: Bearer $JWT" -H "Content-Type: application/json" \\
  -d '{"url":"https://example.org/","max_retries":1}' | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')
curl -s http://localhost:8080/jobs/$ID \\
  -H "Authorization: Bearer $JWT" > shown
curl -s -o raw -w '%{http_code}' http://localhost:8080/jobs/$ID -H "Authorization: Bearer $TOKEN"
"""


@pytest.mark.req("H05")
def test_the_local_environment_and_its_curl_lines_work(tmp_path: Path, dsn: str) -> None:
    """Source 003's "Testing the auth flow locally", on another port: 8080 may be taken where tests run."""
    env = command.environment(
        ENV="local",
        DATABASE_URL=dsn.replace("postgresql://", "postgresql+asyncpg://"),
        JWT_SECRET="set-in-envrc-and-at-least-32-chars",
        ROTA_HTTP_ENABLED="true",
    )
    assert not any(name.startswith("ROTA_DATABASE") for name in env)
    port = free_port()
    env["MAGIC_LINK_BASE_URL"] = f"http://localhost:{port}"
    with ended_after(command.start("server", "--port", str(port), cwd=tmp_path, env=env)):
        until(lambda: is_ready(port), why="to be ready")
        script = SCRIPT.replace("8080", str(port))
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\{.*\}401401", done.stdout)
    shown = json.loads((tmp_path / "shown").read_text())
    assert (shown["url"], shown["max_attempts"]) == ("https://example.org/", 2)


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def test_every_model_in_the_table_reads_its_other_names() -> None:
    models = {
        each.__name__: each for module in (schemas, http_jobs, calendar_jobs) for each in vars(module).values() if is_body(each)
    }
    for name, names in other_names.OTHER_NAMES.items():
        assert models[name].other_names.items() >= names.items()
        assert models[name].model_fields.keys() >= set(names.values())
        assert models[name].model_fields.keys().isdisjoint(names)


def is_body(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, Body)
