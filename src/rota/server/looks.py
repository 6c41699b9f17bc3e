"""What has changed between two looks at the database: what the live stream tells of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rota.db.connection import AsyncConn
from rota.store import queues, stream
from rota.store.stream import Row

CAP = 1000  # up to which jobs of a queue are counted: lists say more, for who asks
RECENT = 50  # jobs that are looked at, and as many runs
MOST = 500  # of anything else
MOST_TOLD = 100  # in one message; beyond that it says that there is more

# Each kind of message, and the operation that somebody must be allowed to be told of it.
KINDS: Mapping[str, str] = {
    "queues": "queues.read",
    "jobs": "jobs.read",
    "runs": "runs.read",
    "workers": "workers.read",
    "alerts": "alerts.read",
    "schedules": "schedules.read",
    "tasks": "tasks.read",
}
_PASSING = frozenset({"jobs"})  # of which only the newest are seen: one that is no longer seen is not gone


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one instant, by kind and key; and what workers had counted since the look before it."""

    at: datetime
    seen: Mapping[str, Mapping[Any, Row]]
    outcomes: list[Row] = field(default_factory=list)


async def look(conn: AsyncConn, before: Look | None) -> Look:
    """Looks once: a handful of small statements."""
    at = await stream.now(conn)
    newest = [*await stream.runs(conn, limit=RECENT), *await stream.jobs(conn, limit=RECENT)]
    seen = {
        "queues": {row.name: _counts(row) for row in await queues.read_all(conn, cap=CAP)},
        "jobs": _latest(newest),
        "workers": {row["id"]: row for row in await stream.workers(conn, limit=MOST)},
        "alerts": {row["id"]: row for row in await stream.alerts(conn, limit=MOST)},
        "schedules": {row["name"]: row for row in await stream.schedules(conn, limit=MOST)},
        "tasks": {row["name"]: row for row in await stream.tasks(conn, limit=MOST)},
    }
    outcomes = await stream.outcomes(conn, since=before.at, until=at, limit=MOST) if before else []
    return Look(at, seen, outcomes)


def changes(before: Look, after: Look) -> dict[str, dict[str, Any]]:
    """The messages that tell what is different, by kind; none of a kind of which nothing is."""
    messages: dict[str, dict[str, Any]] = {}
    for kind, rows in after.seen.items():
        known = before.seen[kind]
        changed = [row for key, row in rows.items() if known.get(key) != row]
        gone = [] if kind in _PASSING else [key for key in known if key not in rows]
        if changed or gone:
            more = len(changed) > MOST_TOLD or len(gone) > MOST_TOLD or (kind in _PASSING and len(changed) >= RECENT)
            messages[kind] = {"changed": changed[:MOST_TOLD], "gone": gone[:MOST_TOLD], "more": more}
    if after.outcomes:
        messages["runs"] = {"changed": after.outcomes[:MOST_TOLD], "gone": [], "more": len(after.outcomes) > MOST_TOLD}
    return messages


def _counts(row: queues.QueueRow) -> Row:
    counts = {state: min(getattr(row, state).count, CAP) for state in ("ready", "delayed", "held", "waiting", "running")}
    return {"name": row.name, "paused": row.paused_at is not None, **counts, "cap": CAP}


def _latest(rows: list[Row]) -> dict[Any, Row]:
    """The row of each job's latest attempt; a job that is live comes after its runs, and has the last word."""
    latest: dict[Any, Row] = {}
    for row in rows:
        known = latest.get(row["id"])
        if known is None or row["attempt"] >= known["attempt"]:
            latest[row["id"]] = row
    return latest
