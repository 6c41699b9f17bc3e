"""Schedules to look at: lists, one with its story, and when it fires next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from rota.control import schedules
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.connection import AsyncConn
from rota.db.steps import carry_out_async
from rota.errors import UsageError
from rota.model.cron import Upcoming
from rota.model.duration import Duration, show_duration
from rota.model.filters import check_text
from rota.model.schedule import Timing, changed
from rota.model.schedule_record import ScheduleRecord
from rota.model.zone import load_zone
from rota.store import schedule_reads as store
from rota.store.schedule_reads import LedgerLine, ScheduleLine

MAX_LIMIT = 1000
LEDGER_SHOWN = 30
UPCOMING_SHOWN = 5
MAX_PREVIEW = 100
NO_ID = UUID(int=0)
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Some schedules; `next` is what the following page comes after, None when there is none."""

    schedules: list[ScheduleLine]
    next: str | None


@dataclass(frozen=True, slots=True)
class ScheduleDetail:
    """A schedule, its next times as long as it is enabled, and what became of its last instants, the newest first."""

    record: ScheduleRecord
    upcoming: list[Upcoming]
    ledger: list[LedgerLine]
    words: str = ""  # when it fires, with the zone


@dataclass(frozen=True, slots=True)
class Preview:
    """A timing as it was understood, in words, and when it fires from now on; `note` of a time says what the clocks do to it."""

    timing: Timing
    words: str
    now: datetime
    times: list[Upcoming]


async def list_schedules(
    conn: AsyncConn,
    *,
    task: str | None = None,
    recurring: bool = False,
    failing: bool = False,
    system: bool = False,
    enabled: bool | None = None,
    after: str | None = None,
    beyond: tuple[datetime, UUID] | None = None,
    limit: int = 50,
) -> SchedulePage:
    """Named schedules by name; with a `task` (a name, or a pattern with * and ?) its recurring rows too, which follow by key.

    Those of system tasks come with `system`, or where their task is asked for. `recurring` gives recurring rows alone, `failing`
    those of either kind that keep failing, the longest failing first; `enabled` those that are, or are not. `after` is the last one
    of a page; of failing ones `beyond` is better, since when it fails and its id, which stays right when that one does well again.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit={limit!r} is out of range: from 1 to {MAX_LIMIT}")
    check_text("task", task)
    check_text("after", after)
    if failing:
        if beyond is None and after is not None:
            last = await get_schedule(conn, after)
            beyond = (last.failing_since or LONG_AGO, last.id)
        lines = await store.failing(conn, task=task, enabled=enabled, after=beyond or (LONG_AGO, NO_ID), limit=limit + 1)
    else:
        lines = await _list_by_name(conn, task, recurring, system, enabled, after or "", limit + 1)
    worded = [replace(line, words=words_of(line.record)) for line in lines[:limit]]
    return SchedulePage(worded, lines[limit - 1].record.label if len(lines) > limit else None)


async def get_schedule(conn: AsyncConn, name: str) -> ScheduleRecord:
    """The schedule of that name, or the recurring row `task/key`."""
    return await carry_out_async(AsyncPsycopgCarrier(conn), schedules.get(name))


async def show_schedule(conn: AsyncConn, name: str) -> ScheduleDetail:
    """A schedule with its next times and the story of its last instants."""
    record = await get_schedule(conn, name)
    upcoming = list_upcoming(record, await store.now(conn), UPCOMING_SHOWN)
    ledger = await store.ledger(conn, record.id, limit=LEDGER_SHOWN)
    return ScheduleDetail(record, upcoming, ledger, words_of(record))


async def next_times(conn: AsyncConn, name: str, count: int) -> list[Upcoming]:
    """The next times of a schedule; none if it is disabled or has ended."""
    return list_upcoming(await get_schedule(conn, name), await store.now(conn), count)


async def preview(
    conn: AsyncConn, *, cron: str | None = None, every: Duration | None = None, tz: str | None = None, count: int = 5
) -> Preview:
    """When a schedule would fire that nobody has made yet, from now on."""
    if not 1 <= count <= MAX_PREVIEW:
        raise UsageError(f"count={count!r} is out of range: from 1 to {MAX_PREVIEW}")
    if (cron is None) == (every is None):
        raise UsageError("give cron or every, and not both")
    given = {"cron": cron, "every": every} | ({} if tz is None else {"tz": tz})
    timing = changed(Timing("interval"), **{name: value for name, value in given.items() if value is not None})
    now = await store.now(conn)
    return Preview(timing, timing.describe(), now, _times(timing, timing.first(now), count))


def list_upcoming(record: ScheduleRecord, now: datetime, count: int) -> list[Upcoming]:
    """When a schedule fires next; of a recurring row only the next time is known, and none while it runs."""
    if not record.enabled:
        return []
    timing, first = record.timing, record.next_run_at
    try:
        if first is None and record.strategy in ("cron", "interval"):
            first = timing.first(now)  # the scheduler has not come to compute it yet
        return _times(timing, first, count)
    except UsageError:  # it was written by SQL and makes no sense: the scheduler will switch it off
        return []


def _times(timing: Timing, first: datetime | None, count: int) -> list[Upcoming]:
    if first is None:
        return []
    if timing.strategy == "cron":
        times = timing.parsed.upcoming(first - timedelta(microseconds=1), count)
    else:
        shown = count if timing.strategy == "interval" else 1
        zone = load_zone(timing.tz)
        step = timing.every or timedelta(0)
        times = [Upcoming(first + n * step, (first + n * step).astimezone(zone), "") for n in range(shown)]
    return [each for each in times if timing.bounded(each.at_utc) is not None]


def describe(record: ScheduleRecord) -> str:
    """When it fires, in words, without the zone."""
    timing = record.timing
    if record.strategy == "recurring" and timing.every is not None:
        return f"by its handler, last {show_duration(timing.every)}"
    try:
        return timing.describe().removesuffix(f", {timing.tz}")
    except UsageError:  # it was written by SQL
        return timing.cron or ""


def words_of(record: ScheduleRecord) -> str:
    """When it fires, in words, with the zone of a cron expression."""
    return f"{describe(record)}, {record.timing.tz}" if record.strategy == "cron" else describe(record)


def last_state(line: ScheduleLine) -> str | None:
    """What became of the last firing: the state of its job, or why there was none."""
    record = line.record
    if line.outcome == "skipped" and record.job_id is None:
        return f"skipped: {line.reason}"
    if line.job_state is not None:
        return line.job_state
    if record.consecutive_failures:
        return f"failed, {record.consecutive_failures} in a row"
    return "completed" if record.successes else line.outcome


async def _list_by_name(
    conn: AsyncConn, task: str | None, recurring: bool, system: bool, enabled: bool | None, after: str, limit: int
) -> list[ScheduleLine]:
    """Named schedules have no slash in their names, so `after` says which of the two kinds the last page ended in."""
    lines: list[ScheduleLine] = []
    if not recurring and "/" not in after:
        lines = await store.named(conn, task=task, system=system, enabled=enabled, after=after, limit=limit)
    if (recurring or task is not None) and len(lines) < limit:
        after_task, _, after_key = after.partition("/") if "/" in after else ("", "", "")
        rest = limit - len(lines)
        lines += await store.recurring(conn, task=task, enabled=enabled, after=(after_task, after_key), limit=rest)
    return lines
