"""`rota scheduler`, `rota scheduler tick`, and the tick as a task."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import command
from tests.support import jobs as given
from tests.support.invoke import Rota as Command
from tests.support.processes import running, until
from tests.support.wait import PATIENCE_S
from tests.support.wait import until as until_async

from rota import Rota
from rota.config import load_settings
from rota.contrib.testing.clock import Clock
from rota.db.connection import connect_async
from rota.engine.scheduler import Scheduler
from rota.errors import ConfigError, InvalidSchedule, UsageError
from rota.events import DeadlineMissed, Events, WorkerStarted

Conn = psycopg.Connection[Any]
NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(dsn, tmp_path, monkeypatch, capsys)


@pytest.fixture(autouse=True)
def _task(conn: Conn) -> None:
    given.declare(conn, "work")


def schedule(conn: Conn, name: str = "beat", every: str = "1 second", **columns: str) -> None:
    values = {"name": name, "task": "work", "strategy": "interval", "every": every, **columns}
    names, marks = ", ".join(values), ", ".join(f"%({each})s" for each in values)
    conn.execute(f"INSERT INTO rota.schedule ({names}, next_run_at) VALUES ({marks}, rota.now())", values)


def fired(conn: Conn) -> int:
    return len(conn.execute("SELECT FROM rota.occurrence WHERE outcome = 'fired'").fetchall())


class TestScheduler:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_it_fires_until_a_signal(self, number: signal.Signals, dsn: str, conn: Conn, tmp_path: Path) -> None:
        schedule(conn)
        with running("scheduler", cwd=tmp_path, dsn=dsn) as process:
            until(lambda: fired(conn) >= 2)
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == 0
        assert conn.execute("SELECT FROM rota.worker").fetchall() == []  # it runs no jobs, and is no worker

    def test_it_gets_over_a_lost_connection(self, dsn: str, conn: Conn, tmp_path: Path) -> None:
        schedule(conn)
        with running("scheduler", cwd=tmp_path, dsn=dsn):
            until(lambda: fired(conn))
            ended = conn.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = 'rota scheduler' AND datname = current_database()"""
            ).fetchall()
            assert ended == [(True,)]
            before = fired(conn)
            until(lambda: fired(conn) > before + 1)
            assert "database.lost" in (tmp_path / "stderr").read_text()

    @pytest.mark.req("S07")
    def test_it_is_for_those_whose_workers_leave_schedules_alone(self, dsn: str, conn: Conn, tmp_path: Path) -> None:
        (tmp_path / "rota.toml").write_text("[jobs]\nscheduler_enabled = false\n")
        schedule(conn)
        with running("scheduler", cwd=tmp_path, dsn=dsn):
            until(lambda: fired(conn))

    def test_a_database_without_the_schema(self, empty_dsn: str, tmp_path: Path) -> None:
        answer = command.run("scheduler", cwd=tmp_path, dsn=empty_dsn)
        assert answer.returncode == 6
        assert "rota migrate up" in answer.stderr


@pytest.mark.req("S12")
class TestTick:
    def test_it_does_what_is_due_once(self, rota: Command, conn: Conn) -> None:
        Clock(conn).freeze(NOON)
        schedule(conn, every="1 hour")
        conn.execute("SELECT rota.ensure_recurring('work', 'a')")
        assert rota("scheduler", "tick").out == "2 jobs enqueued\n"
        assert rota("scheduler", "tick").out == "0 jobs enqueued\n"

    def test_json_and_alerts(self, rota: Command, conn: Conn) -> None:
        clock = Clock(conn)
        clock.freeze(NOON)
        schedule(conn, every="1 hour", start_within="1 minute")
        schedule(conn, "odd", strategy="cron", cron="61 * * * *", every=None)
        first = rota("scheduler", "tick", "--json").data
        assert (first["jobs"], first["skipped"]) == (1, 0)
        [alert] = first["alerts"]
        assert alert.startswith("odd was switched off: ")
        clock.move(timedelta(hours=3))
        answer = rota("scheduler", "tick")
        assert answer.out == "1 jobs enqueued, 1 passed over\n"
        assert "beat: job " in answer.err
        assert "missed its start deadline" in answer.err

    @pytest.mark.req("S02", "S08")
    def test_ticks_at_once_make_one_job_per_instant(self, dsn: str, conn: Conn) -> None:
        clock = Clock(conn)
        clock.freeze(NOON)
        for number in range(50):
            schedule(conn, f"beat-{number}", every="1 hour")

        def tick() -> None:
            async def once() -> None:
                own = await connect_async(dsn, "tick")
                try:
                    await Scheduler(Events()).tick(own)
                finally:
                    await own.close()

            asyncio.run(once())

        with ThreadPoolExecutor(4) as pool:
            for round_ in range(1, 4):
                list(pool.map(lambda _: tick(), range(4)))
                assert fired(conn) == 50 * round_
                assert len(conn.execute("SELECT FROM rota.job").fetchall()) == 50 * round_
                clock.move(timedelta(hours=1))


