"""Alerts: signals that become them, and what operators see of them. One function per SQL block, connection first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from psycopg.rows import class_row

from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.alert import Alert, Signals

SQL = queries.load("alerts")


@dataclass(frozen=True, slots=True)
class AlertRecord:
    """An alert as it is stored."""

    id: int
    kind: str
    subject: str
    fingerprint: str
    severity: str
    summary: str
    details: dict[str, Any]
    state: str
    count: int
    times_opened: int
    first_seen_at: datetime
    last_seen_at: datetime
    opened_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    note: str | None
    resolved_at: datetime | None


async def take_lock(conn: AsyncConn, *, owner: str, hold_s: float) -> bool:
    """Takes or keeps the lock of the one who looks after alerts; False if another has it."""
    row = await (await conn.execute(SQL["alerts_lock"], {"owner": owner, "hold_s": hold_s})).fetchone()
    return bool(row and row[0])


async def signal(conn: AsyncConn, kind: str, subject: str, details: dict[str, Any], *, fingerprint: str = "") -> None:
    """Tells that something has happened, in the transaction in which it did; an alert counts it soon."""
    text = orjson.dumps(details, default=str).decode()
    await conn.execute(SQL["alerts_signal"], {"kind": kind, "subject": subject, "fingerprint": fingerprint, "details": text})


async def take_signals(conn: AsyncConn, *, limit: int) -> list[Signals]:
    """Removes the oldest signals, to be counted in the same transaction; grouped by the trouble they tell of."""
    async with conn.cursor(row_factory=class_row(Signals)) as cursor:
        await cursor.execute(SQL["alerts_take_signals"], {"limit": limit})
        return await cursor.fetchall()


async def raise_all(conn: AsyncConn, alerts: Sequence[Alert]) -> int:
    """Counts these alerts, and enqueues messages about those that open by it; how many did."""
    rows = [
        {
            "kind": alert.kind,
            "subject": alert.subject,
            "fingerprint": alert.fingerprint,
            "severity": alert.severity,
            "summary": alert.summary,
            "details": alert.details,
            "count": alert.count,
            "first_at": alert.first_at,
            "last_at": alert.last_at,
        }
        for alert in alerts
    ]
    cursor = await conn.execute(SQL["alerts_raise"], {"alerts": orjson.dumps(rows, default=str).decode()})
    return sum(opened for _, opened in await cursor.fetchall())


async def active(conn: AsyncConn, *, kinds: Collection[str]) -> dict[tuple[str, str], bool]:
    """The conditions that are known to hold, each with whether that was said just now."""
    rows = await (await conn.execute(SQL["alerts_active"], {"kinds": list(kinds)})).fetchall()
    return {(kind, subject): is_fresh for kind, subject, is_fresh in rows}


async def queue_ages(conn: AsyncConn, *, age_s: float) -> list[tuple[str, timedelta]]:
    """How long the oldest due job of each queue that is not paused has waited."""
    return await (await conn.execute(SQL["alerts_queue_ages"], {"age_s": age_s})).fetchall()


async def unknown_tasks(conn: AsyncConn, *, age_s: float) -> list[tuple[str, bool, timedelta, list[str]]]:
    """Tasks whose jobs no live worker has been able to run for so long: (task, whether payloads were refused, how long, queues)."""
    return await (await conn.execute(SQL["alerts_unknown_tasks"], {"age_s": age_s})).fetchall()


async def resolve(conn: AsyncConn, *, kind: str, but: Collection[str]) -> int:
    """Ends the alerts of a kind, except for these subjects; how many."""
    return (await conn.execute(SQL["alerts_resolve"], {"kind": kind, "but": list(but)})).rowcount


async def settle(conn: AsyncConn) -> int:
    """Ends alerts whose trouble is over by what the rows say; how many."""
    return (await conn.execute(SQL["alerts_settle"])).rowcount


async def read_all(
    conn: AsyncConn, *, all: bool, kind: str | None, before: tuple[datetime, int] | None, limit: int
) -> list[AlertRecord]:
    """Alerts, those seen last first; unless `all`, only the open ones. `before` is when the last of a page was seen, and its id."""
    before_at, before_id = before or (None, None)
    values = {"all": all, "kind": kind, "before_at": before_at, "before_id": before_id, "limit": limit}
    async with conn.cursor(row_factory=class_row(AlertRecord)) as cursor:
        await cursor.execute(SQL["alerts_list"], values)
        return await cursor.fetchall()


async def get(conn: AsyncConn, id: int) -> AlertRecord | None:
    """One alert."""
    async with conn.cursor(row_factory=class_row(AlertRecord)) as cursor:
        await cursor.execute(SQL["alerts_get"], {"id": id})
        return await cursor.fetchone()


async def acknowledge(conn: AsyncConn, id: int, *, by: str, note: str | None) -> AlertRecord | None:
    """Marks an alert as seen; None if there is none of that number that is not resolved."""
    async with conn.cursor(row_factory=class_row(AlertRecord)) as cursor:
        await cursor.execute(SQL["alerts_acknowledge"], {"id": id, "by": by, "note": note})
        return await cursor.fetchone()


async def prune(conn: AsyncConn, *, days: int, limit: int) -> int:
    """Removes old alerts that were acknowledged or are over, and signals that nobody took; how many."""
    parameters = {"days": days, "limit": limit}
    alerts = (await conn.execute(SQL["alerts_prune"], parameters)).rowcount
    return alerts + (await conn.execute(SQL["alerts_prune_signals"], parameters)).rowcount
