"""The life of jobs with pruning in between: the real SQL, driven at random; nothing that is live, young or needed ever goes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from tests.support import jobs as given
from tests.support.retained import History, prune
from tests.support.thorough import examples

from rota.contrib.testing.clock import Clock
from rota.model.ids import new_id

DAYS = 28  # from which on whole weeks are waited for


class Lives(RuleBasedStateMachine):
    """Everything that can happen to jobs, in any order."""

    conn: psycopg.Connection[Any]
    aconn: psycopg.AsyncConnection[Any]
    loop: asyncio.Runner
    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.conn.execute("TRUNCATE rota.job, rota.run, rota.job_edge, rota.log, rota.signal")
        self.conn.execute("SELECT rota.make_run_partitions()")
        self.now = datetime.now(UTC)
        self.clock.freeze(self.now)
        self.history = History(self.conn)
        self.worker = new_id()
        self.attempts: dict[UUID, int] = {}  # of each job, that are in the history
        self.parents: dict[UUID, list[UUID]] = {}
        self.ended: dict[UUID, datetime] = {}

    @rule(data=st.data())
    def enqueue(self, data: Any) -> None:
        known = sorted(set(self.attempts) & {id for id in self.attempts if self._exists(id)})
        parents = data.draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        id = given.enqueue(self.conn, parents=parents, on_parent_failure="ignore", max_attempts=3)
        self.attempts[id] = 0
        self.parents[id] = parents

    @rule(outcome=st.sampled_from(["completed", "failed", "snoozed", "canceled"]))
    def run(self, outcome: str) -> None:
        for id, token in given.claim(self.conn, self.worker):
            state = given.finish(self.conn, id, token, self.worker, outcome, error="x" if outcome == "failed" else None)
            self.attempts[id] += 1
            if state != "queued":
                self.ended[id] = self.now

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def retry(self, data: Any) -> None:
        id = data.draw(st.sampled_from(sorted(self.ended)))
        row = self.conn.execute("SELECT rota.retry_job(%s)", [id]).fetchone()
        assert row is not None
        if row[0] in ("failed", "canceled"):
            del self.ended[id]

    @rule(days=st.sampled_from([1, 5, 20, 30, 60]))
    def wait(self, days: int) -> None:
        self.now += timedelta(days=days)
        self.clock.freeze(self.now)

    @rule(batch=st.sampled_from([1, 3, 1000]))
    def prune(self, batch: int) -> None:
        needed = self._needed()
        self.loop.run(prune(self.aconn, runs_days=DAYS, batch=batch))
        for id in list(self.ended):
            gone = not self._exists(id)
            age = self.now - self.ended[id]
            assert not gone or (id not in needed and age > timedelta(days=DAYS)), f"{id} went after {age}"
            assert gone or id in needed or age <= timedelta(days=DAYS + 7), f"{id} is there after {age}"
            if gone:
                del self.ended[id], self.attempts[id]
                # The edges of its children, which have ended, may go too: tried again they do not need them.
                for parents in self.parents.values():
                    if id in parents:
                        parents.remove(id)

    @invariant()
    def all_attempts_are_there(self) -> None:
        rows = self.conn.execute("SELECT job_id, count(*) FROM rota.run GROUP BY 1").fetchall()
        assert dict(rows) == {id: count for id, count in self.attempts.items() if count}

    @invariant()
    def edges_of_live_jobs_are_there(self) -> None:
        live = {id for (id,) in self.conn.execute("SELECT id FROM rota.job").fetchall()}
        edges = set(self.conn.execute("SELECT parent_id, child_id FROM rota.job_edge").fetchall())
        assert {(parent, child) for child in live for parent in self.parents[child]} <= edges

    def _needed(self) -> set[UUID]:
        live = {id for (id,) in self.conn.execute("SELECT id FROM rota.job").fetchall()}
        return live | {parent for child in live for parent in self.parents[child]}

    def _exists(self, id: UUID) -> bool:
        return self.conn.execute("SELECT FROM rota.jobs WHERE id = %s", [id]).fetchone() is not None


@pytest.mark.req("C08")
def test_every_life_keeps_the_rules(conn: psycopg.Connection[Any], dsn: str) -> None:
    given.declare(conn, "work")
    with asyncio.Runner() as loop:
        aconn = loop.run(psycopg.AsyncConnection.connect(dsn, autocommit=True))
        try:
            machine = type("Machine", (Lives,), {"conn": conn, "aconn": aconn, "loop": loop, "clock": Clock(conn)})
            run_machine(
                machine,
                settings=settings(
                    max_examples=examples(40), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
                ),
            )
        finally:
            loop.run(aconn.close())
