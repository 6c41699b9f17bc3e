"""What jobs there are, by state, task and queue, and the names that a search can be completed with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from psycopg import sql

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.filters import JobFilter
from rota.store import job_conditions as conditions
from rota.store.tasks_read import not_system

SQL = queries.load("facets")

Kind = Literal["running", "live", "failed", "finished"]  # failed: and canceled; live: but for those that run


@dataclass(frozen=True, slots=True)
class Facets:
    """How many jobs were looked at, and of those that match how many there are by state, task and queue."""

    scanned: int
    states: dict[str, int]
    tasks: dict[str, int]
    queues: dict[str, int]


async def jobs(conn: AsyncConn, kind: Kind, filter: JobFilter, *, states: Collection[str], window: int, shown: int) -> Facets:
    """Looks through at most `window` jobs of one kind, the newest first; tasks and queues are counted of those in `states`."""
    is_live = kind in ("running", "live")
    scan = [*conditions.ids_and_times("id" if is_live else "job_id", filter), *conditions.ours(filter), sql.SQL("true")]
    match = conditions.matches(filter)
    if filter.owner is not None:
        scan.append(sql.SQL("owner = %(owner)s"))
    if filter.key is not None:
        by_key = "id IN (SELECT k.job_id FROM rota.job_key k WHERE k.key = %(key)s)" if is_live else "key = %(key)s"
        scan.append(sql.SQL(by_key))
    if filter.fingerprint is not None and is_live:
        match.append(sql.SQL("error IS NOT NULL AND rota.fingerprint(task, error) = %(fingerprint)s"))
    elif filter.fingerprint is not None:
        scan.append(sql.SQL("fingerprint = %(fingerprint)s"))
    if not is_live and filter.exact_task is not None and filter.key is filter.fingerprint is filter.owner is None:
        scan.append(sql.SQL("task = %(task)s"))  # there is an index for it
    every = sql.SQL(" AND ")
    payload = every.join(conditions.payload_matches(filter))
    statement = sql.SQL(SQL["facets_jobs"]).format(
        scanned=sql.SQL(SQL[f"facets_{kind}"]).format(payload=payload, scan=every.join(scan)),
        match=every.join(match or [sql.SQL("true")]),
        states=conditions.one_of("state", list(states)) if states else sql.SQL("false"),
    )
    parameters = {**conditions.parameters(filter), "window": window, "shown": shown}
    row = await (await conn.execute(statement, parameters)).fetchone()
    assert row is not None
    return Facets(*row)


async def task_names(conn: AsyncConn, *, text: str, limit: int) -> list[str]:
    """Tasks, without Rota's own, that have the text in their names."""
    statement = sql.SQL(SQL["facets_tasks"]).format(ours=not_system(sql.Identifier("name")))
    return [name for (name,) in await (await conn.execute(statement, {"text": text, "limit": limit})).fetchall()]


async def queue_names(conn: AsyncConn, *, text: str, limit: int) -> list[str]:
    """Queues that have the text in their names."""
    parameters = {"text": text, "limit": limit}
    return [name for (name,) in await (await conn.execute(SQL["facets_queues"], parameters)).fetchall()]
