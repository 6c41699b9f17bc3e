"""The wall-clock times that a cron expression names, before any time zone comes into it."""

from __future__ import annotations

from bisect import bisect_right
from calendar import isleap
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from cronsim import CronSim, CronSimError

from rota.errors import InvalidSchedule
from rota.model.cron_fields import Expression, check_text, read_expression

_DAY = timedelta(days=1)
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_HORIZON_YEARS = 50  # 29 February on a given weekday can be 40 years away
_KINDS_OF_YEAR = {(date(year, 1, 1).weekday(), isleap(year)): year for year in range(2000, 2028)}.values()


class Timetable:
    """The days and the minutes of an expression; cronsim says what the fields mean, the search is ours."""

    __slots__ = ("_days", "_months", "_times", "by_wildcard", "expression")

    def __init__(self, expression: Expression) -> None:
        self._days = CronSim(" ".join(expression.fields), _BEGINNING)
        self._months = frozenset(self._days.months)
        self._times = tuple(sorted(time(hour, minute) for hour in self._days.hours for minute in self._days.minutes))
        self.expression = expression
        self.by_wildcard = any(field.startswith("*") for field in expression.fields[:2])

    def ever_comes(self) -> bool:
        """Whether there is such a day in any kind of year: those that begin on each weekday, with and without a 29 February."""
        return any(self._has(date(year, 1, 1) + n * _DAY) for year in _KINDS_OF_YEAR for n in range(366))

    def after(self, wall: datetime) -> datetime | None:
        """The first time after `wall`."""
        day = wall.date()
        if self._has(day):
            index = bisect_right(self._times, wall.time())
            if index < len(self._times):
                return datetime.combine(day, self._times[index])
        later = self._next_day(day)
        return None if later is None else datetime.combine(later, self._times[0])

    def until(self, wall: datetime) -> datetime | None:
        """The last time at or before `wall`."""
        day = wall.date()
        if self._has(day):
            index = bisect_right(self._times, wall.time())
            if index:
                return datetime.combine(day, self._times[index - 1])
        earlier = self._previous_day(day)
        return None if earlier is None else datetime.combine(earlier, self._times[-1])

    def count(self, after: datetime, until: datetime) -> int:
        """How many times there are after one time and at or before another."""
        first, last = after.date(), until.date()
        days = sum(self._has(first + n * _DAY) for n in range((last - first).days))
        return days * len(self._times) + self._reached(until) - self._reached(after)

    def count_hour(self, day: date, hour: int) -> int:
        """How many times there are in an hour of a day."""
        return len(self._days.minutes) if hour in self._days.hours and self._has(day) else 0

    def _reached(self, wall: datetime) -> int:
        return bisect_right(self._times, wall.time()) if self._has(wall.date()) else 0

    def _has(self, day: date) -> bool:
        return day.month in self._months and self._days.match_day(day)

    def _next_day(self, day: date) -> date | None:
        horizon = min(day.year + _HORIZON_YEARS, date.max.year - 1)
        day += _DAY
        while day.year <= horizon:
            if day.month not in self._months:
                day = (day.replace(day=28) + 4 * _DAY).replace(day=1)
            elif self._days.match_day(day):
                return day
            else:
                day += _DAY
        return None

    def _previous_day(self, day: date) -> date | None:
        horizon = max(day.year - _HORIZON_YEARS, date.min.year + 1)
        day -= _DAY
        while day.year >= horizon:
            if day.month not in self._months:
                day = day.replace(day=1) - _DAY
            elif self._days.match_day(day):
                return day
            else:
                day -= _DAY
        return None


def load_timetable(expression: str, *, name: str = "cron") -> Timetable:
    """The timetable of an expression; `name` is the argument that an error speaks of."""
    return _load(check_text(expression, name), name)


@lru_cache(maxsize=1024)
def _load(text: str, name: str) -> Timetable:
    expression = read_expression(text, name)
    try:
        timetable = Timetable(expression)
        if timetable.ever_comes():
            return timetable
    except CronSimError:  # the grammar is checked already: what is left is a day that no month has
        pass
    day, month, weekday = expression.fields[2:]
    raise InvalidSchedule(
        f"{name}={expression.text!r} never comes: no date has day of month {day} (field 3 of 5), month {month} (field 4 of 5)"
        f" and day of week {weekday} (field 5 of 5); for the last day of a month write L"
    )
