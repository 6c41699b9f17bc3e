"""History for tests of what removes it: runs and lines of any age, and what is left of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from rota.config import RetentionSettings
from rota.control.retention import Turn

# An id of that age, as it would have been made then.
_ID = "CAST(overlay(CAST(gen_random_uuid() AS text) PLACING left(CAST(rota.uuid7_floor({at}) AS text), 15) FROM 1) AS uuid)"


class History:
    """The finished jobs of one database."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn

    def fill(self, count: int, *, age: timedelta, task: str = "work", outcome: str = "completed") -> list[UUID]:
        """Store so many finished jobs that were made and ended that long ago."""
        rows = self.conn.execute(
            f"""INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, started_at, finished_at, payload, priority,
                                      run_at, token, max_attempts, created_at)
                SELECT {_ID.format(at="t.at")}, 1, %(task)s, 'default', %(outcome)s, true, t.at, t.at, '{{}}', 0, t.at, 1, 4, t.at
                FROM (SELECT rota.now() - %(age)s AS at) t, generate_series(1, %(count)s)
                RETURNING job_id""",
            {"task": task, "outcome": outcome, "age": age, "count": count},
        ).fetchall()
        return [id for (id,) in rows]

    def attempt(self, id: UUID, number: int, *, age: timedelta, task: str = "work") -> None:
        """Store an attempt at a job that was not its last."""
        self.conn.execute(
            """INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at)
               VALUES (%s, %s, %s, 'default', 'failed', false, rota.now() - %s)""",
            [id, number, task, age],
        )

    def say(self, id: UUID, *, age: timedelta, task: str = "work", lines: int = 1) -> None:
        """Store lines of a job's log."""
        self.conn.execute(
            """INSERT INTO rota.log (at, task, job_id, attempt, sequence, level, message)
               SELECT rota.now() - %s, %s, %s, 1, n, 20, 'said' FROM generate_series(1, %s) n""",
            [age, task, id, lines],
        )

    def partition(self, table: str, *, age: timedelta) -> str:
        """Make the partition that a row of that age belongs to; its name."""
        unit, hours = ("week", 168) if table == "run" else ("day", 24)
        row = self.conn.execute(
            f"SELECT date_trunc('{unit}', (rota.now() - %s) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'", [age]
        ).fetchone()
        assert row is not None
        low = row[0]
        [(name,)] = self.conn.execute(
            "SELECT %s || to_char(%s::timestamptz AT TIME ZONE 'UTC', 'YYYYMMDD')", [f"{table}_", low]
        ).fetchall()
        bound = "rota.uuid7_floor({})" if table == "run" else "{}"
        values = [
            self.conn.execute(f"SELECT {bound.format('%s::timestamptz')}::text", [at]).fetchone()
            for at in (low, low + timedelta(hours=hours))
        ]
        first, last = (value[0] for value in values if value is not None)
        self.conn.execute(
            f"CREATE TABLE IF NOT EXISTS rota.{name} PARTITION OF rota.{table} FOR VALUES FROM ('{first}') TO ('{last}')"
        )
        return str(name)

    def has(self, table: str) -> bool:
        """Whether there is a table of that name."""
        return self.conn.execute("SELECT to_regclass('rota.' || %s) IS NOT NULL", [table]).fetchone() == (True,)

    def kept(self, *ids: UUID) -> set[UUID]:
        """Which of these jobs have a final run."""
        rows = self.conn.execute("SELECT job_id FROM rota.run WHERE final AND job_id = ANY (%s)", [list(ids)]).fetchall()
        return {id for (id,) in rows}

    def lines(self, id: UUID) -> int:
        """How many lines a job's log has."""
        row = self.conn.execute("SELECT count(*) FROM rota.log WHERE job_id = %s", [id]).fetchone()
        assert row is not None
        return int(row[0])

    def count(self, table: str = "rota.run") -> int:
        """How many rows a table has."""
        row = self.conn.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert row is not None
        return int(row[0])


async def prune(aconn: psycopg.AsyncConnection[Any], *, batch: int = 1000, part_s: float = 15.0, **settings: Any) -> dict[str, int]:
    """One turn of pruning, without rests."""
    return await Turn(aconn, RetentionSettings(**settings), batch=batch, part_s=part_s, rest=0.0).run()
