"""Logs: what handlers say, written in batches and fenced like everything else about a run."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.run import Run

SQL = queries.load("logs")


class Line(NamedTuple):
    """One line of a run; what is in it is safe to store."""

    run: Run
    at: float  # by the monotonic clock
    sequence: int
    level: int
    message: str
    fields: bytes | None  # JSON


async def write(conn: AsyncConn, *, worker: UUID, lines: Sequence[Line], again: bool = False) -> int:
    """Stores the lines of runs that are this worker's; says how many lines were not. `again`: some may be stored already."""
    now = monotonic()
    places: dict[Run, int] = {}
    rows = []
    for run, at, sequence, level, message, fields in lines:
        place = places.get(run)
        if place is None:
            place = places[run] = len(places) + 1
        rows.append({
            "place": place, "age": int((now - at) * 1e6), "task": run.task, "id": run.id, "attempt": run.attempt,
            "sequence": sequence, "level": level, "message": message,
            "fields": None if fields is None else orjson.Fragment(fields),
        })  # fmt: skip
    runs = [{"place": place, "id": run.id, "attempt": run.attempt, "token": run.token} for run, place in places.items()]
    values = {"worker": worker, "again": again, "lines": _text(rows), "runs": _text(runs)}
    row = await (await conn.execute(SQL["logs_write"], values)).fetchone()
    assert row is not None
    ours: list[bool] = row[0]
    return 0 if all(ours) else sum(not ours[places[line.run] - 1] for line in lines)


async def show_progress(conn: AsyncConn, *, worker: UUID, progress: Sequence[tuple[Run, str]]) -> set[str]:
    """Stores how far runs have come; the ids of those that were this worker's."""
    rows = [
        {"id": run.id, "attempt": run.attempt, "token": run.token, "progress": orjson.Fragment(text)}
        for run, text in sorted(progress, key=lambda each: each[0].id)
    ]
    cursor = await conn.execute(SQL["logs_show_progress"], {"worker": worker, "runs": _text(rows)})
    return {id for (id,) in await cursor.fetchall()}


async def make_partitions(conn: AsyncConn) -> None:
    """Makes the partitions of the days ahead."""
    await conn.execute(SQL["logs_make_partitions"])


def _text(rows: list[dict[str, Any]]) -> str:
    return orjson.dumps(rows).decode()
