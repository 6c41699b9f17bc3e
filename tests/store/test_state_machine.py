"""The life of jobs: the real SQL, driven at random, against a model in plain Python."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from tests.support import jobs as given
from tests.support.model import LIVE, Job, Model
from tests.support.thorough import examples

from rota.contrib.testing.clock import Clock
from rota.model.ids import new_id
from rota.store import jobs_change, queues, runs

Claim = tuple[UUID, runs.Run]

START = datetime(2030, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=300)
NO_TIME = timedelta(0)
MOST_JOBS = 5  # few jobs that live through much find more than many that live through little
LIMITS = [1, 1, 2, None]


class Lives(RuleBasedStateMachine):
    """Everything that can happen to jobs, in any order."""

    conn: psycopg.Connection[Any]
    aconn: psycopg.AsyncConnection[Any]
    loop: asyncio.Runner
    clock: Clock

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(START, limit=1)
        self.workers = [new_id() for _ in range(2)]
        self.claims: list[Claim] = []
        self.taken = 0  # places, when the limit was last changed
        self.conn.execute("TRUNCATE rota.job, rota.run, rota.job_edge")
        self.conn.execute("UPDATE rota.task SET max_concurrency = 1 WHERE name = 'narrow'")
        self.clock.freeze(self.model.now)

    # What happens

    @precondition(lambda self: len(self.model.jobs) < MOST_JOBS)
    @rule(
        target=made,
        parents=st.lists(made, max_size=3, unique=True),
        priority=st.integers(-1, 1),
        delay=st.sampled_from([0, 0, 60]),
        most=st.integers(1, 3),
        policy=st.sampled_from(["cancel", "fail", "ignore"]),
        narrow=st.booleans(),
    )
    def enqueue(self, parents: list[UUID], priority: int, delay: int, most: int, policy: str, narrow: bool) -> Any:
        id = new_id()
        task, limited = ("narrow", self.model.limit is not None) if narrow else ("work", False)
        row = self.conn.execute(
            """SELECT outcome FROM rota.insert_job(
                   %s, %s, '{}', 'default', %s, NULL, %s, %s, NULL, NULL, NULL, NULL, NULL, NULL, %s, %s, new_limited => %s)""",
            [id, task, priority, timedelta(seconds=delay), most, parents, policy, limited],
        ).fetchone()
        bad = [each for each in parents if self.model.jobs[each].state in ("failed", "canceled")]
        if bad and policy != "ignore":
            assert row == ("parent_failed",)
            return multiple()
        assert row == ("created",)
        job = self.model.jobs[id] = Job(
            id, task, priority, self.model.now + timedelta(seconds=delay), most, policy, "waiting", limited
        )
        job.waits_for = {each for each in parents if self.model.jobs[each].state in LIVE}
        self.model.parents[id] = parents
        self.model.let_go(job)
        return id

    @precondition(lambda self: self.model.any("queued"))
    @rule(worker=st.integers(0, 1), limit=st.integers(1, 3), paused=st.sampled_from([False, False, False, True]))
    def claim(self, worker: int, limit: int, paused: bool) -> None:
        by = self.workers[worker]
        if paused:
            self._run(queues.pause(self.aconn, "default", reason=None))
        claimed = self._run(runs.claim(self.aconn, worker=by, tasks="{work,narrow}", queue="default", limit=limit, lease_s=300))
        self._run(queues.resume(self.aconn, "default"))
        ready = [] if paused else [job for job in self.model.jobs.values() if job.state == "queued"]
        expected = sorted(ready, key=lambda job: (job.priority, job.run_at, job.id))[:limit]
        assert [UUID(run.id) for run in claimed] == [job.id for job in expected]
        for job in expected:
            job.state, job.worker, job.lease_until = "running", by, self.model.now + LEASE
            job.attempt += 1
            job.token += 1
        self.claims += [(by, run) for run in claimed]

    @precondition(lambda self: self.model.any("running"))
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["completed", "failed", "failed", "crashed", "snoozed", "canceled", "released"]),
        delay=st.sampled_from([0, 0, 60]),
        retryable=st.sampled_from([True, True, True, False]),
    )
    def finish(self, data: Any, outcome: str, delay: int, retryable: bool) -> None:
        worker, run = self._pick(data, held=True)
        job = self.model.jobs[run.job_id]
        delay = 0 if outcome == "released" else delay
        run.outcome, run.delay_s, run.retryable = outcome, delay, retryable
        state = self._run(runs.finish(self.aconn, worker=worker, runs=[run]))[run.id]
        self.model.finish(job, outcome, timedelta(seconds=delay), retryable)
        assert state == ("queued" if job.state in LIVE else job.state)

    @precondition(lambda self: self.model.any("running"))
    @rule(data=st.data())
    def complete(self, data: Any) -> None:
        """The fast lane."""
        worker, run = self._pick(data, held=True)
        assert self._run(runs.complete(self.aconn, worker=worker, runs=[run])) == set()
        self.model.finish(self.model.jobs[run.job_id], "completed", NO_TIME, True)

    @precondition(lambda self: self.model.any("running"))
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        worker, run = self._pick(data, held=True)
        self._run(runs.release(self.aconn, worker=worker, runs=[run]))
        job = self.model.jobs[run.job_id]
        if job.cancel_requested:  # that will do
            self.model.end(job, "canceled")
        else:
            job.state, job.worker, job.lease_until = "queued", None, None
            job.attempt -= 1

    @precondition(lambda self: self.model.any("running"))
    @rule(data=st.data())
    def renew(self, data: Any) -> None:
        worker, run = self._pick(data, held=True)
        assert runs.renew(self.conn, worker=worker, runs=[run], lease_s=LEASE.total_seconds()) == ({run.id}, set())
        self.model.jobs[run.job_id].lease_until = self.model.now + LEASE

    @precondition(lambda self: any(not self._holds(claim) for claim in self.claims))
    @rule(data=st.data(), outcome=st.sampled_from(["completed", "failed", "snoozed", "canceled", "released"]))
    def say_too_late(self, data: Any, outcome: str) -> None:
        """Whatever is said about a run that was lost or has ended, nothing changes."""
        worker, run = self._pick(data, held=False)
        run.outcome, run.delay_s = outcome, 0
        self._run(runs.finish(self.aconn, worker=worker, runs=[run]))
        assert self._run(runs.complete(self.aconn, worker=worker, runs=[run])) == {run.id}
        self._run(runs.release(self.aconn, worker=worker, runs=[run]))
        assert runs.renew(self.conn, worker=worker, runs=[run], lease_s=LEASE.total_seconds()) == (set(), {run.id})

    @precondition(lambda self: self.model.any("running"))
    @rule(dead=st.sets(st.integers(0, 1)))
    def rescue(self, dead: set[int]) -> None:
        gone = [self.workers[each] for each in dead]
        rescued = {row[0]: row[5] for row in self._run(runs.rescue(self.aconn, dead=gone))}
        lost = [
            job
            for job in self.model.jobs.values()
            if job.lease_until is not None and (job.worker in gone or job.lease_until < self.model.now)
        ]
        assert set(rescued) == {job.id for job in lost}
        for job in lost:
            job.crashes += 1
            if job.cancel_requested or job.charged >= job.max_attempts:
                self.model.end(job, "canceled" if job.cancel_requested else "failed")
            else:
                job.runs.append("lost")
                job.state, job.worker, job.lease_until = "queued", None, None
            assert rescued[job.id] == job.state
        if any(job.limited and job.state not in LIVE for job in lost):
            self.model.admit()
        for each in dead:
            self.workers[each] = new_id()  # no worker's id is ever used again

    @rule(id=made, verb=st.sampled_from(["retry", "retry", "cancel"]))
    def operate(self, id: UUID, verb: str) -> None:
        self._cancel(id) if verb == "cancel" else self._retry(id)

    def _cancel(self, id: UUID) -> None:
        job = self.model.jobs[id]
        was = self._run(jobs_change.cancel(self.aconn, [id], reason=None))[id]
        assert was == (job.state if job.state in LIVE else None)
        if job.state == "running":
            job.cancel_requested = True
        elif job.state in LIVE:
            job.attempt += 1
            self.model.end(job, "canceled")

    def _retry(self, id: UUID) -> None:
        job = self.model.jobs[id]
        was = self._run(jobs_change.retry(self.aconn, [id]))[id]
        assert was == job.public_state
        if job.public_state == "queued":
            job.run_at = min(job.run_at, self.model.now)
            job.limited = job.limited and not job.aside
            job.state, job.aside = "held" if job.limited and job.state != "queued" else "queued", False
        elif job.state in ("failed", "canceled"):
            job.run_at, job.forgiven, job.crashes, job.culprit = self.model.now, job.attempt, 0, False
            job.waits_for = {each for each in self.model.parents[id] if self.model.jobs[each].state in LIVE}
            job.state, job.limited = "waiting", job.task == "narrow" and self.model.limit is not None
            self.model.let_go(job)

    @precondition(lambda self: self.model.any("delayed", "held"))
    @rule()
    def promote(self) -> None:
        due = [job for job in self.model.jobs.values() if job.state == "delayed" and job.run_at <= self.model.now]
        for job in due:
            job.state = "held" if job.limited else "queued"
        assert self._run(runs.promote(self.aconn))[0] == len(due) + self.model.admit()

    @precondition(lambda self: any(job.state == "queued" and job.task == "work" for job in self.model.jobs.values()))
    @rule()
    def set_aside(self) -> None:
        """There is no live worker, so none knows the task."""
        unknown = [job for job in self.model.jobs.values() if job.state == "queued" and job.task == "work"]
        assert self.conn.execute("SELECT rota.set_aside('default', '{narrow}')").fetchone() == (len(unknown),)
        for job in unknown:
            job.state, job.limited, job.aside = "held", True, True

    @precondition(lambda self: any(job.aside and job.state == "held" for job in self.model.jobs.values()))
    @rule(failed=st.sampled_from([False, False, True]))
    def take_back(self, failed: bool) -> None:
        """A worker that knows the task comes, or they have waited too long for one."""
        aside = [job for job in self.model.jobs.values() if job.aside and job.state == "held"]
        statement = "SELECT rota.take_back('{default}', '{work}', '{v1}', 4)"
        if failed:
            statement = "SELECT rota.fail_unknown('default', 'work', '{}', rota.now(), '{}')"
        assert self.conn.execute(statement).fetchone() == (len(aside),)
        for job in aside:
            job.state, job.limited, job.aside = "queued", False, False
            if failed:
                job.attempt += 1
                self.model.end(job, "failed")

    @rule(limit=st.sampled_from(LIMITS))
    def change_limit(self, limit: int | None) -> None:
        self.conn.execute("UPDATE rota.task SET max_concurrency = %s WHERE name = 'narrow'", [limit])
        self.conn.execute("SELECT rota.admit_jobs('{narrow}')")
        self.model.limit = limit
        self.model.admit()
        self.taken = self._count_places()

    @precondition(lambda self: self.model.any("delayed", "running"))
    @rule(seconds=st.sampled_from([20, 60, 301]))
    def wait(self, seconds: int) -> None:
        self.model.now += timedelta(seconds=seconds)
        self.clock.freeze(self.model.now)

    # What the rules are made of

    def _holds(self, claim: Claim) -> bool:
        worker, run = claim
        job = self.model.jobs[run.job_id]
        return job.state == "running" and (job.token, job.worker) == (run.token, worker)

    def _pick(self, data: Any, *, held: bool) -> Claim:
        claims = [claim for claim in self.claims if self._holds(claim) == held]
        # Those whose job runs again are the ones that could do harm.
        again = [claim for claim in claims if self.model.jobs[claim[1].job_id].state == "running"]
        return data.draw(st.sampled_from(again or claims))

    def _count_places(self) -> int:
        row = self.conn.execute("SELECT count(*) FROM rota.job WHERE limited AND state IN ('queued', 'running')").fetchone()
        assert row is not None
        return int(row[0])

    def _run(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self.loop.run(wait())

    # What must always be so

    @invariant()
    def the_database_says_what_the_model_says(self) -> None:
        live = {
            job.id: (
                job.state, job.attempt, job.forgiven, job.crashes, job.culprit, job.token, job.worker, job.run_at,
                job.lease_until, len(job.waits_for), job.cancel_requested, job.limited,
            )
            for job in self.model.jobs.values()
            if job.state in LIVE
        }  # fmt: skip
        rows = self.conn.execute(
            """SELECT id, state, attempt, forgiven, crashes, culprit, token, worker_id, run_at, lease_until, pending_parents,
                      cancel_requested_at IS NOT NULL, limited
               FROM rota.job"""
        )
        assert {row[0]: row[1:] for row in rows} == live

    @invariant()
    def history_is_complete_and_has_one_end(self) -> None:
        rows = self.conn.execute("SELECT job_id, attempt, outcome, final FROM rota.run").fetchall()
        expected = {
            (job.id, number, outcome, job.state not in LIVE and number == len(job.runs))
            for job in self.model.jobs.values()
            for number, outcome in enumerate(job.runs, 1)
        }
        assert set(rows) == expected
        assert len(rows) == len(expected)

    @invariant()
    def every_job_is_seen_once_in_a_public_state(self) -> None:
        rows = self.conn.execute("SELECT id, state FROM rota.jobs").fetchall()
        assert len(rows) == len(self.model.jobs)
        assert dict(rows) == {id: job.public_state for id, job in self.model.jobs.items()}

    @invariant()
    def no_more_start_than_the_limit_allows(self) -> None:
        # What ran when the limit was lowered may run on, and again in its place.
        assert self.model.limit is None or self._count_places() <= max(self.model.limit, self.taken)

    @invariant()
    def whoever_waits_has_somebody_to_wait_for(self) -> None:
        rows = self.conn.execute(
            """SELECT j.id FROM rota.job j
               WHERE j.pending_parents <> (SELECT count(*) FROM rota.job_edge e JOIN rota.job p ON p.id = e.parent_id
                                           WHERE e.child_id = j.id AND NOT e.settled AND p.fanout)"""
        )
        assert rows.fetchall() == []


@pytest.mark.req("Q01", "Q06", "Q07", "Q09", "Q10", "Q11", "Q19", "S09")
def test_every_life_follows_the_model(conn: psycopg.Connection[Any], dsn: str) -> None:
    given.declare(conn, "work", "narrow")
    with asyncio.Runner() as loop:
        aconn = loop.run(psycopg.AsyncConnection.connect(dsn, autocommit=True))
        try:
            machine = type("Machine", (Lives,), {"conn": conn, "aconn": aconn, "loop": loop, "clock": Clock(conn)})
            run_machine(
                machine,
                settings=settings(
                    max_examples=examples(60), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
                ),
            )
        finally:
            loop.run(aconn.close())
