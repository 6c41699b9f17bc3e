"""What will run by itself: the next times over all schedules, and a calendar of hours."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from time import monotonic
from uuid import UUID

from rota.control.schedule_views import words_of
from rota.control.words import moment
from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.model.capped import Capped
from rota.model.filters import check_text
from rota.model.hours import Hour, count_by_hour, count_runs, first_and_last, hours_of_days
from rota.model.schedule import Timing
from rota.model.zone import load_zone
from rota.store import calendar as store
from rota.store import schedule_reads
from rota.store.calendar import Next, Pile, Planned

MAX_UPCOMING = 100
MAX_DAYS = 31
YEARS = (2000, 2199)
LONGEST_HOUR = timedelta(days=2)
SCHEDULES_LOOKED_AT = 5000
WALK = 20_000  # recurring rows looked at, and as many jobs
PATIENCE_S = 0.4  # for counting; the next look finds most of it counted
SHOWN = 100  # schedules behind one hour
Date = date  # which a field named date hides
LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)
QUARTER_S = 900


@dataclass(frozen=True, slots=True)
class NextRun:
    """The next time of a schedule or recurring row."""

    at: datetime
    late: bool  # it is over, and nobody has fired it
    id: UUID
    name: str  # or task and key of a recurring row
    task: str
    kind: str  # cron, interval, init or recurring
    words: str
    resting: bool  # its task is disabled or in no code: it will pass this time over


@dataclass(frozen=True, slots=True)
class CalendarHour:
    """What will run in one hour of a day: runs of schedules, recurring rows and jobs that are enqueued already.

    One that the clocks jump over is not there; one that they show twice is longer. Of a recurring row only the next run is known.
    """

    hour: int
    begin: datetime
    end: datetime
    schedules: int
    recurring: int
    jobs: int


@dataclass(frozen=True, slots=True)
class CalendarDay:
    """The hours of a day, as the clocks show them."""

    date: Date
    hours: list[CalendarHour]


@dataclass(frozen=True, slots=True)
class Calendar:
    """What will run by hour and day, from now on; `caps` says in words what was not counted."""

    now: datetime
    tz: str
    days: list[CalendarDay]
    schedules: Capped
    complete: bool
    caps: list[str]


@dataclass(frozen=True, slots=True)
class PlannedRuns:
    """A schedule and its runs within a time."""

    id: UUID
    name: str
    task: str
    kind: str
    words: str
    runs: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class DueRows:
    """The recurring rows, or the jobs, of one task that are due within a time."""

    task: str
    count: Capped
    first: datetime  # to the quarter of an hour


@dataclass(frozen=True, slots=True)
class HourDetail:
    """What is behind an hour of the calendar; `more`: there are more schedules than shown, or rows than were looked at."""

    begin: datetime
    end: datetime
    schedules: list[PlannedRuns]
    recurring: list[DueRows]
    jobs: list[DueRows]
    more: bool


async def upcoming(conn: AsyncConn, *, system: bool = False, limit: int = 10) -> list[NextRun]:
    """The schedules and recurring rows that run next, each once."""
    if not 1 <= limit <= MAX_UPCOMING:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_UPCOMING}")
    return [_next_run(each) for each in await store.upcoming(conn, system=system, limit=limit)]


async def calendar(
    conn: AsyncConn,
    *,
    first: date | None = None,
    days: int = 7,
    tz: str = "UTC",
    task: str | None = None,
    system: bool = False,
    jobs: bool = True,
) -> Calendar:
    """What will run in each hour of some days, by default from today on; `task` is a name, or a pattern with * and ?."""
    zone = load_zone(tz)
    if not 1 <= days <= MAX_DAYS:
        raise UsageError(f"days={days!r} is out of range: from 1 to {MAX_DAYS}")
    check_text("task", task)
    now = await schedule_reads.now(conn)
    first = first or now.astimezone(zone).date()
    if not YEARS[0] <= first.year <= YEARS[1]:
        raise UsageError(f"from={first} is out of range: in the years {YEARS[0]} to {YEARS[1]}")
    if not (hours := hours_of_days(first, days, zone)):
        raise UsageError(f"from={first} is a day that {tz} has left out, by changing sides of the date line: give another")
    planned = await store.schedules(conn, task=task, system=system, limit=SCHEDULES_LOOKED_AT + 1)
    rows = await _due(conn, store.recurring, hours[0].begin, hours[-1].end, now, task, system)
    waiting = await _due(conn, store.jobs, hours[0].begin, hours[-1].end, now, task, system) if jobs else []
    # In a thread: others are served meanwhile.
    runs, counted = await asyncio.to_thread(_count, planned[:SCHEDULES_LOOKED_AT], hours, now)
    caps = _caps(planned, counted, rows, waiting)
    by_hour = _by_hour(hours, rows), _by_hour(hours, waiting)
    made: dict[date, list[CalendarHour]] = {}
    for n, hour in enumerate(hours):
        cell = CalendarHour(hour.hour, hour.begin, hour.end, runs[n], by_hour[0][n], by_hour[1][n])
        made.setdefault(hour.date, []).append(cell)
    shown = [CalendarDay(day, cells) for day, cells in made.items()]
    return Calendar(now, tz, shown, Capped.at(len(planned), SCHEDULES_LOOKED_AT), not caps, caps)


async def calendar_hour(
    conn: AsyncConn, begin: datetime, end: datetime, *, task: str | None = None, system: bool = False, jobs: bool = True
) -> HourDetail:
    """What is behind an hour of the calendar: the schedules by their first time, recurring rows and jobs by task."""
    for name, at in (("begin", begin), ("end", end)):
        if at.tzinfo is None or not YEARS[0] <= at.year <= YEARS[1] + 1:
            raise UsageError(f"{name}={at} is out of range: a time with a zone, in the years {YEARS[0]} to {YEARS[1]}")
    if not timedelta(0) < end - begin <= LONGEST_HOUR:
        raise UsageError(f"end={end} is out of range: after begin, and at most {LONGEST_HOUR.days} days after it")
    check_text("task", task)
    now = await schedule_reads.now(conn)
    planned = await store.schedules(conn, task=task, system=system, limit=SCHEDULES_LOOKED_AT + 1)
    rows = await _due(conn, store.recurring, begin, end, now, task, system)
    waiting = await _due(conn, store.jobs, begin, end, now, task, system) if jobs else []
    found, is_all = await asyncio.to_thread(_behind, planned[:SCHEDULES_LOOKED_AT], begin, end, now)
    more = len(found) > SHOWN or not is_all or len(planned) > SCHEDULES_LOOKED_AT or _cut(rows) or _cut(waiting)
    return HourDetail(begin, end, found[:SHOWN], _by_task(rows), _by_task(waiting), more)


def _next_run(each: Next) -> NextRun:
    record = each.record
    assert record.next_run_at is not None
    return NextRun(
        record.next_run_at, each.late, record.id, record.label, record.task, record.strategy, words_of(record), each.resting
    )


async def _due(
    conn: AsyncConn,
    read: Callable[..., Awaitable[list[Pile]]],
    begin: datetime,
    end: datetime,
    now: datetime,
    task: str | None,
    system: bool,
) -> list[Pile]:
    """What is due within a time; what is late runs now."""
    if end <= now:
        return []
    low = LONG_AGO if begin <= now else begin
    return await read(conn, task=task, system=system, begin=low, end=end, now=now, walk=WALK)


def _due_next(each: Planned, timing: Timing, now: datetime) -> datetime | None:
    """When a schedule fires next; None: never. The scheduler may not have come to compute it yet."""
    return each.next_run_at if each.next_run_at is not None or each.strategy == "init" else timing.first(now)


def _count(planned: list[Planned], hours: list[Hour], now: datetime) -> tuple[list[int], int]:
    """How often schedules fire in each hour, and how many schedules there was time for."""
    totals, end = [0] * len(hours), monotonic() + PATIENCE_S
    for n, each in enumerate(planned):
        if monotonic() > end:
            return totals, n
        timing = each.timing
        try:
            if (due := _due_next(each, timing, now)) is not None:
                totals = [total + more for total, more in zip(totals, count_by_hour(timing, due, hours, now), strict=True)]
        except UsageError:  # it was written by SQL and makes no sense: the scheduler will switch it off
            continue
    return totals, len(planned)


def _behind(planned: list[Planned], begin: datetime, end: datetime, now: datetime) -> tuple[list[PlannedRuns], bool]:
    """The schedules that fire within a time, by their first time then; and whether there was time to look at all of them."""
    found, patience, looked = [], monotonic() + PATIENCE_S, 0
    for each in planned:
        if monotonic() > patience:
            break
        looked += 1
        timing = each.timing
        try:
            due = _due_next(each, timing, now)
            if due is not None and (runs := count_runs(timing, due, max(begin, now), end)):
                first, last = first_and_last(timing, due, max(begin, now), end)
                found.append(PlannedRuns(each.id, each.name, each.task, each.strategy, timing.describe(), runs, first, last))
        except UsageError:
            continue
    return sorted(found, key=lambda each: (each.first, each.name)), looked == len(planned)


def _caps(planned: list[Planned], counted: int, rows: list[Pile], waiting: list[Pile]) -> list[str]:
    caps = []
    if counted < len(planned):
        caps.append(f"only the first {counted:,} schedules by name are counted: there are too many different ones")
    for what, piles in (("recurring rows", rows), ("jobs", waiting)):
        if _cut(piles):
            last = max(pile.last for pile in piles)
            caps.append(f"{what} are counted up to {moment(last)}: there are more than {WALK:,}")
    return caps


def _cut(piles: Iterable[Pile]) -> bool:
    return sum(pile.walked for pile in piles) >= WALK


def _by_hour(hours: list[Hour], piles: list[Pile]) -> list[int]:
    counts = Counter[int]()
    for pile in piles:
        counts[pile.quarter] += pile.meant
    quarters = [range(int(hour.begin.timestamp()) // QUARTER_S, int(hour.end.timestamp()) // QUARTER_S) for hour in hours]
    return [sum(counts[quarter] for quarter in each) for each in quarters]


def _by_task(piles: list[Pile]) -> list[DueRows]:
    counts = Counter[str]()
    first: dict[str, int] = {}
    for pile in piles:
        if pile.meant:
            counts[pile.task] += pile.meant
            first.setdefault(pile.task, pile.quarter)
    cut = _cut(piles)
    return [
        DueRows(task, Capped(count, cut), datetime.fromtimestamp(first[task] * QUARTER_S, UTC))
        for task, count in counts.most_common(SHOWN)
    ]
