"""Retention: what goes, what stays, and that nobody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable
from tests.support import jobs as given
from tests.support.retained import History, prune
from tests.support.wait import until

from rota.config import RetentionSettings, Settings, load_settings
from rota.control.retention import Turn, waiting_days
from rota.control.system import PARTITIONS, PRUNE, control_tasks
from rota.errors import ConfigError
from rota.model.ids import new_id
from rota.store import retention as store
from rota.store.retention import NO_ID

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

pytestmark = pytest.mark.req("C08")

DAY = timedelta(days=1)


@pytest.fixture
def history(conn: Conn) -> History:
    return History(conn)


class TestRuns:
    async def test_by_days(self, history: History, aconn: AConn) -> None:
        old, young = history.fill(3, age=11 * DAY), history.fill(2, age=9 * DAY)
        done = await prune(aconn, runs_days=10)
        assert history.kept(*old, *young) == set(young)
        assert done["runs"] == 3

    async def test_what_is_kept_long_waits_for_its_week_to_go(self, history: History, aconn: AConn) -> None:
        waiting, over = history.fill(1, age=33 * DAY), history.fill(1, age=38 * DAY)
        await prune(aconn)  # 30 days; neither has a partition, so no week goes
        assert history.kept(*waiting, *over) == set(waiting)
        assert (waiting_days(27, 7), waiting_days(28, 7), waiting_days(3, 1), waiting_days(4, 1)) == (27, 35, 3, 5)

    async def test_by_count(self, history: History, aconn: AConn) -> None:
        ids = [history.fill(1, age=age * DAY)[0] for age in range(10, 0, -1)]
        other = history.fill(3, age=DAY, task="other")
        await prune(aconn, runs_count=4)
        assert history.kept(*ids, *other) == {*ids[-4:], *other}

    async def test_per_task(self, conn: Conn, history: History, aconn: AConn) -> None:
        given.declare(conn, "brief", "long", "few", "work")
        conn.execute("UPDATE rota.task SET retention_days = 2 WHERE name = 'brief'")
        conn.execute("UPDATE rota.task SET retention_days = 20 WHERE name = 'long'")
        conn.execute("UPDATE rota.task SET retention_count = 1 WHERE name = 'few'")
        kept, gone = [], []
        for task, stays in (("brief", False), ("long", True), ("work", True), ("unknown", True)):
            (kept if stays else gone).extend(history.fill(1, age=5 * DAY, task=task))
        for task, stays in (("long", True), ("work", False), ("unknown", False)):
            (kept if stays else gone).extend(history.fill(1, age=15 * DAY, task=task))
        gone += history.fill(1, age=2 * DAY, task="few")
        kept += history.fill(1, age=DAY, task="few")
        await prune(aconn, runs_days=10)
        assert history.kept(*kept, *gone) == set(kept)

    async def test_all_attempts_at_a_job_go_together(self, history: History, conn: Conn, aconn: AConn) -> None:
        [old, young] = history.fill(2, age=20 * DAY)
        conn.execute("UPDATE rota.run SET finished_at = rota.now() - interval '9 days' WHERE job_id = %s", [young])
        for id in (old, young):
            conn.execute("UPDATE rota.run SET attempt = 30 WHERE job_id = %s", [id])
            for number in range(1, 20):
                history.attempt(id, number, age=12 * DAY)
        await prune(aconn, runs_days=10, batch=7)  # fewer than one job has attempts
        assert history.count() == 20
        assert history.kept(young) == {young}

    async def test_attempts_at_a_job_that_was_deleted_by_hand(self, history: History, aconn: AConn) -> None:
        history.attempt(new_id(), 1, age=11 * DAY)
        [old] = history.fill(1, age=20 * DAY)
        history.conn.execute("UPDATE rota.run SET final = false, payload = NULL WHERE job_id = %s", [old])
        await prune(aconn, runs_days=10)
        assert history.count() == 1  # of the one whose id is young

    async def test_edges_go_with_them(self, history: History, conn: Conn, aconn: AConn) -> None:
        [parent, child, other] = history.fill(3, age=11 * DAY)
        [young] = history.fill(1, age=DAY)
        edges = [(parent, child), (child, other), (other, young)]
        conn.cursor().executemany("INSERT INTO rota.job_edge VALUES (%s, %s, true)", edges)
        await prune(aconn, runs_days=10)
        assert history.count("rota.job_edge") == 0

    async def test_pieces_are_small_and_a_turn_ends(self, history: History, aconn: AConn) -> None:
        history.fill(50, age=11 * DAY)
        assert (await prune(aconn, runs_days=10, batch=10, part_s=0.0))["runs"] == 10
        assert history.count() == 40
        while history.count():  # the next turns go on
            assert (await prune(aconn, runs_days=10, batch=10, part_s=0.0))["runs"] == 10


class TestWhatIsLive:
    async def test_earlier_attempts_at_a_live_job(self, history: History, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn)
        for _ in range(3):
            [(_, token)] = given.claim(conn, worker)
            given.finish(conn, id, token, worker, "failed", error="x")
        history.say(id, age=timedelta(0))
        given.move_clock(conn, 100 * DAY)
        await prune(aconn, runs_days=1, runs_count=1, logs_days=1)
        assert history.count() == 3
        assert history.lines(id) == 1

    async def test_one_that_was_retried(self, history: History, conn: Conn, aconn: AConn) -> None:
        [id] = history.fill(1, age=50 * DAY, outcome="failed")
        assert conn.execute("SELECT rota.retry_job(%s)", [id]).fetchone() == ("failed",)
        await prune(aconn, runs_days=1, runs_count=1)
        assert conn.execute("SELECT outcome FROM rota.run WHERE job_id = %s", [id]).fetchall() == [("failed",)]

    async def test_one_that_is_being_retried(self, history: History, aconn: AConn, dsn: str) -> None:
        [id, other] = history.fill(2, age=50 * DAY, outcome="failed")
        with psycopg.connect(dsn) as operator:
            operator.execute("SELECT rota.retry_job(%s)", [id])  # and not committed yet
            await prune(aconn, runs_days=1)
            assert history.kept(id, other) == {id}
        await prune(aconn, runs_days=1)
        assert history.count() == 1

    async def test_parents_of_a_live_child(self, history: History, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        done, live = given.enqueue(conn), given.enqueue(conn)
        child = given.enqueue(conn, parents=[done, live])
        [(_, token)] = given.claim(conn, worker)
        given.finish(conn, done, token, worker, "completed")
        given.move_clock(conn, 100 * DAY)
        await prune(aconn, runs_days=1, runs_count=1)
        assert history.kept(done) == {done}
        assert history.count("rota.job_edge") == 2
        conn.execute("SELECT rota.cancel_job(%s)", [child])
        conn.execute("SELECT rota.cancel_job(%s)", [live])
        given.move_clock(conn, 200 * DAY)
        await prune(aconn, runs_days=1)
        assert (history.count(), history.count("rota.job_edge")) == (0, 0)

    async def test_a_run_by_which_a_deadline_is_to_be_judged(self, history: History, conn: Conn, aconn: AConn) -> None:
        [id] = history.fill(1, age=20 * DAY)
        schedule = new_id()
        conn.execute(
            "INSERT INTO rota.schedule (id, name, task, strategy, every) VALUES (%s, 'x', 'work', 'interval', '1 h')", [schedule]
        )
        conn.execute("UPDATE rota.run SET schedule_id = %s, scheduled_for = finished_at", [schedule])
        conn.execute(
            """INSERT INTO rota.occurrence (schedule_id, instant, outcome, job_id, finish_by)
               SELECT schedule_id, scheduled_for, 'fired', job_id, rota.now() + interval '20 days' FROM rota.run"""
        )
        await prune(aconn, runs_days=10)
        assert history.kept(id) == {id}
        conn.execute("UPDATE rota.occurrence SET finish_by = NULL")
        await prune(aconn, runs_days=10)
        assert history.kept(id) == set()


class TestPartitions:
    async def test_a_whole_week_is_dropped(self, history: History, aconn: AConn) -> None:
        name = history.partition("run", age=60 * DAY)
        history.fill(100, age=60 * DAY)
        done = await prune(aconn)
        assert done["weeks of runs"] == 1
        assert done.get("runs", 0) == 0  # none had to be removed by itself
        assert not history.has(name)
        assert history.count() == 0

    async def test_not_one_in_which_a_run_is_young(self, history: History, conn: Conn, aconn: AConn) -> None:
        name = history.partition("run", age=60 * DAY)
        old, [late] = history.fill(10, age=60 * DAY), history.fill(1, age=60 * DAY)
        conn.execute("UPDATE rota.run SET finished_at = rota.now() - interval '2 days' WHERE job_id = %s", [late])
        await prune(aconn)
        assert history.has(name)
        assert history.kept(late, *old) == {late}  # the others went one by one

    async def test_not_one_with_a_live_job(self, history: History, conn: Conn, aconn: AConn) -> None:
        name = history.partition("run", age=60 * DAY)
        [live, old] = history.fill(2, age=60 * DAY, outcome="failed")
        conn.execute("SELECT rota.retry_job(%s)", [live])
        await prune(aconn)
        assert history.has(name)
        assert (history.kept(old), history.count()) == (set(), 1)
        conn.execute("DELETE FROM rota.job")
        await prune(aconn)
        assert not history.has(name)

    async def test_not_one_with_a_parent_of_a_live_job(self, history: History, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        name = history.partition("run", age=60 * DAY)
        [parent] = history.fill(1, age=60 * DAY)
        given.enqueue(conn, parents=[parent])
        await prune(aconn)
        assert history.has(name)
        assert history.kept(parent) == {parent}

    async def test_not_one_with_a_task_that_keeps_longer(self, history: History, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "long")
        conn.execute("UPDATE rota.task SET retention_days = 100")
        name = history.partition("run", age=60 * DAY)
        [old], [long] = history.fill(1, age=60 * DAY), history.fill(1, age=60 * DAY, task="long")
        await prune(aconn)
        assert history.has(name)
        assert history.kept(old, long) == {long}
        conn.execute("UPDATE rota.task SET retention_days = NULL")
        await prune(aconn)
        assert not history.has(name)

    async def test_somebody_reads_it_and_it_goes_the_next_time(self, history: History, aconn: AConn, dsn: str) -> None:
        name = history.partition("run", age=60 * DAY)
        history.fill(10, age=60 * DAY)
        with psycopg.connect(dsn) as reader:
            reader.execute("SELECT count(*) FROM rota.run")
            await prune(aconn)
            assert history.has(name)
        await prune(aconn)
        assert not history.has(name)

    async def test_a_job_is_retried_while_its_week_is_taken_out(self, history: History, conn: Conn, aconn: AConn, dsn: str) -> None:
        name = history.partition("run", age=60 * DAY)
        [id] = history.fill(1, age=60 * DAY, outcome="failed")
        [partition] = await store.partitions(aconn, table="run", days=30)
        waits = "SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'rota.run'::regclass"
        taken: bool | None = None
        while taken is None:
            with psycopg.connect(dsn) as operator:
                operator.execute("SELECT rota.retry_job(%s)", [id])  # which nobody sees yet, and which has to end first
                taking = asyncio.create_task(store.detach_runs(aconn, partition))
                await until(lambda taking=taking: taking.done() or conn.execute(waits).fetchall())  # type: ignore[misc]
            with contextlib.suppress(LockNotAvailable):  # it does not wait for long: then once more
                taken = await taking
        assert not taken
        assert history.has(name)
        assert history.count() == 1

    async def test_killed_after_it_was_taken_out(self, history: History, conn: Conn, aconn: AConn) -> None:
        name = history.partition("run", age=60 * DAY)
        history.fill(10, age=60 * DAY)
        [partition] = await store.partitions(aconn, table="run", days=30)
        assert await store.detach_runs(aconn, partition)
        # What came in the last moment, before it was taken out.
        conn.execute(f"UPDATE rota.{name} SET finished_at = rota.now() WHERE ctid = '(0,1)'")
        await prune(aconn)
        assert not history.has(name)
        assert history.count() == 1

    async def test_partitions_are_made_ahead(self, history: History, aconn: AConn, conn: Conn) -> None:
        made = "SELECT count(*) FROM pg_inherits WHERE inhparent IN ('rota.run'::regclass, 'rota.log'::regclass)"
        before = conn.execute(made).fetchone()
        assert await store.make_partitions(aconn) == 0
        [(newest,)] = conn.execute("SELECT max(relname) FROM pg_class WHERE relname ~ '^log_[0-9]{8}$'").fetchall()
        conn.execute(f"DROP TABLE rota.{newest}")
        assert await store.make_partitions(aconn) == 1
        assert conn.execute(made).fetchone() == before


class TestLogs:
    async def test_days_of_logs_are_dropped(self, history: History, aconn: AConn) -> None:
        old, young = history.partition("log", age=9 * DAY), history.partition("log", age=5 * DAY)
        [id] = history.fill(1, age=9 * DAY)
        history.say(id, age=9 * DAY, lines=3)
        history.say(id, age=5 * DAY, lines=2)
        done = await prune(aconn)
        assert done["days of logs"] == 1
        assert (history.has(old), history.has(young), history.lines(id)) == (False, True, 2)

    async def test_not_the_lines_of_a_live_job(self, history: History, conn: Conn, aconn: AConn) -> None:
        name = history.partition("log", age=9 * DAY)
        [live, over] = history.fill(2, age=20 * DAY, outcome="failed")
        for id in (live, over):
            history.say(id, age=9 * DAY)
        conn.execute("SELECT rota.retry_job(%s)", [live])
        await prune(aconn)
        assert history.has(name)
        assert (history.lines(live), history.lines(over)) == (1, 0)

    async def test_per_task(self, history: History, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "brief", "long")
        conn.execute("UPDATE rota.task SET retention_days = 1 WHERE name = 'brief'")
        conn.execute("UPDATE rota.task SET retention_days = 50 WHERE name = 'long'")
        lines = {}
        for task, age in (("brief", 2), ("long", 40), ("work", 20), ("work", 6)):
            [id] = history.fill(1, age=timedelta(hours=12), task=task)
            history.say(id, age=age * DAY, task=task)
            lines[task, age] = id
        await prune(aconn)
        assert {what: history.lines(id) for what, id in lines.items()} == {
            ("brief", 2): 0, ("long", 40): 1, ("work", 20): 0, ("work", 6): 1,
        }  # fmt: skip

    async def test_they_go_with_their_run(self, history: History, aconn: AConn) -> None:
        [old, new] = [history.fill(1, age=age * DAY)[0] for age in (2, 1)]
        for id in (old, new):
            history.say(id, age=DAY)
        await prune(aconn, runs_count=1)
        assert (history.lines(old), history.lines(new)) == (0, 1)

    async def test_orphans_go(self, history: History, conn: Conn, aconn: AConn) -> None:
        [orphan, counted, running] = history.fill(3, age=2 * DAY)
        conn.execute("DELETE FROM rota.run")
        conn.execute(
            "INSERT INTO rota.schedule (task, key, strategy, every, keep_successes) VALUES ('feed', 'a', 'recurring', '1 h', false)"
        )
        given.declare(conn, "work")
        conn.execute("INSERT INTO rota.job (id, task) VALUES (%s, 'work')", [running])
        history.say(orphan, age=DAY, lines=3)
        history.say(counted, age=DAY, task="feed")  # of a run that is only counted: there is no other trace of it
        history.say(running, age=DAY)
        await prune(aconn)
        assert [history.lines(id) for id in (orphan, counted, running)] == [0, 1, 1]


class TestTogether:
    async def test_two_at_once(self, history: History, aconn: AConn, dsn: str) -> None:
        history.fill(300, age=11 * DAY)
        history.fill(5, age=DAY)
        settings = RetentionSettings(runs_days=10)
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
            first, second = (Turn(each, settings, batch=20, rest=0.0) for each in (aconn, other))
            done = await asyncio.gather(first.run(), second.run())
            # Without the lock that lets one at a time at it they would not harm each other either.
            history.fill(300, age=11 * DAY)
            await asyncio.gather(first.prune_runs(), second.prune_runs())
        assert sum(each.get("runs", 0) for each in done) == 300
        assert history.count() == 5

    async def test_who_is_killed_in_the_middle_is_gone_on_from(self, history: History, conn: Conn, aconn: AConn, dsn: str) -> None:
        history.fill(50, age=11 * DAY)
        other = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        await store.prune_runs(other, task="work", after=NO_ID, days=10, with_logs=True, batch=20)
        conn.execute("SELECT pg_terminate_backend(%s)", [other.info.backend_pid])
        await other.close()
        assert history.count() == 30
        await prune(aconn, runs_days=10)
        assert history.count() == 0

    async def test_claims_do_not_wait_for_it(self, history: History, conn: Conn, dsn: str) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        history.fill(100, age=60 * DAY)
        ids = [given.enqueue(conn) for _ in range(3)]
        conn.execute("SET lock_timeout = '1ms'")
        async with await psycopg.AsyncConnection.connect(dsn) as other:  # nothing of it is committed
            await store.prune_runs(other, task="work", after=NO_ID, days=10, with_logs=True, batch=1000)
            [(id, token)] = given.claim(conn, worker)
            assert given.finish(conn, id, token, worker, "completed") == "completed"
            await other.rollback()
            history.partition("run", age=200 * DAY)
            [partition, *_] = await store.partitions(other, table="run", days=30)
            assert await store.detach_runs(other, partition)
            assert len(given.claim(conn, worker)) == 1
            await other.rollback()
        assert ids[0] == id

    async def test_the_rest_goes_too(self, history: History, conn: Conn, aconn: AConn) -> None:
        conn.execute("INSERT INTO rota.schedule (name, task, strategy, every) VALUES ('x', 'work', 'interval', '1 h')")
        conn.execute(
            """INSERT INTO rota.occurrence (schedule_id, instant, outcome, reason, decided_at)
               SELECT id, now() - d * interval '1 day', 'skipped', 'misfire', now() - d * interval '1 day'
               FROM rota.schedule, unnest(ARRAY[1, 40]) d"""
        )
        conn.execute(
            """INSERT INTO rota.alert (kind, subject, severity, summary, first_seen_at, last_seen_at, state,
                                       acknowledged_at, resolved_at)
               SELECT 'job_failed', n::text, 'error', 's', now() - n * interval '1 day', now() - n * interval '1 day', s,
                      CASE WHEN s = 'acknowledged' THEN now() END, CASE WHEN s = 'resolved' THEN now() END
               FROM (VALUES (10, 'open'), (100, 'open'), (101, 'acknowledged'), (102, 'resolved'), (11, 'resolved')) v (n, s)"""
        )
        done = await prune(aconn)
        assert (done["occurrences"], done["alerts"]) == (1, 2)
        assert conn.execute("SELECT subject FROM rota.alert ORDER BY subject").fetchall() == [("10",), ("100",), ("11",)]


class TestSettings:
    def test_ranges(self) -> None:
        assert (load_settings().retention.runs_days, load_settings().retention.logs_days) == (30, 7)
        with pytest.raises(ConfigError, match=r"retention.runs_days=0 is not allowed .* a whole number from 1 to 36500"):
            load_settings(retention_runs_days=0)

    def test_system_tasks_are_scheduled_unless_it_is_off(self) -> None:
        tasks = control_tasks(Settings(), scheduled=True)
        assert tasks[PRUNE].schedule is not None
        assert tasks[PARTITIONS].schedule is not None
        assert all(task.system for task in tasks.values())
        assert control_tasks(Settings(retention=RetentionSettings(enabled=False)), scheduled=True)[PRUNE].schedule is None
        assert control_tasks(Settings())[PRUNE].schedule is None
