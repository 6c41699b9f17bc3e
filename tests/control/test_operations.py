"""Queues and workers: what operators can see of them, and pause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.wait import PATIENCE_S

from rota.control import service
from rota.errors import UnknownQueue

Conn = psycopg.Connection
AConn = psycopg.AsyncConnection


class TestQueues:
    async def test_it_counts_by_state(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        given.declare(conn, "other", queue="empty")
        worker = given.start_worker(conn)
        given.start_worker(conn, queues=("default", "empty"), seen_ago=timedelta(minutes=10))
        running = given.enqueue(conn)
        given.claim(conn, worker)
        given.enqueue(conn, parents=[running])
        for delay in (1, 2):
            given.enqueue(conn, delay=timedelta(hours=delay))
        given.enqueue(conn, priority=3, run_at=datetime.now(UTC) - timedelta(minutes=10))
        given.enqueue(conn, priority=1, run_at=datetime.now(UTC) - timedelta(minutes=5))
        given.enqueue(conn, priority=1)
        default, empty = await service.list_queues(aconn)
        counts = [default.ready, default.delayed, default.waiting, default.running]
        assert [str(count) for count in counts] == ["3", "2", "1", "1"]
        assert default.workers == 1
        assert default.oldest_age is not None
        assert timedelta(minutes=10) <= default.oldest_age < timedelta(minutes=11)
        assert (empty.name, bool(empty.ready), empty.oldest_age, empty.workers) == ("empty", False, None, 0)

    async def test_counts_are_capped(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        conn.execute("INSERT INTO rota.job (id, task) SELECT rota.uuid7(), 'work' FROM generate_series(1, 10001)")
        [queue] = await service.list_queues(aconn)
        assert str(queue.ready) == "10k+"

    async def test_a_paused_queue_is_not_claimed_from_until_it_is_resumed(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        given.enqueue(conn)
        await service.pause_queue(aconn, "default", reason="mail server is down")
        await service.pause_queue(aconn, "default")
        assert given.claim(conn, worker) == []
        [queue] = await service.list_queues(aconn)
        assert queue.pause_reason == "mail server is down"
        assert queue.paused_at is not None
        await service.resume_queue(aconn, "default")
        assert len(given.claim(conn, worker)) == 1
        assert (await service.list_queues(aconn))[0].paused_at is None

    async def test_resuming_wakes_idle_workers(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        given.start_worker(conn)
        conn.execute("UPDATE rota.worker SET wants_wake = true")
        conn.execute("LISTEN rota_wake")
        await service.pause_queue(aconn, "default")
        await service.resume_queue(aconn, "default")
        assert [notice.channel for notice in conn.notifies(timeout=PATIENCE_S, stop_after=1)] == ["rota_wake"]

    async def test_an_unknown_queue_is_refused_with_the_nearest_name(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", queue="mail")
        for operation in (service.pause_queue, service.resume_queue):
            with pytest.raises(UnknownQueue, match=r"there is no queue 'mial': did you mean 'mail'\?"):
                await operation(aconn, "mial")
            with pytest.raises(UnknownQueue, match="known are mail"):
                await operation(aconn, "xyz")


class TestWorkers:
    async def test_states(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        live = given.start_worker(conn)
        silent = given.start_worker(conn, seen_ago=timedelta(minutes=2))
        stopped, dead = given.start_worker(conn), given.start_worker(conn)
        conn.execute("UPDATE rota.worker SET stopped_at = rota.now(), stop_reason = 'stopped' WHERE id = %s", [stopped])
        conn.execute("UPDATE rota.worker SET stopped_at = rota.now(), stop_reason = 'died' WHERE id = %s", [dead])
        gone = given.start_worker(conn, seen_ago=timedelta(seconds=30))
        conn.execute("UPDATE rota.worker SET backend_pid = 0, backend_start = now() WHERE id = %s", [gone])
        connected = given.start_worker(conn, seen_ago=timedelta(seconds=30))
        conn.execute(
            """UPDATE rota.worker SET backend_pid = a.pid, backend_start = a.backend_start
               FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() AND id = %s""",
            [connected],
        )
        old = given.start_worker(conn)
        conn.execute("UPDATE rota.worker SET stopped_at = rota.now() - interval '25 hours' WHERE id = %s", [old])
        states = {worker.id: worker.state for worker in await service.list_workers(aconn)}
        assert states == {
            live: "live", silent: "silent", stopped: "stopped", dead: "dead", gone: "dead", connected: "live",
        }  # fmt: skip

    async def test_what_they_hold(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker, idle = given.start_worker(conn), given.start_worker(conn)
        made = [given.enqueue(conn) for _ in range(25)]
        given.claim(conn, worker, limit=25)
        found = {each.id: each for each in await service.list_workers(aconn)}
        assert found[worker].holds == 25
        assert [UUID(job["id"]) for job in found[worker].jobs] == sorted(made)[:20]
        assert (found[idle].holds, found[idle].jobs, found[idle].slots) == (0, [], 4)
        assert found[idle].seen_ago < timedelta(minutes=1)
