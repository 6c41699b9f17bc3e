"""Jobs, workers and queues for tests of what operators see: plain rows, moved by the same SQL that the engine uses."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from rota.contrib.testing.clock import Clock
from rota.control import service
from rota.model.filters import JobFilter
from rota.model.ids import new_id


def declare(conn: psycopg.Connection[Any], *tasks: str, queue: str = "default", max_attempts: int = 4) -> None:
    """Make tasks, and their queue, known to the database."""
    conn.execute("INSERT INTO rota.queue (name) VALUES (%s) ON CONFLICT DO NOTHING", [queue])
    for task in tasks:
        conn.execute(
            "INSERT INTO rota.task (name, queue, priority, max_attempts, payload_schema) VALUES (%s, %s, 0, %s, '{}')",
            [task, queue, max_attempts],
        )


def enqueue(conn: psycopg.Connection[Any], task: str = "work", **options: Any) -> UUID:
    """Enqueue through the door for SQL; ids are in the order of the calls."""
    payload = json.dumps(options.pop("payload", {}))
    names = "".join(f", {name} => %({name})s" for name in options)
    row = conn.execute(
        f"SELECT rota.enqueue(%(task)s, %(payload)s::jsonb{names})", {"task": task, "payload": payload, **options}
    ).fetchone()
    assert row is not None
    while time.time_ns() // 1_000_000 <= row[0].int >> 80:
        pass  # an id is ordered by its millisecond: let the next call have another one
    return row[0]


def start_worker(
    conn: psycopg.Connection[Any],
    *,
    queues: tuple[str, ...] = ("default",),
    tasks: tuple[str, ...] = ("work",),
    slots: int = 4,
    seen_ago: timedelta = timedelta(0),
) -> UUID:
    """Register a worker without a session, as one behind a pooler is."""
    id = new_id()
    conn.execute(
        """INSERT INTO rota.worker (id, host, pid, version, queues, tasks, slots, seen_at)
           VALUES (%s, 'host-1', 4711, '0', %s, %s, %s, rota.now() - %s)""",
        [id, list(queues), list(tasks), slots, seen_ago],
    )
    return id


def claim(
    conn: psycopg.Connection[Any], worker: UUID, *, queue: str = "default", limit: int = 1, lease_s: float = 300
) -> list[tuple[UUID, int]]:
    """Claim jobs as the engine does: their ids and tokens, in the order of the claim."""
    rows = conn.execute(
        """UPDATE rota.job SET state = 'running', worker_id = %(worker)s, token = token + 1, attempt = attempt + 1,
                  claimed_at = rota.now(), updated_at = rota.now(), lease_until = rota.now() + make_interval(secs => %(lease_s)s)
           WHERE id = ANY (ARRAY(
               SELECT id FROM rota.job
               WHERE state = 'queued' AND queue = %(queue)s
                 AND NOT EXISTS (SELECT FROM rota.queue q WHERE q.name = %(queue)s AND q.paused_at IS NOT NULL)
               ORDER BY priority, run_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
           RETURNING priority, run_at, id, token""",
        {"worker": worker, "queue": queue, "limit": limit, "lease_s": lease_s},
    ).fetchall()
    return [(id, token) for _, _, id, token in sorted(rows)]


def finish(
    conn: psycopg.Connection[Any],
    id: UUID,
    token: int,
    worker: UUID,
    outcome: str,
    *,
    error: str | None = None,
    delay: timedelta | None = timedelta(0),
    can_retry: bool = True,
) -> str | None:
    """End a run that took from its claim until now: the job's new state, None when the run was not this worker's to end."""
    text = None if error is None else json.dumps({"type": "ValueError", "message": error})
    row = conn.execute(
        """SELECT rota.finish_run(%(id)s, %(token)s, %(worker)s, %(outcome)s, 0, (
               SELECT extract(epoch FROM rota.now() - claimed_at)::float8 FROM rota.job WHERE id = %(id)s
           ), %(error)s, NULL, %(delay)s, %(can_retry)s)""",
        {"id": id, "token": token, "worker": worker, "outcome": outcome, "error": text, "delay": delay, "can_retry": can_retry},
    ).fetchone()
    assert row is not None
    return row[0]


def fail(conn: psycopg.Connection[Any], worker: UUID, *, error: str = "boom", queue: str = "default") -> UUID:
    """Let the next job of a queue fail for good."""
    [(id, token)] = claim(conn, worker, queue=queue)
    assert finish(conn, id, token, worker, "failed", error=error, can_retry=False) == "failed"
    return id


def move_clock(conn: psycopg.Connection[Any], by: timedelta) -> None:
    """Let the one clock that decides stand `by` from the server's."""
    clock = Clock(conn)
    clock.reset()
    clock.move(by)


async def list_ids(aconn: psycopg.AsyncConnection[Any], **filter: Any) -> list[UUID]:
    """List jobs by a filter, newest first."""
    return [job.id for job in (await service.list_jobs(aconn, JobFilter(**filter))).jobs]
