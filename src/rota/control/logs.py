"""What handlers have said: lists, searches, and what they say now."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol
from uuid import UUID

from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.model.log_filter import LogFilter
from rota.store import logs_read
from rota.store.logs_read import LogLine, Place

MAX_LIMIT = 1000
SCAN_WINDOW = 2000  # of the newest lines, looked through one by one: what is frequent is found there, tens of milliseconds
FOLLOW_S = 1.0
FOLLOW_BACK_S = 30.0  # lines come a few seconds after they were said, and not in the order of their time
NEWEST = Place(datetime(9999, 1, 1, tzinfo=UTC), UUID(int=2**128 - 1), 2**63 - 1, 2**31 - 1)


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some lines, the newest first; `next` is where the following page begins, None when there is none."""

    lines: list[LogLine]
    next: Place | None


class Read(Protocol):
    """Reads the newest lines that match."""

    async def __call__(self, filter: LogFilter, *, limit: int) -> LogPage:
        """At most so many."""
        ...


@dataclass(frozen=True, slots=True)
class NewLines:
    """Lines in their order, some of which may have been told before, and when to ask for more from."""

    lines: list[LogLine]
    next: datetime


async def list_logs(conn: AsyncConn, filter: LogFilter | None = None, *, before: Place | None = None, limit: int = 100) -> LogPage:
    """The newest lines that match, or those before a place."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    filter, before = filter or LogFilter(), before or NEWEST
    if filter.job_id is not None:
        lines = await logs_read.last_of_run(conn, filter, before=(before.attempt, before.sequence), limit=limit + 1)
    elif filter.text:
        lines = await _search(conn, filter, before, limit + 1)
    else:
        lines = (await logs_read.scan(conn, filter, before=before, window=limit + 1, limit=limit + 1)).lines
    more = len(lines) > limit
    return LogPage(lines[:limit], lines[limit - 1].place if more else None)


async def _search(conn: AsyncConn, filter: LogFilter, before: Place, limit: int) -> list[LogLine]:
    """Frequent words among the newest lines, rare ones by the index of words: each way is slow for the other kind."""
    newest = await logs_read.scan(conn, filter, before=before, window=SCAN_WINDOW, limit=limit)
    lines = newest.lines
    if len(lines) >= limit or newest.scanned < SCAN_WINDOW or newest.reached is None:
        return lines
    before = newest.reached
    # A day at a time: of a word that all days are full of, those of one day are enough.
    days = [day for day in await logs_read.days(conn) if day <= before.at]
    if isinstance(filter.since, timedelta):
        days = []  # when that was is for the database to say
    elif filter.since is not None:
        days = [day for day in days if day > filter.since]
    for day in days:
        within = dataclasses.replace(filter, since=day)
        lines += await logs_read.find(conn, within, before=before, limit=limit - len(lines))
        if len(lines) >= limit:
            return lines
        before = Place(day, UUID(int=0), 0, 0)
    return lines + await logs_read.find(conn, filter, before=before, limit=limit - len(lines))


async def last_lines(conn: AsyncConn, job_id: UUID, *, limit: int = 20) -> list[LogLine]:
    """The last lines of a job, in their order."""
    return (await list_logs(conn, LogFilter(job_id=job_id), limit=limit)).lines[::-1]


async def new_lines(conn: AsyncConn, filter: LogFilter, *, since: datetime | None, limit: int) -> NewLines:
    """The lines since a look (at first, the last ones), for those who ask again and again. Lines come late and not in the order of
    their time, so each answer goes back somewhat; job, attempt and sequence tell what has been seen."""
    now = await logs_read.now(conn)
    if since is not None:
        filter = dataclasses.replace(filter, since=since - timedelta(seconds=FOLLOW_BACK_S))
    return NewLines((await list_logs(conn, filter, limit=limit)).lines[::-1], now)


def follow_logs(conn: AsyncConn, filter: LogFilter, *, last: int = 10, every_s: float = FOLLOW_S) -> AsyncGenerator[LogLine, None]:
    """The last lines that match, and then those that come, until nobody wants more."""
    return follow(partial(list_logs, conn), filter, last=last, every_s=every_s)


async def follow(read: Read, filter: LogFilter, *, last: int = 10, every_s: float = FOLLOW_S) -> AsyncGenerator[LogLine, None]:
    """The same by whatever reads lines: a connection, the control plane, the API."""
    seen: dict[tuple[UUID, int, int], datetime] = {}
    page = await read(filter, limit=last)
    while True:
        for line in reversed(page.lines):
            if (key := (line.job_id, line.attempt, line.sequence)) not in seen:
                seen[key] = line.at
                yield line
        await asyncio.sleep(every_s)
        if seen:
            oldest = max(seen.values()) - timedelta(seconds=2 * FOLLOW_BACK_S)
            seen = {key: at for key, at in seen.items() if at >= oldest}
        page = await read(dataclasses.replace(filter, since=timedelta(seconds=FOLLOW_BACK_S)), limit=MAX_LIMIT)
