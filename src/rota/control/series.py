"""How tasks fare over time: throughput, failures and percentiles by slots of time, as columns for a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.model.filters import check_text
from rota.model.histogram import percentile
from rota.store import schedule_reads, stats
from rota.store.stats import Slot

HOUR = 3600
# Seconds of the whole, and of a slot: between sixty and a hundred slots, and no finer than what is kept of a time so long ago.
PERIODS = {"1h": (HOUR, 60), "6h": (6 * HOUR, 300), "24h": (24 * HOUR, HOUR), "7d": (7 * 24 * HOUR, 2 * HOUR),
           "30d": (30 * 24 * HOUR, 6 * HOUR)}  # fmt: skip
ROWS = 100_000  # of each grain that are added up
TIMED_ROWS = 10_000  # whose histograms are

PeriodName = Literal["1h", "6h", "24h", "7d", "30d"]
Column = list[float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """What ended in each slot of time, as columns of the same length; the last slot is not over yet."""

    period: str
    width: int  # of a slot, in seconds
    at: list[int]  # when each begins, in seconds since 1970
    completed: list[int]
    failed: list[int]  # attempts, also those that were tried again, and those that were lost with their worker
    canceled: list[int]
    p50: Column  # seconds of work; None: none has ended
    p95: Column
    wait_p50: Column  # seconds from due to claimed
    wait_p95: Column
    hourly_before: int | None  # slots before this are an hour's sum, spread evenly
    complete: bool  # False: there was too much to add up, and the oldest slots may lack some of it


async def series(
    conn: AsyncConn, *, period: PeriodName = "24h", task: str | None = None, queue: str | None = None, system: bool = False
) -> Series:
    """The runs of all tasks, of one, or of those whose queue this is; Rota's own only if asked for."""
    if period not in PERIODS:
        raise UsageError(f"period={period!r} is unknown: give one of {', '.join(PERIODS)}")
    if task is not None and queue is not None:
        raise UsageError("task and queue are given: one of them is enough")
    check_text("task", task)
    check_text("queue", queue)
    length, width = PERIODS[period]
    now = await schedule_reads.now(conn)
    last = int(now.timestamp()) // width
    first = last - length // width + 1
    since = datetime.fromtimestamp(first * width, UTC) - timedelta(seconds=HOUR if width < HOUR else 0)
    slots = await stats.series(conn, since=since, width=width, task=task, queue=queue, system=system, limit=ROWS)
    times = await stats.series_times(
        conn, since=since, width=width, task=task, queue=queue, system=system, limit=ROWS, most=TIMED_ROWS
    )
    places = range(first, last + 1)
    durations, waits = ({n: Counter[int]() for n in places} for _ in range(2))
    for each in times:
        for n in _places(each.hourly, each.slot, width):
            if n in places:
                (waits if each.waited else durations)[n].update(dict(zip(each.buckets, each.counts, strict=True)))
    hours = [each.slot for each in slots if each.hourly]
    return Series(
        period,
        width,
        [n * width for n in places],
        completed=_spread(slots, places, width, lambda each: each.completed),
        failed=_spread(slots, places, width, lambda each: each.failed),
        canceled=_spread(slots, places, width, lambda each: each.canceled),
        p50=[percentile(durations[n], 0.5) for n in places],
        p95=[percentile(durations[n], 0.95) for n in places],
        wait_p50=[percentile(waits[n], 0.5) for n in places],
        wait_p95=[percentile(waits[n], 0.95) for n in places],
        hourly_before=(max(hours) + 1) * HOUR if hours and (max(hours) + 1) * HOUR > first * width else None,
        complete=sum(each.looked for each in slots) < ROWS,
    )


def _places(hourly: bool, slot: int, width: int) -> range:
    """The slots that a slot is, or, if it is an hour and wider than they are, those within it."""
    return range(slot * HOUR // width, (slot + 1) * HOUR // width) if hourly else range(slot, slot + 1)


def _spread(slots: list[Slot], places: range, width: int, of: Callable[[Slot], int]) -> list[int]:
    """A column; an hour is spread over its slots so that they add up to it."""
    counts = Counter[int]()
    for each in slots:
        within, total = _places(each.hourly, each.slot, width), of(each)
        for n, place in enumerate(within):
            counts[place] += total * (n + 1) // len(within) - total * n // len(within)
    return [counts[n] for n in places]
