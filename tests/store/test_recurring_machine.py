"""The life of recurring rows: the real SQL, driven at random; whatever happens, none is left behind and none runs twice at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from tests.support.recurring import Held, Rows

from rota.contrib.testing.clock import Clock
from rota.model.ids import new_id
from rota.store import jobs_change, runs

START = datetime(2030, 1, 1, tzinfo=UTC)
KEYS = ("a", "b")
keys = st.sampled_from(KEYS)


class Lives(RuleBasedStateMachine):
    """Everything that can happen to rows, in any order."""

    conn: psycopg.Connection[Any]
    aconn: psycopg.AsyncConnection[Any]
    loop: asyncio.Runner
    clock: Clock
    seen: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.conn.execute("TRUNCATE rota.schedule, rota.job, rota.run, rota.job_edge CASCADE")
        self.now = START
        self.clock.freeze(self.now)
        self.rows = Rows(self.conn)
        self.worker = new_id()
        self.held: dict[str, Held] = {}  # claims, and when they were lost or have ended, what a worker still believes in
        self.disabled: set[str] = set()

    # What happens

    @rule(key=keys, history=st.booleans())
    def ensure(self, key: str, history: bool) -> None:
        self.rows.ensure(key, history=history)
        self.disabled.discard(key)

    @precondition(lambda self: self._existing())
    @rule(data=st.data(), enabled=st.booleans())
    def switch(self, data: Any, enabled: bool) -> None:
        key = data.draw(st.sampled_from(self._existing()))
        self.rows.set(key, enabled)
        (self.disabled.discard if enabled else self.disabled.add)(key)

    @rule()
    def fire(self) -> None:
        due = [
            key for key in self._existing()
            if (row := self.rows.row(key)).enabled and row.next_run_at is not None and row.next_run_at <= self.now
        ]  # fmt: skip
        assert self.rows.fire() == len(due)

    @precondition(lambda self: self._with("queued"))
    @rule(data=st.data())
    def claim(self, data: Any) -> None:
        key = data.draw(st.sampled_from(self._with("queued")))
        assert key not in self.disabled, "a disabled row begins to run"
        self.held[key] = self.rows.claim(key, worker=self.worker)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay=st.sampled_from([None, 0, 60, 7200]))
    def complete(self, data: Any, delay: int | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        ours, its_row = self._holds(key), self._concerns(key)
        seconds = None if delay is None else timedelta(seconds=delay)
        assert self.rows.complete(self.held.pop(key), delay=seconds) == int(ours)
        if ours and its_row:
            row = self.rows.row(key)
            assert row.next_run_at == self.now + max(row.every, timedelta(seconds=1))
            assert (row.consecutive_failures, row.failing_since, row.last_error) == (0, None, None)

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["completed", "failed", "failed", "crashed", "canceled", "snoozed", "released"]),
        delay=st.sampled_from([None, None, 0, 60]),
    )
    def finish(self, data: Any, outcome: str, delay: int | None) -> None:
        self._finish(data.draw(st.sampled_from(sorted(self.held))), outcome, delay)

    @rule(key=keys, times=st.sampled_from([1, 2, 8]), delay=st.sampled_from([None, None, None, 0, 60]))
    def fail(self, key: str, times: int, delay: int | None) -> None:
        """From wherever the row is to a failed ending, once or until somebody should hear of it: seldom reached by chance."""
        for _ in range(times):
            self._begin(key)
            self._finish(key, "failed", delay)

    @rule(dead=st.booleans())
    def rescue(self, dead: bool) -> None:
        self._run(runs.rescue(self.aconn, dead=[self.worker] if dead else []))

    @precondition(lambda self: self.held)
    @rule()
    def give_back(self) -> None:
        self._run(runs.release_unknown(self.aconn, worker=self.worker, known=[], older_than_s=0))

    @precondition(lambda self: self._existing())
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        if jobs := [job.id for key in self._existing() for job in self.rows.live(key)]:
            self._run(jobs_change.cancel(self.aconn, [data.draw(st.sampled_from(jobs))], reason=None))

    @rule(data=st.data())
    def retry(self, data: Any) -> None:
        ended = [row[0] for row in self.conn.execute("SELECT job_id FROM rota.run WHERE final AND outcome <> 'completed'")]
        if ended:
            self._run(jobs_change.retry(self.aconn, [data.draw(st.sampled_from(ended))]))

    @precondition(lambda self: self._existing())
    @rule(data=st.data())
    def delete_job(self, data: Any) -> None:
        """By hand; the scheduler notices."""
        key = data.draw(st.sampled_from(self._existing()))
        gone = self.conn.execute("DELETE FROM rota.job WHERE schedule_id = %s", [self.rows.row(key).id]).rowcount
        assert self.rows.heal() == gone

    @precondition(lambda self: self._existing())
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        """The row, by hand: its job ends like any other."""
        key = data.draw(st.sampled_from(self._existing()))
        self.conn.execute("DELETE FROM rota.schedule WHERE key = %s", [key])
        self.disabled.discard(key)

    @rule(seconds=st.sampled_from([1, 60, 301, 7200]))
    def wait(self, seconds: int) -> None:
        self._wait_until(self.now + timedelta(seconds=seconds))

    # What the rules are made of

    def _begin(self, key: str) -> None:
        """Let time pass until the row has a job, and the job is claimed."""
        self.ensure(key, history=False)
        row = self.rows.row(key)
        if row.job_id is None:
            self._wait_until(row.next_run_at)
            self.fire()
        [job] = self.rows.live(key)
        if job.state != "running":
            self._wait_until(job.run_at)
            self.held[key] = self.rows.claim(key, worker=self.worker)

    def _finish(self, key: str, outcome: str, delay: int | None) -> None:
        ours, its_row, before = self._holds(key), self._concerns(key), self.rows.row(key)
        state = self.rows.finish(
            self.held.pop(key), outcome, delay=None if delay is None else timedelta(seconds=delay), error="boom"
        )
        assert (state is not None) == ours
        if ours and its_row and state == "failed":
            row = self.rows.row(key)
            failed = before.consecutive_failures + 1
            assert row.consecutive_failures == failed
            backoff = timedelta(seconds=min(60 * 2 ** (failed - 1), 3600) if delay is None else max(delay, 1))
            assert row.next_run_at == self.now + backoff
            self.seen[f"{failed} failed"] += 1

    def _wait_until(self, at: datetime) -> None:
        self.now = max(self.now, at)
        self.clock.freeze(self.now)
        self._run(runs.promote(self.aconn))

    def _existing(self) -> list[str]:
        return [row[0] for row in self.conn.execute("SELECT key FROM rota.schedule ORDER BY key")]

    def _with(self, state: str) -> list[str]:
        return [key for key in self._existing() if any(job.state == state for job in self.rows.live(key))]

    def _holds(self, key: str) -> bool:
        held = self.held[key]
        found = self.conn.execute(
            "SELECT FROM rota.job WHERE id = %s AND token = %s AND worker_id = %s", [held.id, held.token, held.worker]
        )
        return found.rowcount == 1

    def _concerns(self, key: str) -> bool:
        """Whether the row is the one whose job this is: it may have been deleted, and another made for the same key."""
        row = self.rows.row(key)
        return row is not None and row.job_id == self.held[key].id

    def _run(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self.loop.run(wait())

    # What must always be so

    @invariant()
    def a_row_has_a_time_or_a_job(self) -> None:
        stranded = self.conn.execute("SELECT key, enabled FROM rota.schedule WHERE (next_run_at IS NULL) <> (job_id IS NOT NULL)")
        assert stranded.fetchall() == []

    @invariant()
    def it_has_one_live_job_at_most_and_knows_it(self) -> None:
        rows = self.conn.execute(
            """SELECT s.key, s.job_id, array_remove(array_agg(j.id), NULL) FROM rota.schedule s
               LEFT JOIN rota.job j ON j.schedule_id = s.id GROUP BY s.id"""
        ).fetchall()
        assert [row for row in rows if row[2] != [id for id in [row[1]] if id is not None]] == []

    @invariant()
    def a_disabled_row_only_ends_what_it_has_begun(self) -> None:
        waiting = self.conn.execute(
            "SELECT s.key FROM rota.schedule s JOIN rota.job j ON j.id = s.job_id WHERE NOT s.enabled AND j.state <> 'running'"
        )
        assert waiting.fetchall() == []

    @invariant()
    def what_counts_is_counted(self) -> None:
        wrong = self.conn.execute(
            """SELECT key FROM rota.schedule WHERE consecutive_failures > failures
               OR (consecutive_failures > 0) <> (last_error IS NOT NULL)
               OR (failing_since IS NOT NULL) <> (consecutive_failures >= 7)"""
        )
        assert wrong.fetchall() == []


@pytest.mark.req("R01", "R02", "R03", "R04", "R05")
def test_every_life_keeps_the_rules(conn: psycopg.Connection[Any], dsn: str) -> None:
    with asyncio.Runner() as loop:
        aconn = loop.run(psycopg.AsyncConnection.connect(dsn, autocommit=True))
        try:
            attributes = {"conn": conn, "aconn": aconn, "loop": loop, "clock": Clock(conn), "seen": Counter[str]()}
            machine = type("Machine", (Lives,), attributes)
            run_machine(
                machine,
                settings=settings(max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)),
            )
            # To one that has not failed before, to one that has, and to one whose failures are told of.
            shown = {number: machine.seen[f"{number} failed"] for number in (1, 2, 7)}
            assert shown[1] >= 3, shown
            assert shown[2] >= 3, shown
            assert shown[7] >= 1, shown
        finally:
            loop.run(aconn.close())
