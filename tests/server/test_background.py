"""What goes on beside the requests: a worker inside the server, or the timer that prunes records of deliveries; never both."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import psycopg
import pytest
from tests.server.conftest import Serve
from tests.support.serving import Serving, serving, settings_for
from tests.support.wait import PATIENCE_S, until

from rota import Rota
from rota.server import background
from rota.server.refusals import RefusalWriter

pytestmark = pytest.mark.req("B02")

Conn = psycopg.Connection[Any]


def add_delivery(conn: Conn, hours: int) -> None:
    """Write down that something was sent to a webhook so many hours ago."""
    conn.execute(
        """WITH w AS (INSERT INTO rota.webhook (url, secret) VALUES ('http://a.example/', 'sixteen letters.') RETURNING id)
           INSERT INTO rota.webhook_delivery (id, webhook_id, body, state, created_at)
           SELECT rota.uuid7(), w.id, '{}', 'delivered', rota.now() - make_interval(hours => %s) FROM w""",
        [hours],
    )


def deliveries(conn: Conn) -> int:
    row = conn.execute("SELECT count(*) FROM rota.webhook_delivery").fetchone()
    assert row is not None
    return int(row[0])


def live_workers(conn: Conn) -> list[Any]:
    return conn.execute("SELECT id FROM rota.worker WHERE stopped_at IS NULL").fetchall()


async def test_without_jobs_the_timer_prunes_and_no_worker_starts(
    serve: Serve, conn: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PRUNE_FIRST_S", 0.0)
    add_delivery(conn, 167)
    add_delivery(conn, 169)
    async with serve() as server:
        assert server.state.background is not None
        assert server.state.background.worker is None
        await until(lambda: deliveries(conn) == 1, what="for the timer")
        assert live_workers(conn) == []
        assert not [thread for thread in threading.enumerate() if thread.name == "rota-worker"]


async def test_it_prunes_again_and_again_also_after_an_error(
    serve: Serve, conn: Conn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "PRUNE_FIRST_S", 0.0)
    monkeypatch.setattr(background, "PRUNE_EVERY_S", 0.05)
    conn.execute("ALTER TABLE rota.webhook_delivery RENAME TO away")
    with caplog.at_level(logging.WARNING):
        async with serve():
            await until(lambda: "could not be removed" in caplog.text, what="for the error")
            conn.execute("ALTER TABLE rota.away RENAME TO webhook_delivery")
            for _ in range(2):
                add_delivery(conn, 1000)
                await until(lambda: deliveries(conn) == 0, what="for the timer to come round")


async def test_the_age_is_that_of_the_task(serve: Serve, conn: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PRUNE_FIRST_S", 0.0)
    add_delivery(conn, 3)
    async with serve(housekeeping_deliveries_hours=2):
        await until(lambda: deliveries(conn) == 0)


async def test_with_jobs_a_worker_runs_them_and_the_timer_does_not_start(
    dsn: str, conn: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PRUNE_FIRST_S", 0.0)
    add_delivery(conn, 1000)
    ran, answered = threading.Event(), threading.Event()
    app = Rota(settings=settings_for(dsn, jobs_enabled=True, server_metrics_public=True))

    @app.task
    async def work() -> str:
        ran.set()
        assert answered.wait(PATIENCE_S), "the server waits for the handler"  # which holds up its own event loop
        return threading.current_thread().name

    async with serving(app) as server:
        assert server.state.background is not None
        assert [type(timer) for timer in server.state.background.timers] == [RefusalWriter]
        await until(lambda: live_workers(conn), what="for the worker to register")
        job = await work.aenqueue()
        await until(ran.is_set, what="for the job")
        async with server.client.get("/healthz") as answer:
            assert answer.status == 200
        answered.set()
        query = "SELECT result FROM rota.run WHERE final AND job_id = %s"
        assert await until(lambda: conn.execute(query, [job.id]).fetchone()) == ("rota-worker",)
        async with server.client.get("/metrics") as answer:
            assert 'rota_runs_finished_total{outcome="completed",queue="default",task="work"} 1.0' in await answer.text()
        server.state.stop()  # the worker does not wait for the last request
        await until(lambda: live_workers(conn) == [], what="for the worker to drain")
        async with server.client.get("/healthz") as answer:
            assert answer.status == 200
    assert deliveries(conn) == 1


@pytest.mark.req("Q13")
async def test_a_worker_that_ends_by_itself_takes_the_server_with_it(dsn: str, conn: Conn) -> None:
    broken = threading.Event()
    app = Rota(settings=settings_for(dsn, jobs_enabled=True))

    @app.task
    async def cancel_everything() -> None:
        for task in asyncio.all_tasks():
            if task.get_name() == "rota-claimer":
                task.cancel()

    async with serving(app) as server:
        server.state.on_broken = broken.set
        await cancel_everything.aenqueue()
        await until(broken.is_set, what="for the worker to end")
        assert live_workers(conn) == []


async def test_told_to_stop_before_it_was_there(server: Serving, dsn: str) -> None:
    app = Rota(settings=settings_for(dsn, jobs_enabled=True))
    worker = background.ThreadedWorker(app, lambda: None)
    worker.stop()
    async with asyncio.timeout(PATIENCE_S):
        await worker.wait()
