"""Runs: claiming jobs, ending attempts, holding and returning them. One function per SQL block, connection first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any
from uuid import UUID

import orjson
from psycopg.errors import LockNotAvailable

from rota.db import queries
from rota.db.connection import AsyncConn, Conn
from rota.db.steps import Query, Steps
from rota.errors import LeaseLost
from rota.model.limits import Limited
from rota.model.position import START, Position
from rota.model.run import Run
from rota.store.jobs_change import wait_briefly

SQL = queries.load("runs")

_by_id = attrgetter("id")


async def claim(
    conn: AsyncConn, *, worker: UUID, tasks: str, queue: str, limit: int, lease_s: float, after: Position = START, now: float = 0.0
) -> list[Run]:
    """Take up to `limit` ready jobs of a queue, in their order, of the tasks that the worker knows: an array as PostgreSQL writes
    it. `now` is the monotonic time of the call."""
    cursor = await conn.execute(
        SQL["runs_claim"],
        {
            "worker": worker,
            "tasks": tasks,
            "queue": queue,
            "limit": limit,
            "lease_s": lease_s,
            "priority": after.priority,
            "run_at": after.run_at,
            "id": after.id,
        },
        binary=True,
    )
    rows = await cursor.fetchall()
    rows.sort()
    return [
        Run(
            id, token, task, queue, priority, run_at, payload, attempt, most, details, (claimed_at - run_at).total_seconds(), now,
        )
        for priority, run_at, id, token, attempt, task, payload, most, claimed_at, details in rows
    ]  # fmt: skip


async def promote(conn: AsyncConn, *, limit: int = 1000) -> tuple[int, float | None, Limited]:
    """Makes ready what is due and within its limits; says how many, in how many seconds to look again, and what has limits."""
    row = await (await conn.execute(SQL["runs_promote"], {"limit": limit})).fetchone()
    assert row is not None
    moved, next_s, tasks, queues = row
    return moved, next_s, Limited(frozenset(tasks), frozenset(queues))


def _array(values: Iterable[object]) -> str:
    # An array literal of ids or numbers, which need no quoting: far cheaper than one adapted element by element.
    return "{" + ",".join(map(str, values)) + "}"


def _text_array(values: Iterable[str | None]) -> str:
    # The same for text: two passes in C over each, where psycopg takes one regular expression.
    return _array("NULL" if each is None else '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in values)


async def complete(conn: AsyncConn, *, worker: UUID, runs: Sequence[Run]) -> set[str]:
    """Records plain completions and tells the jobs that wait for them; the ids of those that were not ours."""
    runs = sorted(runs, key=_by_id)
    return await _complete(conn, "runs_complete", runs, _completions(worker, runs))


async def complete_scheduled(conn: AsyncConn, *, worker: UUID, runs: Sequence[Run]) -> set[str]:
    """The same for jobs of schedules, of which some wait for the end of theirs."""
    runs = sorted(runs, key=_by_id)
    asked = {
        "delays_us": _array("NULL" if run.delay_s is None else int(run.delay_s * 1e6) for run in runs),
        "next_ats": _array("NULL" if run.next_at is None else f'"{run.next_at.isoformat()}"' for run in runs),
    }
    return await _complete(conn, "runs_complete_scheduled", runs, _completions(worker, runs) | asked)


def _completions(worker: UUID, runs: Sequence[Run]) -> dict[str, Any]:
    results = [run.result for run in runs]
    return {
        "worker": worker,
        "count": len(runs),
        "ids": "{" + ",".join([run.id for run in runs]) + "}",
        "tokens": _array([run.token for run in runs]),
        "waited_us": _array([int((run.started - run.arrived) * 1e6) for run in runs]),
        "took_us": _array([int(run.took_s * 1e6) for run in runs]),
        "results": _text_array(results) if any(results) else None,
    }


async def _complete(conn: AsyncConn, statement: str, runs: Sequence[Run], parameters: dict[str, Any]) -> set[str]:
    row = await (await conn.execute(SQL[statement], parameters)).fetchone()
    assert row is not None
    count, completed = row[:2]
    return set() if count == len(runs) else {run.id for run in runs}.difference(completed or ())


async def finish(conn: AsyncConn, *, worker: UUID, runs: Iterable[Run]) -> dict[str, str | None]:
    """Records endings of any kind; the new state of each job by id, None where the lease was lost."""
    cursor = await conn.execute(SQL["runs_finish"], {"worker": worker, "runs": _endings(runs)})
    return dict(await cursor.fetchall())


async def locked(conn: AsyncConn, *, runs: Sequence[Run]) -> set[str]:
    """The ids of those whose jobs somebody's transaction has locked now."""
    cursor = await conn.execute(SQL["runs_locked"], {"ids": _array([run.id for run in runs])})
    return {row[0] for row in await cursor.fetchall()}


