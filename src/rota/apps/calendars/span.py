"""When an event takes place: a span that is rather too long than too short, since it only decides what is looked at."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from rota.apps.calendars.content import Component
from rota.apps.calendars.errors import Broken

SLACK = timedelta(hours=14)  # of a time whose zone nobody knows: so far from UTC a clock can be
ALWAYS = datetime(1, 1, 2, tzinfo=UTC)
NEVER = datetime(9999, 12, 30, tzinfo=UTC)

_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z)?)?")
_DURATION = re.compile(r"([+-])?P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?")
_PERIODS = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1}  # days


def span_of(event: Component) -> tuple[datetime, datetime]:
    """From the first moment at which an event may take place to the last; rather too long than too short."""
    line = event.get("DTSTART")
    if line is None:
        raise Broken("an event has no DTSTART")
    zone = dict(line.parameters).get("TZID")
    start = read_moment(line.value, zone)
    if start is None:
        raise Broken(f"DTSTART:{line.value[:40]} is not a time")
    length = _length(event, start)
    last = start
    for rule in (line.value for line in event.lines if line.name == "RRULE"):
        last = max(last, _last_of(rule, start))
    first = start
    for extra in (line for line in event.lines if line.name == "RDATE"):
        for value in extra.value.split(","):
            at = read_moment(value.partition("/")[0], dict(extra.parameters).get("TZID"))
            first, last = (min(first, at), max(last, at)) if at else (first, last)
    slack = timedelta(0) if line.value.strip().endswith("Z") or (zone and find_zone(zone.strip('"'))) else SLACK
    return _shift(first, -slack), _shift(last, length + slack)


def _length(event: Component, start: datetime) -> timedelta:
    if (line := event.get("DTEND")) is not None:
        end = read_moment(line.value, dict(line.parameters).get("TZID"))
        if end is None:
            raise Broken(f"DTEND:{line.value[:40]} is not a time")
        return max(end - start, timedelta(0))
    if (line := event.get("DURATION")) is not None:
        found = _DURATION.fullmatch(line.value.strip())
        if found is None:
            raise Broken(f"DURATION:{line.value[:40]} is not a duration")
        weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        return timedelta(0) if found[1] == "-" else timedelta(days=weeks * 7 + days, hours=hours, minutes=minutes, seconds=seconds)
    begun = event.get("DTSTART")
    return timedelta(days=1) if begun is not None and "T" not in begun.value else timedelta(0)


def _last_of(rule: str, start: datetime) -> datetime:
    """When a recurrence ends at the latest. A count is multiplied, not counted out: a rule can be made to take for ever."""
    parts = dict(part.split("=", 1) for part in rule.strip().upper().split(";") if "=" in part)
    if "FREQ" not in parts:
        raise Broken(f"RRULE:{rule[:40]} has no FREQ")
    if (until := read_moment(parts.get("UNTIL", ""), None)) is not None:
        return max(start, _shift(until, SLACK))
    count, interval = parts.get("COUNT", ""), parts.get("INTERVAL", "1")
    if not (count.isdigit() and interval.isdigit()) or parts["FREQ"] not in _PERIODS or len(count) > 6 or len(interval) > 6:
        return NEVER
    if parts.keys() - {"FREQ", "COUNT", "INTERVAL", "WKST", "BYDAY"} or ("BYDAY" in parts and parts["FREQ"] != "WEEKLY"):
        return NEVER
    # Twice: a rule for the 31st passes over every other month.
    return _shift(start, timedelta(days=min(_PERIODS[parts["FREQ"]] * int(count) * int(interval) * 2 + 7, 3_000_000)))


def read_moment(text: str, zone: str | None) -> datetime | None:
    """A time or a day in UTC; None if it is none. What has no zone, or one that is not known, is taken for UTC."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        known = None if found[7] or zone is None else find_zone(zone.strip('"'))
        at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=known or UTC)
        return min(max(at.astimezone(UTC), ALWAYS), NEVER)
    except (ValueError, OverflowError):
        return None


def _shift(at: datetime, by: timedelta) -> datetime:
    try:
        return min(max(at + by, ALWAYS), NEVER)
    except OverflowError:
        return NEVER if by > timedelta(0) else ALWAYS


@lru_cache(1)
def _zone_names() -> set[str]:
    return available_timezones()


def find_zone(name: str) -> ZoneInfo | None:
    return ZoneInfo(name) if name in _zone_names() else None