@pytest.mark.req("S12")
class TestTickTask:
    async def test_the_queue_drives_scheduling_where_no_scheduler_runs(self, dsn: str, conn: Conn) -> None:
        app = Rota(settings=load_settings(database_url=dsn, jobs_scheduler_enabled=False))
        alerts: list[str] = []
        app.events.subscribe(DeadlineMissed, lambda event: alerts.append(event.schedule))
        started = asyncio.Event()
        app.events.subscribe(WorkerStarted, lambda _: started.set())
        conn.execute("INSERT INTO rota.queue (name) VALUES ('elsewhere')")
        schedule(conn, every="1 hour", queue="elsewhere", start_within="1 millisecond")
        worker = app.worker(poll_interval_s=0.1)
        running = asyncio.create_task(worker.run())
        try:
            await asyncio.wait_for(started.wait(), PATIENCE_S)
            assert conn.execute("SELECT FROM rota.schedule WHERE name = 'rota.tick'").fetchall() == []
            assert fired(conn) == 0
            conn.execute("SELECT rota.enqueue('rota.tick')")
            await until_async(lambda: fired(conn) == 1)
            await app.aenqueue("rota.tick")
            await until_async(lambda: alerts == ["beat"])  # what a tick finds, the application's subscribers hear
            states = "SELECT state, result FROM rota.jobs WHERE task = 'rota.tick'"
            await until_async(lambda: sorted(conn.execute(states).fetchall()) == [("completed", 0), ("completed", 1)])
        finally:
            worker.stop()
            await running
            await app.aclose()

    async def test_one_that_was_held_by_a_worker_that_died_is_tried_alone(self, dsn: str, conn: Conn) -> None:
        app = Rota(settings=load_settings(database_url=dsn, jobs_scheduler_enabled=False))
        given.declare(conn, "rota.tick")
        schedule(conn, every="1 hour", queue="elsewhere")
        job = given.enqueue(conn, "rota.tick")
        conn.execute("UPDATE rota.job SET crashes = 1")
        worker = app.worker(poll_interval_s=0.1)
        running = asyncio.create_task(worker.run())
        try:
            ended = "SELECT state, result FROM rota.jobs WHERE id = %s"
            await until_async(lambda: conn.execute(ended, [job]).fetchone() == ("completed", 1), 60)
        finally:
            worker.stop()
            await running

    @pytest.mark.req("S07")
    async def test_it_has_a_schedule_of_its_own_that_leaves_no_trace(self, dsn: str, conn: Conn, rota: Command) -> None:
        app = Rota(settings=load_settings(database_url=dsn, jobs_scheduler_cron="@hourly"))
        worker = app.worker(poll_interval_s=0.1)
        running = asyncio.create_task(worker.run())
        try:
            known = "SELECT cron, keep_successes, overlap FROM rota.schedule WHERE name = 'rota.tick'"
            await until_async(lambda: conn.execute(known).fetchall() == [("@hourly", False, "skip")])
            conn.execute("UPDATE rota.schedule SET next_run_at = rota.now() WHERE name = 'rota.tick'")
            await until_async(lambda: conn.execute("SELECT FROM rota.occurrence WHERE outcome = 'fired'").fetchall())
            await until_async(lambda: not conn.execute("SELECT FROM rota.job").fetchall())
        finally:
            worker.stop()
            await running
        assert conn.execute("SELECT FROM rota.run").fetchall() == []

    @pytest.mark.parametrize("options", [{"jobs_scheduler_cron": "off"}, {"jobs_scheduler_cron": ""}, {"jobs_queues": "mail"}])
    def test_it_can_do_without(self, dsn: str, options: dict[str, str]) -> None:
        app = Rota(settings=load_settings(database_url=dsn, **options))
        assert app.worker()._tasks["rota.tick"].schedule is None

    def test_a_wrong_expression(self, dsn: str) -> None:
        app = Rota(settings=load_settings(database_url=dsn, jobs_scheduler_cron="61 * * * *"))
        with pytest.raises(InvalidSchedule, match=r"jobs\.scheduler_cron='61 \* \* \* \*'.*minute"):
            app.worker()
        with pytest.raises(ConfigError, match=r"jobs\.scheduler_cron=5"):
            load_settings(jobs_scheduler_cron=5)

    def test_it_is_enqueued_by_hand(self, rota: Command, conn: Conn, tmp_path: Path) -> None:
        (tmp_path / "shop_with_ticks.py").write_text("from rota import Rota\n\napp = Rota()\n")
        assert rota("jobs", "enqueue", "rota.tick", "-a", "shop_with_ticks").code == 0
        assert rota("jobs", "enqueue", "rota.tock", "-a", "shop_with_ticks").code == 2
        given.declare(conn, "rota.tick")  # as every worker does
        assert rota("jobs", "enqueue", "rota.tick").code == 0
        assert conn.execute("SELECT task, queue FROM rota.job").fetchall() == [("rota.tick", "default")] * 2

    def test_its_jobs_are_hidden_unless_asked_for(self, rota: Command, conn: Conn) -> None:
        given.declare(conn, "rota.tick")
        mine, own = given.enqueue(conn, "work"), given.enqueue(conn, "rota.tick")
        assert [job["id"] for job in rota("jobs", "list", "--json").data["jobs"]] == [str(mine)]
        assert [job["id"] for job in rota("jobs", "list", "--task", "rota.tick", "--json").data["jobs"]] == [str(own)]
        assert rota("jobs", "cancel", "--queue", "default", "--yes").code == 0
        assert conn.execute("SELECT id FROM rota.job").fetchall() == [(own,)]

    def test_its_schedule_is_hidden_unless_asked_for(self, rota: Command, conn: Conn) -> None:
        schedule(conn, "rota.tick", task="rota.tick")
        schedule(conn)
        assert [each["name"] for each in rota("schedules", "list", "--json").data["schedules"]] == ["beat"]
        assert [each["name"] for each in rota("schedules", "list", "-t", "rota.*", "--json").data["schedules"]] == ["rota.tick"]

    def test_its_name_is_taken(self, dsn: str) -> None:
        with pytest.raises(UsageError, match=r"'rota\.tick' is not allowed: names that begin with 'rota\.'"):
            Rota(dsn).task(name="rota.tick")(lambda: None)
