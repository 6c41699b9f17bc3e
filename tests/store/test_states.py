"""What the database refuses, whoever asks: impossible rows and impossible transitions."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from tests.support import jobs as given

from rota.model.ids import new_id
from rota.store import runs

Conn = psycopg.Connection[Any]
pytestmark = pytest.mark.req("Q01")

HELD = {"worker_id": new_id(), "lease_until": "2999-01-01", "claimed_at": "now", "attempt": 1}
FIELDS: dict[str, dict[str, Any]] = {
    "waiting": {"pending_parents": 1},
    "delayed": {"run_at": "2999-01-01"},
    "held": {"limited": True},
    "queued": {},
    "running": HELD,
}
ALLOWED = {
    ("waiting", "queued"), ("waiting", "delayed"), ("waiting", "held"), ("delayed", "queued"), ("delayed", "held"),
    ("held", "queued"), ("queued", "running"), ("queued", "delayed"), ("queued", "held"), ("running", "queued"),
    ("running", "delayed"), ("running", "held"),
}  # fmt: skip


def insert(conn: Conn, table: str, **values: Any) -> None:
    statement = sql.SQL("INSERT INTO rota.{} ({}) VALUES ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, values)),
        sql.SQL(", ").join(sql.Placeholder() * len(values)),
    )
    conn.execute(statement, list(values.values()))


@pytest.mark.parametrize("state", FIELDS)
def test_every_state_can_be_stored(conn: Conn, state: str) -> None:
    insert(conn, "job", id=new_id(), task="work", state=state, **FIELDS[state])


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("job_state", {"state": "completed"}),
        ("job_state", {"state": "gone"}),
        ("job_held_is_limited", {"state": "held"}),
        ("job_running_has_worker", {"state": "running", **HELD, "worker_id": None}),
        ("job_running_has_worker", {"worker_id": new_id()}),
        ("job_worker_has_lease", {"state": "running", **HELD, "lease_until": None}),
        ("job_worker_has_lease", {"lease_until": "2999-01-01"}),
        ("job_worker_has_claimed", {"state": "running", **HELD, "claimed_at": None}),
        ("job_worker_has_claimed", {"state": "running", **HELD, "attempt": 0}),
        ("job_waiting_has_parents", {"state": "waiting"}),
        ("job_waiting_has_parents", {"pending_parents": 1}),
        ("job_max_attempts", {"max_attempts": 0}),
        ("job_max_attempts", {"max_attempts": -1}),
        ("job_max_attempts", {"max_attempts": 1001}),
        ("job_attempt", {"attempt": -1}),
        ("job_attempt", {"forgiven": 1}),
        ("job_forgiven", {"forgiven": -1}),
        ("job_crashes", {"crashes": -1}),
        ("job_pending_parents", {"pending_parents": -1}),
        ("job_payload", {"payload": "[]"}),
        ("job_payload", {"payload": "null"}),
        ("job_timeout", {"timeout": "0"}),
        ("job_run_at", {"run_at": "1969-12-31"}),
        ("job_run_at", {"run_at": "infinity"}),
        ("job_on_parent_failure", {"on_parent_failure": "shrug"}),
    ],
)
def test_an_impossible_job_is_refused(conn: Conn, constraint: str, values: dict[str, Any]) -> None:
    with pytest.raises(errors.CheckViolation) as refusal:
        insert(conn, "job", **{"id": new_id(), "task": "work", **values})
    assert refusal.value.diag.constraint_name == constraint


@pytest.mark.parametrize("to", FIELDS)
@pytest.mark.parametrize("state", FIELDS)
def test_only_the_transitions_of_the_state_machine_are_allowed(conn: Conn, state: str, to: str) -> None:
    id = new_id()
    insert(conn, "job", id=id, task="work", state=state, **FIELDS[state])
    nothing = {"worker_id": None, "lease_until": None, "pending_parents": 0}
    values = {**nothing, "state": to, **FIELDS[to]}
    assignments = sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder()) for name in values)
    statement = sql.SQL("UPDATE rota.job SET {} WHERE id = {}").format(assignments, sql.Placeholder())
    if state == to or (state, to) in ALLOWED:
        conn.execute(statement, [*values.values(), id])
    else:
        with pytest.raises(psycopg.DatabaseError, match=f"job {id} cannot go from {state} to {to}") as refusal:
            conn.execute(statement, [*values.values(), id])
        assert refusal.value.sqlstate == "RT409"


@pytest.mark.req("Q15")
def test_a_job_has_one_run_per_attempt(conn: Conn) -> None:
    run = {"job_id": new_id(), "attempt": 1, "task": "work", "queue": "default", "outcome": "failed", "finished_at": "now"}
    insert(conn, "run", **run, final=False)
    with pytest.raises(errors.UniqueViolation):
        insert(conn, "run", **run, final=True, payload="{}")


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("run_outcome", {"outcome": "queued", "final": False}),
        ("run_final", {"outcome": "snoozed", "final": True, "payload": "{}"}),
        ("run_final", {"outcome": "lost", "final": True, "payload": "{}"}),
        ("run_final", {"outcome": "failed", "final": True}),
    ],
)
def test_an_impossible_run_is_refused(conn: Conn, constraint: str, values: dict[str, Any]) -> None:
    with pytest.raises(errors.CheckViolation) as refusal:
        insert(conn, "run", job_id=new_id(), attempt=1, task="work", queue="default", finished_at="now", **values)
    assert refusal.value.diag.constraint_name == constraint


class TestPartitions:
    def test_runs_go_to_the_week_of_their_job(self, conn: Conn) -> None:
        given.declare(conn, "work")
        given.enqueue(conn)
        given.fail(conn, given.start_worker(conn))
        week = conn.execute("SELECT 'run_' || to_char(date_trunc('week', now() AT TIME ZONE 'UTC'), 'YYYYMMDD')").fetchone()
        assert conn.execute("SELECT tableoid::regclass::text FROM rota.run").fetchone() == (f"rota.{week and week[0]}",)

    def test_runs_from_a_clock_ahead_move_to_their_partition_when_it_is_made(self, conn: Conn) -> None:
        row = conn.execute("SELECT rota.uuid7_floor(now() + interval '6 weeks')").fetchone()
        assert row is not None
        insert(
            conn, "run", job_id=row[0], attempt=1, task="work", queue="default", outcome="completed", final=True,
            finished_at="now", payload="{}",
        )  # fmt: skip
        assert conn.execute("SELECT count(*) FROM rota.run_default").fetchone() == (1,)
        assert conn.execute("SELECT rota.make_run_partitions(8)").fetchone() == (4,)
        assert conn.execute("SELECT rota.make_run_partitions(8)").fetchone() == (0,)
        assert conn.execute("SELECT count(*) FROM rota.run_default").fetchone() == (0,)
        assert conn.execute("SELECT count(*) FROM rota.run").fetchone() == (1,)
        with pytest.raises(errors.UniqueViolation):
            insert(
                conn, "run", job_id=row[0], attempt=1, task="work", queue="default", outcome="failed", final=False,
                finished_at="now",
            )  # fmt: skip

    def test_a_long_reader_does_not_let_it_stop_completions(self, conn: Conn, dsn: str) -> None:
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        job = given.enqueue(conn)
        [(_, token)] = given.claim(conn, worker)
        with psycopg.connect(dsn) as reader:
            reader.execute("SELECT count(*) FROM rota.jobs")
            assert conn.execute("SELECT rota.make_run_partitions(8)").fetchone() == (0,)  # gives up, to try again later
            assert given.finish(conn, job, token, worker, "completed") == "completed"
        assert conn.execute("SELECT rota.make_run_partitions(8)").fetchone() == (4,)


@pytest.mark.req("Q06")
async def test_an_ending_after_the_rescue_is_told_that_the_lease_is_lost(conn: Conn, dsn: str) -> None:
    given.declare(conn, "work")
    worker = given.start_worker(conn)
    given.enqueue(conn)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as own:
        [run] = await runs.claim(own, worker=worker, tasks="{work}", queue="default", limit=1, lease_s=60)
        await runs.rescue(own, dead=[worker])
        run.outcome = "completed"
        assert await runs.finish(own, worker=worker, runs=[run]) == {run.id: None}
