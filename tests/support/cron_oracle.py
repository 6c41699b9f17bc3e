"""When a cron expression fires, worked out a second time and in another way: by looking at every minute of a window.

It shares nothing with the product: it has a field parser of its own, and takes from `zoneinfo` only the way from UTC to a wall
clock. The rule it holds:

- Minute or hour begins with `*`: it fires at each instant whose wall clock shows a time of the expression.
- Otherwise: it fires at the first instant whose wall clock has come to, or has passed over, a time of the expression. What was
  reached once is not reached again when clocks go back; what is passed over by one jump is reached together, once.
"""

from __future__ import annotations

import calendar
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MONTHS = {"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6, "JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11, "DEC": 12}
WEEKDAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
MACROS = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0"}
MACROS |= {"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}


class Run(NamedTuple):
    """Consecutive minutes of one local day: from `instant` on the wall clock goes from `first` up to, but not including, `end`."""

    instant: datetime
    day: date
    first: int
    end: int


def walk(zone: ZoneInfo, start: datetime, end: datetime) -> list[Run]:
    """What the wall clock shows from `start` to `end`, minute by minute, put together where it just goes on."""
    runs: list[Run] = []
    instant = start
    while instant <= end:
        local = instant.astimezone(zone)
        day, minute = local.date(), 60 * local.hour + local.minute
        if runs and runs[-1].day == day and runs[-1].end == minute:
            runs[-1] = runs[-1]._replace(end=minute + 1)
        else:
            runs.append(Run(instant, day, minute, minute + 1))
        instant += MINUTE
    return runs


class Oracle:
    """One expression."""

    def __init__(self, text: str) -> None:
        minute, hour, self._dom, month, self._dow = MACROS.get(text.lower(), text).upper().split()
        hours, minutes = _values(hour, 0, 23), _values(minute, 0, 59)
        self._times = sorted(60 * h + m for h in hours for m in minutes)
        self._months = _values(month, 1, 12, MONTHS)
        self._wildcard = minute[0] == "*" or hour[0] == "*"
        self._falls_on = cache(self._match_day)

    def fires(self, runs: list[Run]) -> list[datetime]:
        """Every instant of the window at which it fires, but for what the window's first minute may have jumped over."""
        return self._by_hands(runs) if self._wildcard else sorted(set(self._by_progress(runs)))

    def _by_hands(self, runs: list[Run]) -> list[datetime]:
        return [run.instant + (time - run.first) * MINUTE for run in runs for time in self._between(run.day, run.first, run.end)]

    def _by_progress(self, runs: list[Run]) -> Iterator[datetime]:
        day, minute = runs[0].day, runs[0].first  # how far the wall clock has ever come
        for run in runs:
            while day < run.day:  # the rest of a day, jumped over or empty
                yield from (run.instant for _ in self._between(day, minute, 1440))
                day, minute = day + timedelta(days=1), 0
            if day > run.day:
                continue
            yield from (run.instant for _ in self._between(day, minute, run.first))
            yield from (run.instant + (time - run.first) * MINUTE for time in self._between(day, max(minute, run.first), run.end))
            minute = max(minute, run.end)

    def _between(self, day: date, first: int, end: int) -> list[int]:
        if first >= end or not self._falls_on(day):
            return []
        return self._times[bisect_left(self._times, first) : bisect_left(self._times, end)]

    def _match_day(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        by_date = any(_is_day(term, day) for term in self._dom.split(","))
        by_weekday = any(_is_weekday(term, day) for term in self._dow.split(","))
        together = self._dom[0] == "*" or self._dow[0] == "*"
        return (by_date and by_weekday) if together else (by_date or by_weekday)


def _is_day(term: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if term == "L":
        return day.day == length
    if term == "LW":
        return day == max(d for d in (day.replace(day=n) for n in range(1, length + 1)) if d.weekday() < 5)
    return day.day in _values(term, 1, 31)


def _is_weekday(term: str, day: date) -> bool:
    number = day.isoweekday() % 7
    if term.endswith("L"):
        return int(term[:-1]) % 7 == number and (day + timedelta(days=7)).month != day.month
    if "#" in term:
        name, _, nth = term.partition("#")
        return _number(name, WEEKDAYS) % 7 == number and (day.day - 1) // 7 + 1 == int(nth)
    return number in {value % 7 for value in _values(term, 0, 7, WEEKDAYS)}


def _values(field: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
    values: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        if first == "*":
            bounds = low, high
        else:
            begin = _number(first, names)
            bounds = begin, _number(last, names) if last else high if step else begin
        values.update(range(bounds[0], bounds[1] + 1, int(step or 1)))
    return values


def _number(text: str, names: dict[str, int] | None) -> int:
    return names[text] if names and text in names else int(text)


class Change(NamedTuple):
    """Clocks that change: when, and by which offsets."""

    at: datetime
    before: timedelta
    after: timedelta


def changes(zone: ZoneInfo, first_year: int, last_year: int) -> list[Change]:
    """Every change of the zone's clocks in these years: between one noon and the next there is at most one, and none at noon."""
    days = _noons(first_year, last_year)
    offsets = [zone.utcoffset(noon) for noon in days]
    return [
        Change(_turn(zone, days[n] - before, days[n + 1] - after, after), before, after)
        for n, (before, after) in enumerate(pairwise(offsets))
        if before is not None and after is not None and before != after
    ]


@cache
def _noons(first_year: int, last_year: int) -> list[datetime]:
    first, last = datetime(first_year - 1, 12, 31, 12, tzinfo=UTC), datetime(last_year + 1, 1, 1, 12, tzinfo=UTC)
    return [(first + timedelta(days=n)).replace(tzinfo=None) for n in range((last - first).days + 1)]


def _turn(zone: ZoneInfo, early: datetime, late: datetime, after: timedelta) -> datetime:
    early, late = early.replace(tzinfo=UTC), late.replace(tzinfo=UTC)
    while late - early > timedelta(seconds=1):
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        early, late = (early, middle) if middle.astimezone(zone).utcoffset() == after else (middle, late)
    return late
