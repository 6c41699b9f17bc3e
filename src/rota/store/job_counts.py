"""How many jobs there are by state: counts that end at a cap, estimates of what is beyond it, and the count in the background."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from psycopg import sql

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP, Capped
from rota.model.filters import FINISHED_STATES, JOB_STATES
from rota.model.task import SYSTEM_PREFIX
from rota.store.tasks_read import not_system

SQL = queries.load("job_counts")

QUEUED = ("queued", "delayed", "held")  # states of the table that operators see as one
WALK = 2 * COUNT_CAP  # finished jobs looked at


async def by_state(conn: AsyncConn) -> dict[str, Capped]:
    """Count jobs by state, system tasks left out: exactly while they are few, and about how many beyond that."""
    counts = await with_estimates(conn, {**await live(conn), **await finished(conn)})
    counts["queued"] = Capped.sum(counts.pop(state) for state in QUEUED)
    return {state: counts[state] for state in JOB_STATES}


async def live(conn: AsyncConn, *, cap: int = COUNT_CAP, system: bool = False) -> dict[str, Capped]:
    """Count live jobs by state of the table, up to the cap; system tasks only if asked for."""
    match = sql.SQL("true") if system else not_system(sql.Identifier("task"))
    rows = await conn.execute(sql.SQL(SQL["job_counts_live"]).format(match=match), {"cap": cap})
    return {state: Capped.at(count, cap) for state, count in await rows.fetchall()}


async def finished(conn: AsyncConn) -> dict[str, Capped]:
    """Count finished jobs by state, up to the cap and without system tasks."""
    statement = sql.SQL(SQL["job_counts_finished"]).format(match=not_system(sql.Identifier("task")))
    rows = await conn.execute(statement, {"walk": WALK})
    return {state: Capped(min(count, COUNT_CAP), cut or count > COUNT_CAP) for state, count, cut in await rows.fetchall()}


async def with_estimates(
    conn: AsyncConn, counts: dict[str, Capped], *, task: str | None = None, queue: str | None = None
) -> dict[str, Capped]:
    """Put estimates where counts by state are capped: of one task, of one queue, or of all but system tasks."""
    cut = [state for state, count in counts.items() if count.capped]
    estimates = await _kept(conn, task, queue) if any(state not in FINISHED_STATES for state in cut) else {}
    if "delayed" not in counts:  # counted with those that are queued
        estimates["queued"] = sum(estimates.pop(state, 0) for state in QUEUED)
    if planned := [state for state in cut if state in FINISHED_STATES]:
        estimates |= await _planned(conn, planned, task, queue)
    return {state: count.or_about(estimates.get(state)) for state, count in counts.items()}


async def by_names(
    conn: AsyncConn, states: Collection[str], *, task: str | None = None, queue: str | None = None
) -> tuple[Counter[str], Counter[str]]:
    """Estimate how many live jobs there are by task and by queue, as far as states have been counted in the background."""
    kept = [each for state in states for each in (QUEUED if state == "queued" else (state,))]
    match = _match(task, queue, not_system(sql.Identifier("task")))
    rows = await conn.execute(sql.SQL(SQL["job_counts_names"]).format(match=match), {"states": kept})
    tasks, queues = Counter[str](), Counter[str]()
    for of_task, of_queue, jobs in await rows.fetchall():
        tasks[of_task] += jobs
        queues[of_queue] += jobs
    return tasks, queues


async def take(conn: AsyncConn, owner: str) -> bool:
    """Take the turn to count in the background; False while another process counts, or has done so lately."""
    return await (await conn.execute(SQL["job_counts_take"], {"owner": owner})).fetchone() == (True,)


async def keep(conn: AsyncConn, states: Collection[str]) -> None:
    """Count the live jobs in these states of the table to the end, and keep that as the estimates."""
    async with conn.transaction():
        for setting in ("enable_seqscan", "enable_hashjoin"):  # it reads the whole table, which connections of the engine never do
            await conn.execute(sql.SQL("SET LOCAL {} = on").format(sql.Identifier(setting)))
        await conn.execute(SQL["job_counts_keep"], {"states": list(states)})


async def forget(conn: AsyncConn) -> None:
    """Forget the estimates: no state has too many jobs to count."""
    await conn.execute(SQL["job_counts_forget"])


async def rest(conn: AsyncConn, owner: str, rest_s: float) -> None:
    """Let nobody count in the background for so long."""
    await conn.execute(SQL["job_counts_rest"], {"owner": owner, "rest_s": rest_s})


async def _kept(conn: AsyncConn, task: str | None, queue: str | None) -> dict[str, int]:
    match = _match(task, queue, not_system(sql.Identifier("task")))
    return dict(await (await conn.execute(sql.SQL(SQL["job_counts_kept"]).format(match=match))).fetchall())


async def _planned(conn: AsyncConn, outcomes: Collection[str], task: str | None, queue: str | None) -> dict[str, int]:
    if await (await conn.execute(SQL["job_counts_analyzed"])).fetchone() != (True,):
        return {}
    # The planner estimates by values that it sees, not by those that a subquery would find.
    system = [name for (name,) in await (await conn.execute(SQL["job_counts_system"], {"prefix": SYSTEM_PREFIX})).fetchall()]
    match = _match(task, queue, sql.SQL("task <> ALL ({})").format(system))
    estimates = {}
    for outcome in outcomes:
        statement = sql.SQL(SQL["job_counts_plan"]).format(outcome=outcome, match=match)
        row = await (await conn.execute(statement)).fetchone()
        assert row is not None
        estimates[outcome] = int(row[0][0]["Plan"]["Plan Rows"])
    return estimates


def _match(task: str | None, queue: str | None, ours: sql.Composable) -> sql.Composable:
    parts = [sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in (("task", task), ("queue", queue)) if value]
    return sql.SQL(" AND ").join([*parts, ours] if task is None else parts)