def _endings(runs: Iterable[Run]) -> str:
    endings = [
        {
            "id": run.id,
            "token": run.token,
            "attempt": run.attempt,
            "outcome": run.outcome,
            "waited": max(run.started - run.arrived, 0.0),
            "took": run.took_s,
            "error": run.error,
            "result": orjson.Fragment(run.result) if run.result is not None else None,
            "delay": run.delay_s,
            "next_at": run.next_at,
            "retryable": run.retryable,
        }
        for run in runs
    ]
    return orjson.dumps(endings).decode()


def renew(conn: Conn, *, worker: UUID, runs: Sequence[Run], lease_s: float) -> tuple[set[str], set[str]]:
    """Extends the leases of these runs; the ids of those that were, and of those that are no longer ours."""
    rows = conn.execute(SQL["runs_renew"], {"worker": worker, "lease_s": lease_s, **_held(runs)}).fetchall()
    return {id for id, renewed in rows if renewed}, {run.id for run in runs}.difference(id for id, _ in rows)


async def release(conn: AsyncConn, *, worker: UUID, runs: Sequence[Run]) -> None:
    """Returns unstarted jobs to the queue, uncharged, and wakes who may want them."""
    async with conn.transaction():
        released = await conn.execute(SQL["runs_release"], {"worker": worker, "hold": False, **_held(runs)})
        await _cancel_released(conn, await released.fetchall())
        await conn.execute("SELECT rota.wake()")


async def hold_back(conn: AsyncConn, *, worker: UUID, runs: Sequence[Run]) -> None:
    """Returns unstarted jobs, uncharged, to wait for a place within a limit that their task did not have when they came."""
    await conn.execute(SQL["runs_release"], {"worker": worker, "hold": True, **_held(runs)})


def _held(runs: Sequence[Run]) -> dict[str, Any]:
    return {"ids": _array([run.id for run in runs]), "tokens": _array([run.token for run in runs])}


async def release_unknown(conn: AsyncConn, *, worker: UUID, known: Collection[str], older_than_s: float) -> int:
    """Returns claims that this worker does not know it has."""
    parameters = {"worker": worker, "known": _array(known), "older_than_s": older_than_s}
    async with conn.transaction():
        released = await (await conn.execute(SQL["runs_release_unknown"], parameters)).fetchall()
        await _cancel_released(conn, released)
    return len(released)


async def _cancel_released(conn: AsyncConn, released: Sequence[tuple[str, bool]]) -> None:
    """Ends those that somebody wanted to stop: the next worker would start them before it hears of it."""
    if unwanted := [id for id, is_unwanted in released if is_unwanted]:
        with suppress(LockNotAvailable):  # a child of one is locked: then it is told by the next worker
            async with conn.transaction():
                await wait_briefly(conn)
                await conn.execute(SQL["runs_cancel_released"], {"ids": _array(unwanted)})


async def rescue(
    conn: AsyncConn, *, dead: Sequence[UUID] = (), batch: int = 500, rescuer: UUID | None = None
) -> list[tuple[UUID, str, str, int, UUID, str]]:
    """Takes jobs from dead workers and from others whose lease ran out: (job, task, queue, attempt, worker, new state)."""
    cursor = await conn.execute(SQL["runs_rescue"], {"dead": list(dead), "batch": batch, "rescuer": rescuer})
    return await cursor.fetchall()


async def cancel_requested(conn: AsyncConn, *, worker: UUID) -> list[tuple[str, int]]:
    """The (id, token) of this worker's running jobs that somebody wants to stop."""
    return await (await conn.execute(SQL["runs_cancel_requested"], {"worker": worker})).fetchall()


def hold(*, worker: UUID, run: Run) -> Steps[None]:
    """Locks the job of this run in a transaction of the handler's own; LeaseLost if it is no longer ours."""
    rows = yield Query(SQL["runs_hold"], (run.id, run.token, str(worker)))
    if not rows:
        raise LeaseLost(f"job {run.id} is no longer held by this worker")


def complete_within(*, worker: UUID, run: Run, took_s: float, result: str | None) -> Steps[None]:
    """Completes a run in the transaction of its handler; LeaseLost if it is no longer ours."""
    waited_s = max(run.started - run.arrived, 0.0)
    delay_s = None if run.delay_s is None else str(run.delay_s)
    next_at = None if run.next_at is None else run.next_at.isoformat()
    parameters = (run.id, run.token, str(worker), str(waited_s), str(took_s), result, delay_s, next_at)
    [[state]] = yield Query(SQL["runs_complete_within"], parameters)
    if state is None:
        raise LeaseLost(f"job {run.id} is no longer held by this worker; the transaction was rolled back")


async def forget_keys(conn: AsyncConn, *, limit: int) -> int:
    """Removes up to `limit` expired keys of jobs that have ended; says how many."""
    return (await conn.execute(SQL["runs_forget_keys"], {"limit": limit})).rowcount


async def forget_edits(conn: AsyncConn) -> None:
    """Removes some of the edits of jobs that are no longer in the history."""
    await conn.execute(SQL["runs_forget_edits"])


async def make_partitions(conn: AsyncConn) -> None:
    """Makes the history's partitions of the next weeks."""
    await conn.execute(SQL["runs_make_partitions"])
