"""Runs: what one tells, lists and filters of them, open attempts among them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support import jobs as given

from rota.contrib.testing.clock import Clock
from rota.control import runs, service
from rota.errors import NotFound, UsageError
from rota.model.filters import RunFilter
from rota.model.ids import new_id
from rota.store import runs_read
from rota.store.runs_read import RunId

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]


async def ids(aconn: AConn, **filter: Any) -> list[tuple[UUID, int]]:
    return [(run.job_id, run.attempt) for run in (await runs.list_runs(aconn, RunFilter(**filter))).runs]


def attempt(conn: Conn, worker: UUID, outcome: str = "failed", **options: Any) -> UUID:
    """Claim the next job and end the attempt so."""
    [(id, token)] = given.claim(conn, worker)
    given.finish(conn, id, token, worker, outcome, **options)
    return id


@pytest.mark.req("C04", "Q15")
class TestRun:
    async def test_it_has_everything(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        by = {"kind": "hook", "hook": "user.created", "operation": "insert"}
        id = given.enqueue(conn, payload={"n": 1}, triggered_by=json.dumps(by))
        at = datetime(2030, 1, 31, 9, tzinfo=UTC)
        conn.execute("UPDATE rota.job SET scheduled_for = %s, schedule_id = NULL", [at])
        clock = Clock(conn)
        clock.freeze()
        [(_, token)] = given.claim(conn, worker)
        clock.move(timedelta(milliseconds=10))
        given.finish(conn, id, token, worker, "failed", error="no route")
        run = await runs.get_run(aconn, id, 1)
        assert (run.task, run.status, run.attempt, run.job_id, run.worker_id) == ("work", "failed", 1, id, worker)
        assert (run.payload, run.scheduled_for, run.triggered_by) == ({"n": 1}, at, by)
        assert run.error == {"type": "ValueError", "message": "no route"}
        assert run.started_at is not None
        assert run.finished_at is not None
        assert run.duration == run.finished_at - run.started_at == timedelta(milliseconds=10)
        assert run.fingerprint is not None
        assert len(run.fingerprint) == 16

    async def test_the_open_attempt_is_a_run_that_is_running(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn, payload={"n": 7})
        assert await ids(aconn) == []
        attempt(conn, worker, "failed")
        [(_, token)] = given.claim(conn, worker)
        [open_, first] = (await runs.list_runs(aconn)).runs
        assert (open_.attempt, open_.status, open_.finished_at, open_.worker_id) == (2, "running", None, worker)
        assert open_.duration is not None
        assert (first.attempt, first.status, first.final) == (1, "failed", False)
        run = await runs.get_run(aconn, id)
        assert (run.status, run.attempt, run.payload) == ("running", 2, {"n": 7})
        # Its worker dies: the run that had no end gets one that says so.
        conn.execute("UPDATE rota.job SET lease_until = rota.now() - interval '1 s'")
        conn.execute("SELECT rota.rescue_runs('{}')")
        assert given.finish(conn, id, token, worker, "completed") is None
        [lost, _] = (await runs.list_runs(aconn)).runs
        assert (lost.attempt, lost.status, lost.error_type) == (2, "lost", "WorkerCrashed")

    async def test_each_attempt_knows_its_payload(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        id = given.enqueue(conn, payload={"n": 1})
        attempt(conn, worker, "failed")
        attempt(conn, worker, "failed", can_retry=False)
        for n in (1, 2):
            assert (await runs.get_run(aconn, id, n)).payload == {"n": 1}
        conn.execute("SELECT rota.edit_job(%s, '{\"n\": 2}')", [id])
        attempt(conn, worker, "completed")
        assert [(await runs.get_run(aconn, id, n)).payload for n in (1, 2, 3)] == [{"n": 1}, {"n": 1}, {"n": 2}]

    async def test_there_is_no_such_run(self, conn: Conn, aconn: AConn) -> None:
        id = new_id()
        with pytest.raises(NotFound, match=f"there is no run of job {id}: `rota runs list --job {id}`"):
            await runs.get_run(aconn, id)
        given.declare(conn, "work")
        id = given.enqueue(conn)
        with pytest.raises(NotFound, match=f"there is no run {id}/3"):
            await runs.get_run(aconn, id, 3)


@pytest.mark.req("C04")
class TestList:
    async def test_newest_jobs_first_and_of_each_the_last_attempt(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        first = given.enqueue(conn, priority=-1)
        second = given.enqueue(conn)
        for _ in range(3):
            assert attempt(conn, worker, "failed") == first
        attempt(conn, worker, "completed")
        attempt(conn, worker, "completed")
        assert await ids(aconn) == [(second, 1), (first, 4), (first, 3), (first, 2), (first, 1)]

    async def test_pages_meet_without_gap_or_overlap(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        for _ in range(5):
            given.enqueue(conn)
        for _ in range(12):
            attempt(conn, worker, "failed")
        given.claim(conn, worker)
        everything = await ids(aconn)
        assert len(everything) == 13
        for limit in (1, 2, 5, 13):
            seen: list[tuple[UUID, int]] = []
            before: RunId | None = None
            while True:
                page = await runs.list_runs(aconn, before=before, limit=limit)
                seen += [(run.job_id, run.attempt) for run in page.runs]
                if (before := page.next) is None:
                    break
            assert seen == everything

    async def test_each_filter(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "send_mail", "send_sms")
        worker, other = given.start_worker(conn), given.start_worker(conn)
        mail = given.enqueue(conn, "send_mail", triggered_by='{"kind": "hook"}')
        sms = given.enqueue(conn, "send_sms")
        assert attempt(conn, worker, "failed", error="Mailbox FULL", delay=timedelta(hours=1)) == mail
        assert attempt(conn, other, "completed") == sms
        third = given.enqueue(conn, "send_sms")
        given.claim(conn, other)
        assert await ids(aconn) == [(third, 1), (sms, 1), (mail, 1)]
        assert await ids(aconn, task="send_mail") == [(mail, 1)]
        assert await ids(aconn, task="send_s*") == [(third, 1), (sms, 1)]
        assert await ids(aconn, task="send%") == []
        assert await ids(aconn, worker=worker) == [(mail, 1)]
        assert await ids(aconn, worker=other) == [(third, 1), (sms, 1)]
        assert await ids(aconn, job=sms) == [(sms, 1)]
        assert await ids(aconn, job=third) == [(third, 1)]
        assert await ids(aconn, text="mailbox full") == [(mail, 1)]
        assert await ids(aconn, triggered_by="hook") == [(mail, 1)]
        assert await ids(aconn, statuses=["running"]) == [(third, 1)]
        assert await ids(aconn, statuses=["failed"]) == [(mail, 1)]
        assert await ids(aconn, statuses=["failed", "running"]) == [(third, 1), (mail, 1)]
        assert await ids(aconn, statuses=["completed"]) == [(sms, 1)]
        assert await ids(aconn, statuses=["failed"], task="send_sms") == []
        assert await ids(aconn, since=timedelta(hours=1)) == [(third, 1), (sms, 1), (mail, 1)]
        assert await ids(aconn, until=timedelta(hours=1)) == []
        assert await ids(aconn, since=datetime.now(UTC) - timedelta(minutes=5), until=datetime.now(UTC)) != []
        [found] = (await runs.list_runs(aconn, RunFilter(statuses=["failed"]))).runs
        assert await ids(aconn, fingerprint=found.fingerprint) == [(mail, 1)]
        assert await ids(aconn, fingerprint=found.fingerprint, job=sms) == []
        assert await ids(aconn, fingerprint="0" * 16) == []

    async def test_by_schedule(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        row = conn.execute(
            """INSERT INTO rota.schedule (name, task, strategy, every, next_run_at)
               VALUES ('nightly', 'work', 'interval', '1 h', rota.now()) RETURNING id"""
        ).fetchone()
        assert row is not None
        id = given.enqueue(conn)
        conn.execute("UPDATE rota.job SET schedule_id = %s WHERE id = %s", [row[0], id])
        attempt(conn, worker, "failed", delay=timedelta(hours=1))
        given.enqueue(conn)
        attempt(conn, worker, "completed")
        for name in ("nightly", str(row[0])):
            filter = await runs.of_schedule(aconn, RunFilter(), name)
            assert [run.job_id for run in (await runs.list_runs(aconn, filter)).runs] == [id]
        with pytest.raises(NotFound, match="there is no schedule 'weekly'"):
            await runs.of_schedule(aconn, RunFilter(), "weekly")

    @pytest.mark.req("C11")
    async def test_rotas_own_are_hidden_unless_asked_for(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "rota.tick")
        worker = given.start_worker(conn)
        id = given.enqueue(conn, "rota.tick")
        attempt(conn, worker, "completed")
        assert await ids(aconn) == []
        assert await ids(aconn, task="rota.tick") == await ids(aconn, job=id) == [(id, 1)]

    async def test_a_search_for_the_rare_ends_and_says_how_far_it_got(
        self, conn: Conn, aconn: AConn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runs, "FIRST_WINDOW", 10)
        monkeypatch.setattr(runs, "LAST_WINDOW", 10)
        monkeypatch.setattr(runs, "BUDGET", 20)
        monkeypatch.setattr(runs, "PATIENCE_S", 60.0)
        given.declare(conn, "work")
        rare, common = given.start_worker(conn), given.start_worker(conn)
        id = given.enqueue(conn)
        attempt(conn, rare, "completed")
        for _ in range(45):
            given.enqueue(conn)
            attempt(conn, common, "completed")
        page = await runs.list_runs(aconn, RunFilter(worker=rare), limit=5)
        assert page.runs == []
        steps = 0
        while not page.runs:
            assert page.next is not None
            page = await runs.list_runs(aconn, RunFilter(worker=rare), before=page.next, limit=5)
            steps += 1
        assert [run.job_id for run in page.runs] == [id]
        assert (steps, page.next) == (2, None)

    async def test_counts_are_capped(self, conn: Conn, aconn: AConn) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        for _ in range(4):
            given.enqueue(conn)
            attempt(conn, worker, "completed")
        assert str(await runs.count_runs(aconn, RunFilter(task="work"))) == "4"
        assert str(await runs.count_runs(aconn, RunFilter(task="work"), cap=3)) == "3+"

    @pytest.mark.parametrize("limit", [0, 1001])
    async def test_a_limit_out_of_range_is_refused(self, aconn: AConn, limit: int) -> None:
        with pytest.raises(UsageError, match="from 1 to 1000"):
            await runs.list_runs(aconn, limit=limit)

    def test_nonsense_filters_are_refused(self) -> None:
        with pytest.raises(UsageError, match="'gone' is not a status of runs: one of running, completed"):
            RunFilter(statuses=["gone"])
        with pytest.raises(UsageError, match="until=2030-01-01T00:00:00 has no time zone"):
            RunFilter(until=datetime(2030, 1, 1))  # noqa: DTZ001
        for name in ("task", "text", "triggered_by", "fingerprint"):
            with pytest.raises(UsageError, match=f"{name}=.* cannot store"):
                RunFilter(**{name: "a\0b"})


@pytest.mark.req("Q18")
async def test_a_job_past_its_retries_is_seen_looked_into_and_run_again(conn: Conn, aconn: AConn) -> None:
    given.declare(conn, "work", max_attempts=2)
    worker = given.start_worker(conn)
    dead = given.enqueue(conn, payload={"n": 7})
    for _ in range(2):
        attempt(conn, worker, "failed", error="no route to host")
    [letter] = (await service.list_dead_letters(aconn)).jobs
    run = await runs.get_run(aconn, letter.id)
    assert (run.final, run.attempt, run.payload, run.error) == (
        True, 2, {"n": 7}, {"type": "ValueError", "message": "no route to host"},
    )  # fmt: skip
    await service.retry_job(aconn, dead)
    assert attempt(conn, worker, "completed") == dead
    assert (await service.list_dead_letters(aconn)).jobs == []
    assert [run.status for run in (await runs.list_runs(aconn, RunFilter(job=dead))).runs] == ["completed", "failed", "failed"]


class Recorder:
    """Takes a statement down instead of executing it."""

    def __init__(self) -> None:
        self.taken: tuple[Any, dict[str, Any]] | None = None

    async def execute(self, statement: Any, parameters: dict[str, Any]) -> Recorder:
        self.taken = (statement, parameters)
        return self

    async def fetchone(self) -> tuple[int, None, None, list[Any], list[Any]]:
        return 0, None, None, [], []


@pytest.mark.parametrize(
    ("filter", "columns"),
    [
        (RunFilter(), "(job_id, attempt)"),
        (RunFilter(worker=new_id()), "(job_id, attempt)"),
        (RunFilter(statuses=["completed"]), "(job_id, attempt)"),
        (RunFilter(statuses=["failed"]), "(job_id, attempt) WHERE (fingerprint IS NOT NULL)"),
        (RunFilter(statuses=["failed", "lost"], task="work"), "(job_id, attempt) WHERE (fingerprint IS NOT NULL)"),
        (RunFilter(task="work"), "(task, job_id, attempt)"),
        (RunFilter(task="work", statuses=["completed"], since=timedelta(hours=1)), "(task, job_id, attempt)"),
        (RunFilter(fingerprint="0123456789abcdef"), "(fingerprint, job_id, attempt) WHERE (fingerprint IS NOT NULL)"),
        (RunFilter(job=UUID(int=5)), "(job_id, attempt)"),  # of no week: in the default partition
    ],
)
async def test_a_walk_has_its_index(conn: Conn, filter: RunFilter, columns: str) -> None:
    conn.execute("SET enable_seqscan = off")
    conn.execute("SET enable_bitmapscan = off")
    recorder = Recorder()
    await runs_read.scan(recorder, filter, before=None, window=1000, limit=50)  # type: ignore[arg-type]
    assert recorder.taken is not None
    statement, parameters = recorder.taken
    plan = "\n".join(row[0] for row in conn.execute(b"EXPLAIN " + statement.as_bytes(conn), parameters))
    assert "Seq Scan" not in plan
    indexes = conn.execute("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'run_default'").fetchall()
    used = {definition.partition(" btree ")[2] for name, definition in indexes if f" {name} " in plan}
    assert used == {columns}, plan
