"""Alerts: what raises, counts, resolves and reopens them, and that none is lost or told twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from tests.support import jobs as given
from tests.support.scheduling import Scheduling

from rota.config import AlertSettings
from rota.contrib.testing.clock import Clock
from rota.control import alerts
from rota.errors import Conflict, NotFound, UsageError
from rota.model.ids import new_id
from rota.model.schedule import cron
from rota.store import alerts as store
from rota.store import workers

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

pytestmark = pytest.mark.req("O03", "Y05")


def rows(conn: Conn, **where: Any) -> list[Any]:
    """The alerts, in the order they were made."""
    cursor = conn.cursor(row_factory=namedtuple_row)
    condition = "".join(f" AND {name} = %({name})s" for name in where)
    return cursor.execute(f"SELECT * FROM rota.alert WHERE true{condition} ORDER BY id", where).fetchall()


def fail_jobs(conn: Conn, count: int = 1, *, error: str = "boom", task: str = "work") -> list[UUID]:
    worker = given.start_worker(conn)
    failed = []
    for _ in range(count):
        given.enqueue(conn, task)
        failed.append(given.fail(conn, worker, error=error))
    return failed


class TestFailures:
    async def test_a_job_past_its_retries_is_an_alert(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", max_attempts=2)
        worker = given.start_worker(conn)
        id = given.enqueue(conn)
        [(_, token)] = given.claim(conn, worker)
        assert given.finish(conn, id, token, worker, "failed", error="first") == "queued"
        assert await alerts.count_signals(aconn) == 0  # it will be tried again
        [(_, token)] = given.claim(conn, worker)
        assert given.finish(conn, id, token, worker, "failed", error="last") == "failed"
        assert await alerts.count_signals(aconn) == 1

        [alert] = rows(conn)
        assert (alert.kind, alert.subject, alert.state, alert.count) == ("job_failed", "work", "open", 1)
        assert alert.summary == f"job {id} of work failed for good at attempt 2: ValueError: last"
        assert alert.details["job_id"] == str(id)

    async def test_one_alert_counts_what_is_alike(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", "other")
        fail_jobs(conn, 3, error="order 17 is gone")
        await alerts.count_signals(aconn)
        fail_jobs(conn, 2, error="order 18 is gone")
        fail_jobs(conn, 1, error="quite another trouble")
        fail_jobs(conn, 1, task="other", error="order 1 is gone")
        await alerts.count_signals(aconn)
        assert sorted((alert.subject, alert.count) for alert in rows(conn)) == [("other", 1), ("work", 1), ("work", 5)]
        assert await alerts.count_signals(aconn) == 0

    async def test_what_a_rescuer_ends_counts_too(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", max_attempts=1)
        worker = given.start_worker(conn)
        ids = [given.enqueue(conn) for _ in range(5)]
        conn.execute("UPDATE rota.job SET crashes = 3, culprit = true")
        given.claim(conn, worker, limit=5)
        conn.execute("SELECT rota.rescue_runs(%s)", [[worker]])
        assert conn.execute("SELECT FROM rota.job").fetchall() == []
        assert await alerts.count_signals(aconn) == len(ids)
        [alert] = rows(conn)
        assert (alert.count, "WorkerCrashed" in alert.summary) == (5, True)

    async def test_the_children_that_fail_with_a_parent(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", "child")
        worker = given.start_worker(conn)
        parent = given.enqueue(conn)
        given.enqueue(conn, "child", parents=[parent], on_parent_failure="fail")
        given.enqueue(conn, "child", parents=[parent])  # this one is canceled, which is no failure
        given.fail(conn, worker)
        await alerts.count_signals(aconn)
        assert sorted((alert.subject, alert.count) for alert in rows(conn)) == [("child", 1), ("work", 1)]

    async def test_recurring_rows_try_again_by_themselves(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "fetch")
        worker = given.start_worker(conn)
        conn.execute("SELECT rota.ensure_recurring('fetch', 'a', '{}', '1 hour', rota.now(), NULL, false)")
        [(schedule,)] = conn.execute("SELECT id FROM rota.schedule WHERE key = 'a'").fetchall()
        job = new_id()
        conn.execute("UPDATE rota.schedule SET job_id = %s, next_run_at = NULL WHERE id = %s", [job, schedule])
        conn.execute("INSERT INTO rota.job (id, task, max_attempts, schedule_id) VALUES (%s, 'fetch', 1, %s)", [job, schedule])
        given.fail(conn, worker)
        assert await alerts.count_signals(aconn) == 0

    async def test_no_secret_is_told(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        fail_jobs(conn, error="connect to postgresql://app:hunter2canary@db/x with password=hunter2canary failed\n" * 50)
        await alerts.count_signals(aconn)
        [alert] = rows(conn)
        assert "hunter2canary" not in str(alert)
        assert "\n" not in alert.summary
        assert len(alert.summary) <= 800

    async def test_a_task_with_very_many_troubles_has_one_alert_for_the_rest(self, conn: Conn, aconn: AConn) -> None:
        for n in range(60):
            await store.signal(aconn, "job_failed", "work", {"type": "E", "message": str(n)}, fingerprint=f"f{n}")
        await alerts.count_signals(aconn)
        assert len(rows(conn)) == 51
        [rest] = rows(conn, fingerprint="others")
        assert rest.count == 10

    async def test_signals_are_counted_once_by_several_at_once(self, conn: Conn, dsn: str) -> None:
        given.declare(conn, "work")
        conn.execute(
            "INSERT INTO rota.signal (kind, subject, fingerprint) "
            "SELECT 'job_failed', 'work', (n %% 7)::text FROM generate_series(1, 5000) n".replace("%%", "%")
        )

        async def count() -> int:
            async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
                return await alerts.count_signals(other, batch=100)

        told = sum(await asyncio.gather(*(count() for _ in range(4))))
        while rest := await count():
            told += rest
        assert told == 5000
        assert sum(alert.count for alert in rows(conn)) == 5000
        assert conn.execute("SELECT count(*) FROM rota.signal").fetchone() == (0,)

    async def test_who_is_killed_while_counting_has_counted_nothing(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        given.declare(conn, "work")
        fail_jobs(conn, 3)
        other = await psycopg.AsyncConnection.connect(dsn)  # no autocommit: nothing of it is committed
        told = await store.take_signals(other, limit=100)
        await store.raise_all(other, [signals.alert() for signals in told])
        conn.execute("SELECT pg_terminate_backend(%s, 5000)", [other.info.backend_pid])
        await other.close()
        assert rows(conn) == []
        assert await alerts.count_signals(aconn) == 3
        [alert] = rows(conn)
        assert alert.count == 3

    async def test_what_could_not_be_counted_is_counted_later(
        self, conn: Conn, aconn: AConn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given.declare(conn, "work")
        fail_jobs(conn, 3)

        async def fail(*_: Any) -> int:
            raise RuntimeError("gone in the middle")

        with monkeypatch.context() as patch:
            patch.setattr(store, "raise_all", fail)
            with pytest.raises(RuntimeError):
                await alerts.count_signals(aconn)
        assert await alerts.count_signals(aconn) == 3
        assert [alert.count for alert in rows(conn)] == [3]


class TestSchedules:
    async def test_a_missed_deadline(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        given.declare(conn, "work")
        scheduling = Scheduling(dsn, conn)
        scheduling.create("daily", cron("* * * * *", start_within="30s"))
        clock = Clock(conn)
        clock.move(timedelta(minutes=1))
        await scheduling.tick()
        clock.move(timedelta(minutes=1))
        await scheduling.tick()
        await alerts.count_signals(aconn)
        [alert] = rows(conn, kind="deadline_missed")
        assert alert.subject == "daily"
        assert "did not start by" in alert.summary

    async def test_a_refused_schedule_until_it_is_on_again(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        given.declare(conn, "work")
        scheduling = Scheduling(dsn, conn)
        scheduling.create("daily", cron("0 9 * * *"))
        conn.execute("UPDATE rota.schedule SET tz = 'Atlantis/Sunken', next_run_at = NULL")
        await scheduling.tick()
        await alerts.count_signals(aconn)
        [alert] = rows(conn)
        assert (alert.kind, alert.subject) == ("schedule_refused", "daily")
        await store.settle(aconn)
        assert rows(conn)[0].state == "open"
        conn.execute("UPDATE rota.schedule SET enabled = true, tz = 'UTC'")
        await store.settle(aconn)
        assert rows(conn)[0].state == "resolved"

    async def test_rows_that_keep_failing_are_one_alert_per_task(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        given.declare(conn, "fetch")
        conn.execute(
            """INSERT INTO rota.schedule (task, key, strategy, every, next_run_at, failing_since, consecutive_failures)
               SELECT 'fetch', n::text, 'recurring', '1 h', rota.now() + interval '1 h', rota.now(), 9
               FROM generate_series(1, 20) n"""
        )
        await Scheduling(dsn, conn).tick()
        await alerts.count_signals(aconn)
        [alert] = rows(conn)
        assert (alert.kind, alert.subject, alert.count) == ("schedule_failing", "fetch", 20)
        conn.execute("UPDATE rota.schedule SET failing_since = NULL")
        await store.settle(aconn)
        assert rows(conn)[0].state == "resolved"


class TestWorkers:
    async def test_a_dead_worker(self, conn: Conn, aconn: AConn) -> None:
        id = given.start_worker(conn)
        assert await workers.stop_dead(aconn, id=id)
        assert not await workers.stop_dead(aconn, id=id)
        await alerts.count_signals(aconn)
        [alert] = rows(conn)
        assert (alert.kind, alert.subject, alert.count) == ("worker_died", "host-1", 1)
        assert str(id) in alert.summary

    async def test_it_is_over_when_it_was_not_dead_or_after_an_hour(self, conn: Conn, aconn: AConn) -> None:
        id = given.start_worker(conn)
        await workers.stop_dead(aconn, id=id)
        await alerts.count_signals(aconn)
        await store.settle(aconn)
        assert rows(conn)[0].state == "open"
        conn.execute("UPDATE rota.worker SET stopped_at = NULL")
        await store.settle(aconn)
        assert rows(conn)[0].state == "resolved"
        await workers.stop_dead(aconn, id=id)
        await alerts.count_signals(aconn)
        assert (rows(conn)[0].state, rows(conn)[0].times_opened) == ("open", 2)
        given.move_clock(conn, timedelta(minutes=61))
        await store.settle(aconn)
        assert rows(conn)[0].state == "resolved"


class TestConditions:
    SETTINGS = AlertSettings(queue_age_s=300)

    async def test_a_stuck_queue_opens_resolves_and_opens_again(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work", queue="mail")
        given.enqueue(conn)
        await alerts.look_at_conditions(aconn, self.SETTINGS)
        assert rows(conn) == []
        given.move_clock(conn, timedelta(seconds=400))
        for _ in range(3):  # a look that finds nothing new neither counts nor tells again
            await alerts.look_at_conditions(aconn, self.SETTINGS)
        [alert] = rows(conn)
        assert (alert.kind, alert.subject, alert.state, alert.count) == ("queue_stuck", "mail", "open", 1)
        assert alert.summary.startswith("queue mail is 6m 40s behind")

        given.claim(conn, given.start_worker(conn), queue="mail")
        await alerts.look_at_conditions(aconn, self.SETTINGS)
        assert rows(conn)[0].state == "resolved"
        given.enqueue(conn)
        given.move_clock(conn, timedelta(seconds=800))
        await alerts.look_at_conditions(aconn, self.SETTINGS)
        [alert] = rows(conn)
        assert (alert.state, alert.times_opened, alert.count) == ("open", 2, 2)

    async def test_it_stays_while_the_queue_is_nearly_as_old(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        old = given.enqueue(conn)
        given.move_clock(conn, timedelta(seconds=301))
        young = given.enqueue(conn)
        await alerts.look_at_conditions(aconn, self.SETTINGS)
        conn.execute("DELETE FROM rota.job WHERE id = %s", [old])
        conn.execute("UPDATE rota.job SET run_at = rota.now() - interval '200 s' WHERE id = %s", [young])
        await alerts.look_at_conditions(aconn, self.SETTINGS)
        assert rows(conn)[0].state == "open"
        conn.execute("UPDATE rota.job SET run_at = rota.now() - interval '100 s'")
        await alerts.look_at_conditions(aconn, self.SETTINGS)
        assert rows(conn)[0].state == "resolved"

    async def test_jobs_that_nobody_promotes_make_a_queue_stuck(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        given.enqueue(conn, delay=timedelta(seconds=10))
        given.move_clock(conn, timedelta(seconds=400))
        await alerts.look_at_conditions(aconn, self.SETTINGS)
        assert [alert.subject for alert in rows(conn)] == ["default"]

    async def test_a_paused_queue_is_nobodys_trouble(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        given.enqueue(conn)
        conn.execute("UPDATE rota.queue SET paused_at = rota.now()")
        given.move_clock(conn, timedelta(seconds=400))
        await alerts.look_at_conditions(aconn, self.SETTINGS)
        assert rows(conn) == []

    async def test_who_holds_an_old_snapshot_until_it_lets_go(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        settings = AlertSettings.model_construct(queue_age_s=300.0, snapshot_age_s=0.0)
        with psycopg.connect(dsn, application_name="report") as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT 'password=hunter2canary', count(*) FROM rota.job")
            await alerts.look_at_conditions(aconn, settings)
            pid = other.info.backend_pid
            [alert] = [each for each in rows(conn, kind="snapshot_held") if each.subject == f"session {pid}"]
            assert "report" in alert.summary
            assert "hunter2canary" not in str(alert)
            assert alert.details["next"] == f"SELECT pg_terminate_backend({pid})"
        await alerts.look_at_conditions(aconn, settings)
        assert [each.state for each in rows(conn, id=alert.id)] == ["resolved"]


class TestOperators:
    async def test_acknowledged_it_is_listed_no_more_and_still_counted(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        fail_jobs(conn)
        await alerts.count_signals(aconn)
        [alert] = await alerts.list_alerts(aconn)
        done = await alerts.acknowledge(aconn, alert.id, by="ann", note="the provider is down")
        assert (done.state, done.acknowledged_by, done.note) == ("acknowledged", "ann", "the provider is down")
        assert await alerts.list_alerts(aconn) == []
        fail_jobs(conn)
        await alerts.count_signals(aconn)
        [after] = await alerts.list_alerts(aconn, all=True)
        assert (after.state, after.count) == ("acknowledged", 2)

    async def test_when_it_is_quiet_for_a_day_it_is_over_and_comes_back(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        fail_jobs(conn)
        await alerts.count_signals(aconn)
        given.move_clock(conn, timedelta(days=3))
        await store.settle(aconn)
        [alert] = await alerts.list_alerts(aconn)  # nobody has looked at it yet
        await alerts.acknowledge(aconn, alert.id, by="ann", note="seen")
        given.move_clock(conn, timedelta(days=3, hours=23))
        await store.settle(aconn)
        assert rows(conn)[0].state == "acknowledged"
        given.move_clock(conn, timedelta(days=4, hours=1))
        await store.settle(aconn)
        assert rows(conn)[0].state == "resolved"
        fail_jobs(conn)
        await alerts.count_signals(aconn)
        [alert] = await alerts.list_alerts(aconn)
        assert (alert.times_opened, alert.note, alert.acknowledged_by) == (2, None, None)

    async def test_lists_by_kind_and_refuses_what_makes_no_sense(self, conn: Conn, aconn: AConn) -> None:
        await store.signal(aconn, "worker_died", "host-1", {})
        await store.signal(aconn, "job_failed", "work", {})
        await alerts.count_signals(aconn)
        assert [alert.kind for alert in await alerts.list_alerts(aconn, kind="worker_died")] == ["worker_died"]
        with pytest.raises(UsageError, match="did you mean 'job_failed'"):
            await alerts.list_alerts(aconn, kind="job_faild")
        with pytest.raises(UsageError, match="limit=0 is out of range"):
            await alerts.list_alerts(aconn, limit=0)
        with pytest.raises(NotFound, match="there is no alert 4711"):
            await alerts.acknowledge(aconn, 4711, by="ann")
        with pytest.raises(UsageError, match="note is 1001 characters long"):
            await alerts.acknowledge(aconn, 1, by="ann", note="x" * 1001)
        conn.execute("UPDATE rota.alert SET state = 'resolved', resolved_at = rota.now()")
        with pytest.raises(Conflict, match="resolved already"):
            await alerts.acknowledge(aconn, rows(conn)[0].id, by="ann")

    async def test_a_note_that_cannot_be_stored_is_made_storable(self, conn: Conn, aconn: AConn) -> None:
        await store.signal(aconn, "job_failed", "work", {})
        await alerts.count_signals(aconn)
        done = await alerts.acknowledge(aconn, rows(conn)[0].id, by="ann\x00", note="a\x00b\ud800")
        assert done.note == "a\N{REPLACEMENT CHARACTER}b?"


class TestWatch:
    async def test_one_at_a_time_is_at_it(self, conn: Conn, aconn: AConn) -> None:
        first, second = alerts.Watch(), alerts.Watch()
        await first.run_once(aconn)
        await store.signal(aconn, "job_failed", "work", {})
        await second.run_once(aconn)
        assert rows(conn) == []
        await first.run_once(aconn)
        assert len(rows(conn)) == 1
        await store.signal(aconn, "job_failed", "other", {})
        given.move_clock(conn, timedelta(seconds=alerts.HOLD_S + 1))  # the first one has died
        await second.run_once(aconn)
        assert len(rows(conn)) == 2

    async def test_an_alert_that_somebody_has_locked_is_for_the_next_time(self, conn: Conn, aconn: AConn, dsn: str) -> None:
        watch = alerts.Watch()
        await store.signal(aconn, "job_failed", "work", {})
        await watch.run_once(aconn)
        await aconn.execute("SET lock_timeout = '50ms'")
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM rota.alert FOR UPDATE")
            await store.signal(aconn, "job_failed", "work", {})
            await watch.run_once(aconn)
            assert rows(conn)[0].count == 1
        await watch.run_once(aconn)
        assert rows(conn)[0].count == 2
