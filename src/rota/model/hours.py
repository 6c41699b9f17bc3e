"""The hours of days as clocks in a zone show them, and how often a timing fires in each: what a calendar is made of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from rota.model.cron import Cron
from rota.model.schedule import Timing

QUARTER = timedelta(minutes=15)  # the offsets of all zones are whole quarters of an hour
EARLIEST = timedelta(hours=15)  # no clock is further from UTC

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of a day on the clocks of a zone, from `begin` up to but not at `end`.

    One that the clocks jump over is not there; one that they show twice is one hour, and twice as long.
    """

    date: date
    hour: int
    begin: datetime
    end: datetime


def hours_of_days(first: date, days: int, zone: ZoneInfo) -> list[Hour]:
    """The hours of so many days, in their order."""
    at = datetime(first.year, first.month, first.day, tzinfo=UTC) - EARLIEST
    last = first + (days - 1) * _DAY
    hours: list[Hour] = []
    while True:
        local = at.astimezone(zone)
        day = local.date()
        if day > last:
            return hours
        if day >= first:
            if hours and (hours[-1].date, hours[-1].hour) == (day, local.hour):
                hours[-1] = Hour(day, local.hour, hours[-1].begin, at + QUARTER)
            else:
                hours.append(Hour(day, local.hour, at, at + QUARTER))
        at += QUARTER


def count_runs(timing: Timing, due: datetime, begin: datetime, end: datetime) -> int:
    """How often a schedule that is `due` next then fires from `begin` on and before `end`."""
    begin, end = _clip(timing, due, begin, end)
    if begin >= end:
        return 0
    match timing.strategy:
        case "cron":
            return timing.parsed.count(begin - _INSTANT, end - _INSTANT)
        case "interval":
            assert timing.every is not None
            return _steps_before(due, timing.every, end) - _steps_before(due, timing.every, begin)
        case _:
            return int(begin <= due)


def count_by_hour(timing: Timing, due: datetime, hours: Sequence[Hour], begin: datetime) -> list[int]:
    """How often a schedule fires in each of these hours, from `begin` on."""
    if timing.strategy != "cron":
        return [count_runs(timing, due, max(hour.begin, begin), hour.end) for hour in hours]
    # Of a cron expression whole hours are always the same: they are counted once, for every schedule that has it and every look.
    low, high = _clip(timing, due, begin, hours[-1].end)
    whole = _count_cron(timing.parsed, tuple((hour.begin, hour.end) for hour in hours))
    return [
        count if low <= hour.begin and hour.end <= high else count_runs(timing, due, max(hour.begin, begin), hour.end)
        for hour, count in zip(hours, whole, strict=True)
    ]


def first_and_last(timing: Timing, due: datetime, begin: datetime, end: datetime) -> tuple[datetime, datetime]:
    """The first and the last time of a schedule that does fire from `begin` on and before `end`."""
    begin, end = _clip(timing, due, begin, end)
    match timing.strategy:
        case "cron":
            cron = timing.parsed
            first, last = cron.next_after(begin - _INSTANT), cron.latest_before(end - _INSTANT)
            assert first is not None
            assert last is not None
            return first, last
        case "interval":
            assert timing.every is not None
            low, high = _steps_before(due, timing.every, begin), _steps_before(due, timing.every, end)
            return due + low * timing.every, due + (high - 1) * timing.every
        case _:
            return due, due


def _clip(timing: Timing, due: datetime, begin: datetime, end: datetime) -> tuple[datetime, datetime]:
    """The part of a time in which it may fire: from when it is due next, to its end."""
    return max(begin, due), end if timing.ends_at is None else min(end, timing.ends_at + _INSTANT)


def _steps_before(first: datetime, every: timedelta, until: datetime) -> int:
    """How many of first, first + every, … come before `until`, which is not before the first."""
    return -((first - until) // every)


@lru_cache(maxsize=2048)
def _count_cron(cron: Cron, hours: tuple[tuple[datetime, datetime], ...]) -> tuple[int, ...]:
    """How often a cron expression fires in each of these hours, which follow one another."""
    after, until = hours[0][0] - _INSTANT, hours[-1][1] - _INSTANT
    total = cron.count(after, until)
    if total >= len(hours):
        return tuple(
            cron.count_hour(begin) if end - begin == _HOUR else cron.count(begin - _INSTANT, end - _INSTANT) for begin, end in hours
        )
    counts, begins = [0] * len(hours), [begin for begin, _ in hours]
    for at in cron.between(after, until, total):  # few, as most have: from one to the next is shorter than hour by hour
        counts[bisect_right(begins, at) - 1] += 1
    return tuple(counts)
