"""When a cron schedule fires.

A time in the zone's clocks is turned into an instant by Debian cron's rule. A schedule with `*` at the start of its minute or hour
goes by the clock's hands: it fires whenever they show one of its times, so twice where clocks go back and not at all for what they
jump over. Every other schedule fires once for each of its times: the first time where clocks go back, and right after the jump
for what they jump over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from rota.errors import UsageError
from rota.model.cron_words import describe_expression
from rota.model.timetable import Timetable, load_timetable
from rota.model.zone import end_of_gap, instants_of, load_zone, repeated_span

_INSTANT = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_MINUTES = 1440  # of a day: the most times that can be in one


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A time at which a schedule fires, and what the clocks do to it then, if anything."""

    at_utc: datetime
    local: datetime
    note: str


class _Step(NamedTuple):
    """From one instant to the next: `wall` is the time asked for, `missed` a time that the clocks jump over on the way."""

    at: datetime
    wall: datetime
    missed: datetime | None


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a time zone."""

    expression: str
    tz: str = "UTC"
    _timetable: Timetable = field(init=False, repr=False, compare=False)
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_timetable", load_timetable(self.expression))
        object.__setattr__(self, "_zone", load_zone(self.tz))
        object.__setattr__(self, "expression", self._timetable.expression.text)

    @classmethod
    def parse(cls, expression: str, tz: str = "UTC", *, field: str = "cron") -> Cron:
        """The schedule that the two say; `field` is the argument that an error speaks of."""
        load_timetable(expression, name=field)
        return cls(expression, tz)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first time it fires after `instant`; None at the end of the calendar."""
        step = self._next(_to_utc(instant, "instant"))
        return step and step.at

    def latest_before(self, instant: datetime) -> datetime | None:
        """The last time it fires at or before `instant`; None at the beginning of the calendar."""
        instant = _to_utc(instant, "instant")
        local = instant.astimezone(self._zone)
        wall = local.replace(tzinfo=None, fold=0)
        # In the second pass through a repeated time, the rest of the first pass lies behind us, at higher wall-clock times.
        ahead = self._last(instant, wall + repeated_span(wall, self._zone)) if local.fold else None
        here = self._last(instant, wall)
        return max((found for found in (ahead, here) if found is not None), default=None)

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The times it fires after `after` and at or before `until`: the first `limit` of them."""
        at, until = _to_utc(after, "after"), _to_utc(until, "until")
        times: list[datetime] = []
        while len(times) < limit and (step := self._next(at)) is not None and step.at <= until:
            at = step.at
            times.append(at)
        return times

    def count(self, after: datetime, until: datetime) -> int:
        """How many times it fires after `after` and at or before `until`; day by day, so that a year of minutes is counted fast."""
        at, until, total = _to_utc(after, "after"), _to_utc(until, "until"), 0
        while at < until:
            end = min(at + _DAY, until)
            # From the day before on: what clocks that go back show again must have been left behind.
            if len({each.astimezone(self._zone).utcoffset() for each in (at - _DAY, at, end)}) == 1:
                total += self._timetable.count(*(each.astimezone(self._zone).replace(tzinfo=None) for each in (at, end)))
            else:
                total += len(self.between(at, end, _MINUTES))
            at = end
        return total

    def count_hour(self, begin: datetime) -> int:
        """How many times it fires from `begin` on, in an hour; where that is an hour of its clocks, without going through it."""
        end, local = begin + _HOUR, begin.astimezone(self._zone)
        offsets = {each.astimezone(self._zone).utcoffset() for each in (begin - _DAY, begin, end)}
        if len(offsets) == 1 and (local.minute, local.second, local.microsecond) == (0, 0, 0):
            return self._timetable.count_hour(local.date(), local.hour)
        return self.count(begin - _INSTANT, end - _INSTANT)

    def upcoming(self, instant: datetime, n: int) -> list[Upcoming]:
        """The next `n` times after `instant`, with a note where the clocks change."""
        at = _to_utc(instant, "instant")
        times: list[Upcoming] = []
        while len(times) < n and (step := self._next(at)) is not None:
            at = step.at
            local = at.astimezone(self._zone)
            times.append(Upcoming(at, local, self._note(step, local)))
        return times

    def describe(self) -> str:
        """The schedule in words: `At 09:00, Monday through Friday, Europe/Berlin`."""
        return f"{describe_expression(self._timetable.expression)}, {self.tz}"

    def _next(self, instant: datetime) -> _Step | None:
        local = instant.astimezone(self._zone)
        start = local.replace(tzinfo=None, fold=0)
        found = self._first(instant, start)
        # In the first pass through a repeated time, its second pass lies ahead of us, at lower wall-clock times.
        if self._timetable.by_wildcard and not local.fold and (span := repeated_span(start, self._zone)):
            again = self._first(instant, start - span)
            found = min((step for step in (found, again) if step is not None), key=lambda step: step.at, default=None)
        return found

    def _first(self, instant: datetime, wall: datetime) -> _Step | None:
        """The first of the times after `wall` that comes after `instant`."""
        missed: datetime | None = None
        due = self._timetable.after(wall)
        while due is not None:
            instants = self._instants(due)
            if not instants:
                missed = missed or due
            for at in instants:
                if at > instant:
                    return _Step(at, due, missed)
            due = self._timetable.after(due)
        return None

    def _last(self, instant: datetime, wall: datetime) -> datetime | None:
        """The last of the times up to `wall` that comes at or before `instant`."""
        due = self._timetable.until(wall)
        while due is not None:
            for at in reversed(self._instants(due)):
                if at <= instant:
                    return at
            due = self._timetable.until(due - _MINUTE)
        return None

    def _instants(self, wall: datetime) -> tuple[datetime, ...]:
        """When it fires for a time of its timetable: here is the rule."""
        instants = instants_of(wall, self._zone)
        if self._timetable.by_wildcard:
            return instants
        return instants[:1] or (end_of_gap(wall, self._zone),)

    def _note(self, step: _Step, local: datetime) -> str:
        if not self._timetable.by_wildcard and step.wall != local.replace(tzinfo=None):
            return f"clocks go forward: {step.wall:%H:%M} does not exist, runs at {local:%H:%M}"
        if step.missed is not None:
            return f"clocks went forward: {step.missed:%H:%M} on {step.missed:%Y-%m-%d} did not exist and was left out"
        if repeated_span(step.wall, self._zone):
            pass_ = "second" if local.fold else "first"
            runs = f"both times, this is the {pass_}" if self._timetable.by_wildcard else "the first time only"
            return f"clocks go back: {local:%H:%M} comes twice, runs {runs}"
        return ""


def _to_utc(instant: datetime, name: str) -> datetime:
    if instant.tzinfo is None:
        raise UsageError(f"{name}={instant!r} has no time zone: give an aware datetime, such as datetime.now(UTC)")
    if not MINYEAR < instant.year < MAXYEAR:
        raise UsageError(f"{name}={instant!r} is out of range: from year {MINYEAR + 1} to {MAXYEAR - 1}")
    return instant.astimezone(UTC)
