"""Whether the server lives and is ready, and what it can be scraped for."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.server.conftest import Serve
from tests.support import people
from tests.support.serving import Serving, serving, settings_for

from rota import Rota
from rota.db.migrations import available

pytestmark = pytest.mark.req("O03")


async def get(server: Serving, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    async with server.client.get(path, headers=headers or {}) as answer:
        return answer.status, await answer.json() if answer.content_type.endswith("json") else await answer.text()


async def test_it_lives_and_is_ready(server: Serving) -> None:
    assert await get(server, "/healthz") == (200, {"status": "ok"})
    assert await get(server, "/readyz") == (200, {"status": "ready", "wrong": None})


async def test_a_database_without_the_schema(empty_dsn: str) -> None:
    async with serving(Rota(settings=settings_for(empty_dsn))) as server:
        assert (await get(server, "/healthz"))[0] == 200
        status, said = await get(server, "/readyz")
        assert (status, said["status"]) == (503, "not ready")
        assert "run `rota migrate up`" in said["wrong"]


async def test_a_database_with_an_old_schema(serve: Serve, conn: psycopg.Connection[Any]) -> None:
    conn.execute("DELETE FROM rota.migration WHERE number = (SELECT max(number) FROM rota.migration)")
    async with serve() as server:
        status, said = await get(server, "/readyz")
        assert (status, said["wrong"]) == (503, f"the database lacks 1 migration: {available()[-1]}: run `rota migrate up`")


async def test_a_database_that_is_away() -> None:
    dsn = "postgresql://nobody:hunter2@127.0.0.1:1/none"
    async with serving(Rota(settings=settings_for(dsn, database_connect_timeout_s=1))) as server:
        assert (await get(server, "/healthz"))[0] == 200
        status, said = await get(server, "/readyz")
        assert (status, said["wrong"]) == (503, "the database cannot be reached")


async def test_not_ready_while_it_stops(server: Serving) -> None:
    server.state.stop()
    assert await get(server, "/healthz") == (200, {"status": "ok"})
    assert await get(server, "/readyz") == (503, {"status": "not ready", "wrong": "the server is stopping"})


@pytest.mark.req("O02")
class TestMetrics:
    async def test_they_are_for_who_may_read_them(self, server: Serving) -> None:
        assert (await get(server, "/metrics"))[0] == 401
        for email, role, status in (("una@example.org", "user", 403), ("rita@example.org", "read_only", 200)):
            await people.make(server, email, role)
            assert (await get(server, "/metrics", await people.api_token(server, email)))[0] == status
        scraper = await people.api_token(server, "rita@example.org", "metrics.read")
        assert (await get(server, "/metrics", scraper))[0] == 200
        other = await people.api_token(server, "rita@example.org", "jobs.read")
        assert (await get(server, "/metrics", other))[0] == 403

    async def test_requests_by_route_and_queues_by_state(self, serve: Serve, conn: psycopg.Connection[Any]) -> None:
        conn.execute("INSERT INTO rota.queue (name) VALUES ('mail') ON CONFLICT DO NOTHING")
        async with serve(server_metrics_public=True) as server:
            for path in ("/healthz", "/nowhere/1", "/nowhere/2", "/auth/me"):
                await get(server, path)
            async with server.client.request("BREW", "/healthz"):
                pass
            status, text = await get(server, "/metrics")
        assert status == 200
        assert 'rota_http_requests_total{method="GET",route="/healthz",status="200"} 1.0' in text
        assert 'rota_http_requests_total{method="GET",route="none",status="404"} 2.0' in text  # not one for each path
        assert 'rota_http_requests_total{method="GET",route="/auth/me",status="401"} 1.0' in text
        assert 'method="other"' in text
        assert "BREW" not in text
        assert 'rota_http_request_duration_seconds_count{method="GET",route="/healthz"} 1.0' in text
        assert 'rota_queue_jobs{queue="mail",state="ready"} 0.0' in text
        assert "rota_streams 0.0" in text

    async def test_they_are_there_when_the_database_is_not(self) -> None:
        dsn = "postgresql://nobody@127.0.0.1:1/none"
        async with serving(Rota(settings=settings_for(dsn, database_connect_timeout_s=1, server_metrics_public=True))) as server:
            status, text = await get(server, "/metrics")
            assert status == 200
            assert "rota_http_requests_open 1.0" in text
