"""Alerts: raised from what happened and from how things stand, resolved when that is over, acknowledged by operators."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import datetime, timedelta
from time import monotonic

from psycopg.errors import DeadlockDetected, LockNotAvailable

from rota.config import AlertSettings
from rota.control.doctor.database import judge_holder, read_holders
from rota.control.words import describe_unknown, span
from rota.db.connection import AsyncConn, answer_within
from rota.errors import Conflict, NotFound, UsageError, did_you_mean
from rota.model.alert import KINDS, Alert, make_alert
from rota.model.ids import new_id
from rota.model.sanitize import clean_text
from rota.store import alerts as store
from rota.store.alerts import AlertRecord

LOOK_S = 5.0  # between two looks
HOLD_S = 20.0  # of the lock: when its owner dies, that long nobody looks
CONDITIONS_S = 15.0
ANSWER_WITHIN_S = 30.0
SIGNALS = 2000  # that are counted in one transaction
BATCHES = 10  # at a look
MAX_LIMIT = 1000
MAX_NOTE_CHARS = 1000

UNKNOWN_S = 60.0  # how long a task may be unknown before there is an alert

CONDITIONS = ("queue_stuck", "snapshot_held", "task_unknown")  # kinds that say how things stand: they are over when it is otherwise


class Watch:
    """Counts what has been told into alerts, and looks how things stand. Any number may do so; one at a time does."""

    name = "watch"

    def __init__(self, settings: AlertSettings | None = None) -> None:
        self._settings = settings or AlertSettings()
        self._owner = str(new_id())
        self._conditions_at = 0.0

    async def serve(self, conn: AsyncConn) -> None:
        """Looks every so often on this connection until it breaks."""
        while True:
            with answer_within(conn, ANSWER_WITHIN_S):
                await self.run_once(conn)
            await asyncio.sleep(LOOK_S)

    async def run_once(self, conn: AsyncConn) -> None:
        """Does what there is to do, unless somebody else is at it. What is locked is left for the next time."""
        with contextlib.suppress(LockNotAvailable, DeadlockDetected):
            if await store.take_lock(conn, owner=self._owner, hold_s=HOLD_S):
                await count_signals(conn)
                if monotonic() >= self._conditions_at:
                    self._conditions_at = monotonic() + CONDITIONS_S
                    await look_at_conditions(conn, self._settings)
                    await store.settle(conn)


async def count_signals(conn: AsyncConn, *, batch: int = SIGNALS) -> int:
    """Counts what has been told since the last look into alerts; how many times something was told.

    A signal goes away in the transaction that counts it: each is counted once, whoever is killed when.
    """
    total = 0
    for _ in range(BATCHES):
        async with conn.transaction():
            told = await store.take_signals(conn, limit=batch)
            if told:
                await store.raise_all(conn, [signals.alert() for signals in told])
        count = sum(signals.count for signals in told)
        total += count
        if count < batch:
            break
    return total


async def look_at_conditions(conn: AsyncConn, settings: AlertSettings) -> None:
    """Raises and resolves the alerts that say how things stand: queues that are behind, snapshots that are held, unknown tasks."""
    known = await store.active(conn, kinds=CONDITIONS)
    stuck, keep = await _stuck_queues(conn, settings, known)
    held = await _held_snapshots(conn, settings)
    unknown = await _unknown_tasks(conn)
    for kind, raised, kept in (
        ("queue_stuck", stuck, keep),
        ("snapshot_held", held, {alert.subject for alert in held}),
        ("task_unknown", unknown, {alert.subject for alert in unknown}),
    ):
        async with conn.transaction():
            news = [
                replace(alert, count=0 if (kind, alert.subject) in known else 1)
                for alert in raised
                if not known.get((kind, alert.subject), False)
            ]
            if news:
                await store.raise_all(conn, news)
            await store.resolve(conn, kind=kind, but=kept)


async def _stuck_queues(
    conn: AsyncConn, settings: AlertSettings, known: dict[tuple[str, str], bool]
) -> tuple[list[Alert], set[str]]:
    """Queues whose oldest job is too old, and those of which the alert stays."""
    limit = timedelta(seconds=settings.queue_age_s)
    stuck, keep = [], set()
    for name, age in await store.queue_ages(conn, age_s=settings.queue_age_s):
        if age > limit:
            summary = f"queue {name} is {span(age)} behind: its oldest job that is due has waited that long"
            stuck.append(make_alert("queue_stuck", name, "error", summary, {"age_s": round(age.total_seconds())}))
        # Half of it: a queue about as old as the limit would else open and close its alert all the time.
        if age > limit / 2 and (age > limit or ("queue_stuck", name) in known):
            keep.add(name)
    return stuck, keep


async def _held_snapshots(conn: AsyncConn, settings: AlertSettings) -> list[Alert]:
    found = []
    for holder in await read_holders(conn):
        # The text of its statement stays out of it: nobody knows what is in there.
        finding = judge_holder(replace(holder, query=None), too_old=timedelta(seconds=settings.snapshot_age_s))
        if finding is not None and finding.level == "fail":
            details = {"kind": holder.kind, "name": holder.name, "next": finding.next}
            found.append(make_alert("snapshot_held", f"{holder.kind} {holder.name}", "warning", finding.sentence, details))
    return found


async def _unknown_tasks(conn: AsyncConn) -> list[Alert]:
    """Tasks whose jobs wait because no live worker can run them."""
    found = {}
    for task, is_refused, age, queues in await store.unknown_tasks(conn, age_s=UNKNOWN_S):
        summary = f"{describe_unknown(task, is_refused)}: jobs have waited for {span(age)}"
        details = {"queues": queues, "age_s": round(age.total_seconds()), "next": "deploy workers with the code that has it"}
        found[task] = make_alert("task_unknown", task, "error", summary, details)
    return list(found.values())


async def list_alerts(
    conn: AsyncConn, *, all: bool = False, kind: str | None = None, before: tuple[datetime, int] | None = None, limit: int = 100
) -> list[AlertRecord]:
    """The open alerts, or all of them; those that were seen last come first. `before` is the time and id of the last one seen."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    if kind is not None:
        check_kind(kind)
    return await store.read_all(conn, all=all, kind=kind, before=before, limit=limit)


async def get_alert(conn: AsyncConn, id: int) -> AlertRecord:
    """One alert."""
    if (alert := await store.get(conn, id)) is None:
        raise NotFound(f"there is no alert {id}: `rota alerts list --all` shows those there are; old ones may have been pruned")
    return alert


async def acknowledge(conn: AsyncConn, id: int, *, by: str, note: str | None = None) -> AlertRecord:
    """Says that somebody knows of it: it is listed no more, and still counted. When it is over and comes back, it opens again."""
    if note is not None and len(note) > MAX_NOTE_CHARS:
        raise UsageError(f"note is {len(note)} characters long: at most {MAX_NOTE_CHARS}")
    alert = await store.acknowledge(conn, id, by=clean_text(by, 200), note=None if note is None else clean_text(note))
    if alert is None:
        await get_alert(conn, id)
        raise Conflict(f"alert {id} is resolved already: there is nothing to acknowledge")
    return alert


def check_kind(kind: str) -> None:
    """Refuses a kind that no alert has."""
    if kind not in KINDS:
        raise UsageError(f"there is no kind {kind!r} of alerts: {did_you_mean(kind, KINDS, 'the kinds are ' + ', '.join(KINDS))}")
