"""Recurring rows for tests: made, fired, claimed and ended by the same SQL that workers and schedulers use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row

from rota.model.ids import new_id
from rota.store import runs, schedules

HOUR = timedelta(hours=1)
POLICY = {"base": 60, "cap": 3600, "jitter": 0}
WORKER = new_id()


class Held:
    """A job of a row that somebody has claimed."""

    def __init__(self, id: UUID, token: int, worker: UUID = WORKER) -> None:
        self.id = id
        self.token = token
        self.worker = worker


class Rows:
    """The recurring rows of one task."""

    def __init__(self, conn: psycopg.Connection[Any], task: str = "fetch") -> None:
        self.conn = conn
        self.task = task

    def ensure(
        self,
        key: str = "a",
        *,
        payload: Mapping[str, Any] | None = None,
        every: timedelta = HOUR,
        retry: Mapping[str, Any] = POLICY,
        history: bool = False,
        first_run_at: datetime | None = None,
    ) -> UUID:
        """Make sure of a row, as `ensure` does."""
        row = self.conn.execute(
            "SELECT schedule_id FROM rota.ensure_recurring(%s, %s, %s::text::json, %s, %s, %s::text::json, %s)",
            [self.task, key, json.dumps(payload or {}), every, first_run_at, json.dumps(retry), history],
        ).fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]

    def set(self, key: str, enabled: bool) -> Any:
        """Enable or disable a row: its new next time, as one value."""
        row = self.conn.execute("SELECT next_run_at FROM rota.set_recurring(%s, %s, %s)", [self.task, key, enabled]).fetchone()
        assert row is not None, f"no row {key}"
        return row[0]

    def row(self, key: str = "a") -> Any:
        """Read a row."""
        cursor = self.conn.cursor(row_factory=namedtuple_row)
        return cursor.execute("SELECT * FROM rota.schedule WHERE task = %s AND key = %s", [self.task, key]).fetchone()

    def fire(self, limit: int = 500) -> int:
        """Enqueue the jobs of due rows, as a scheduler does; how many."""
        parameters = {"apps": ["default"], "limit": limit, "id_time": str(new_id())[: schedules.ID_TIME]}
        row = self.conn.execute(schedules.SQL["schedules_fire_recurring"], parameters).fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]

    def heal(self) -> int:
        """Free rows whose job is gone; how many."""
        row = self.conn.execute(schedules.SQL["schedules_heal"], {"after": UUID(int=0), "limit": 5000}).fetchone()
        assert row is not None
        return row[1]  # type: ignore[no-any-return]

    def live(self, key: str = "a") -> list[Any]:
        """The live jobs of a row, however it came by them."""
        cursor = self.conn.cursor(row_factory=namedtuple_row)
        return cursor.execute(
            "SELECT j.* FROM rota.job j JOIN rota.schedule s ON s.id = j.schedule_id WHERE s.task = %s AND s.key = %s",
            [self.task, key],
        ).fetchall()

    def claim(self, key: str = "a", *, lease_s: float = 300.0, worker: UUID = WORKER) -> Held:
        """Claim the row's job, which is ready, for a worker that does nothing with it."""
        row = self.conn.execute(
            """UPDATE rota.job SET state = 'running', worker_id = %s, token = token + 1, attempt = attempt + 1,
                      claimed_at = rota.now(), lease_until = rota.now() + make_interval(secs => %s)
               WHERE id = (SELECT job_id FROM rota.schedule WHERE task = %s AND key = %s) AND state = 'queued'
               RETURNING id, token""",
            [worker, lease_s, self.task, key],
        ).fetchone()
        assert row is not None, f"row {key} has no job that is ready"
        return Held(*row, worker)

    def run(self, key: str = "a") -> Held:
        """Fire the row, which is due, and claim its job."""
        assert self.fire() >= 1
        return self.claim(key)

    def finish(
        self,
        held: Held,
        outcome: str = "completed",
        *,
        delay: timedelta | None = None,
        next_at: datetime | None = None,
        error: str | None = None,
    ) -> str | None:
        """End a claimed run the slow way: the state the job is in then, None when it was not ours."""
        row = self.conn.execute(
            "SELECT rota.finish_run(%s, %s, %s, %s, 0, 0, %s::text::json, NULL, %s, true, %s)",
            [held.id, held.token, held.worker, outcome, error and json.dumps({"message": error}), delay, next_at],
        ).fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]

    def complete(self, *held: Held, delay: timedelta | None = None, next_at: datetime | None = None) -> int:
        """Complete claimed runs in the lane for many; how many were ours."""
        delay_us = None if delay is None else delay // timedelta(microseconds=1)
        held = tuple(sorted(held, key=lambda each: each.id))
        row = self.conn.execute(
            runs.SQL["runs_complete_scheduled"],
            {
                "worker": held[0].worker,
                "count": len(held),
                "ids": [each.id for each in held],
                "tokens": [each.token for each in held],
                "waited_us": [0 for _ in held],
                "took_us": [0 for _ in held],
                "results": None,
                "delays_us": [delay_us for _ in held],
                "next_ats": [next_at for _ in held],
            },
        ).fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]

    def history(self) -> list[str]:
        """How the recorded runs of all rows ended."""
        rows = self.conn.execute("SELECT outcome FROM rota.run WHERE task = %s ORDER BY job_id, attempt", [self.task])
        return [row[0] for row in rows]
