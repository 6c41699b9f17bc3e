"""How tasks fare: throughput, failures and percentiles, from what workers have added up and not from the runs themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rota.db.connection import AsyncConn
from rota.errors import UsageError
from rota.model.histogram import percentile
from rota.store import stats
from rota.store.stats import Sum

PERIODS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
LONGEST = timedelta(days=35)  # what is kept
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
MAX_TASKS = 1000


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Times that half, 95 and 99 of a hundred stay within, to within five per cent."""

    p50: timedelta
    p95: timedelta
    p99: timedelta


@dataclass(frozen=True, slots=True)
class TaskStats:
    """A task's runs over a period that ends now; the last ten seconds may be missing."""

    task: str
    period: timedelta
    completed: int
    failed: int  # attempts, also those that were tried again
    canceled: int
    snoozed: int
    released: int  # by workers that stopped
    lost: int  # with workers that died
    per_minute: float  # attempts that came to an end
    failure_rate: float | None  # of completed, failed and lost ones; None: there were none
    duration: Percentiles | None  # None: none has run
    wait: Percentiles | None  # from due to claimed


async def list_stats(conn: AsyncConn, *, period: timedelta, system: bool = False) -> list[TaskStats]:
    """Every task that has run within the period, by name; Rota's own only if asked for."""
    _check(period)
    sums = await stats.sums(conn, task=None, since=period, system=system, limit=MAX_TASKS)
    return [_read(each, period) for each in sums]


async def task_stats(conn: AsyncConn, task: str, *, period: timedelta) -> TaskStats:
    """One task over one period; all zeros when it has not run."""
    _check(period)
    sums = await stats.sums(conn, task=task, since=period, system=True, limit=1)
    return _read(sums[0] if sums else Sum(task, 0, 0, 0, 0, 0, 0, None, None), period)


async def recent_stats(conn: AsyncConn, task: str) -> dict[str, TaskStats]:
    """One task over the last hour, day and week."""
    return {name: await task_stats(conn, task, period=period) for name, period in PERIODS.items()}


def _check(period: timedelta) -> None:
    if not timedelta(minutes=1) <= period <= LONGEST:
        raise UsageError(f"period={period} is out of range: from 1 minute to {LONGEST.days} days, which is as long as it is kept")


def _read(sum: Sum, period: timedelta) -> TaskStats:
    ended = sum.completed + sum.failed + sum.lost
    return TaskStats(
        sum.task,
        period,
        sum.completed,
        sum.failed,
        sum.canceled,
        sum.snoozed,
        sum.released,
        sum.lost,
        per_minute=60 * ended / period.total_seconds(),
        failure_rate=(sum.failed + sum.lost) / ended if ended else None,
        duration=_percentiles(sum.durations),
        wait=_percentiles(sum.waits),
    )


def _percentiles(histogram: dict[str, int] | None) -> Percentiles | None:
    counts = {int(bucket): count for bucket, count in (histogram or {}).items()}
    times = {name: percentile(counts, share) for name, share in SHARES.items()}
    return Percentiles(**{name: timedelta(seconds=time) for name, time in times.items() if time is not None}) if counts else None
