"""When a feed is fetched next: by what its server and its author ask for, by how often there is something new, within bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from random import Random

DEFAULT = timedelta(hours=1)  # where nothing is known
BACKOFF = timedelta(minutes=5)  # after the first failure; twice that after the second, and so on
LONGEST_ASKED = timedelta(days=366)
_SECONDS = re.compile(r'\s*(s-maxage|max-age)\s*=\s*"?(\d{1,12})"?\s*', re.IGNORECASE)

_random = Random()


def fresh_for(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """How long the server says that its answer stays fresh, by small names of headers; None if it says nothing to go by."""
    control = headers.get("cache-control", "")
    found = {match[1].lower(): int(match[2]) for part in control.split(",") if (match := _SECONDS.fullmatch(part))}
    if {"no-store", "no-cache"} & {part.strip().lower() for part in control.split(",")}:
        return None
    if found:
        # For us, and not for a cache that others share, is max-age.
        seconds = found.get("max-age", found.get("s-maxage", 0)) - _age(headers)
        return _bounded(timedelta(seconds=max(min(seconds, 10**9), 0)))
    return _until(headers.get("expires"), now)


def observed(times: Sequence[datetime], now: datetime) -> timedelta | None:
    """Half the time between entries, or longer when there was nothing for long; None when too little is known."""
    known = sorted(time for time in times if time <= now)
    if len(known) < 2 or known[-1] - known[0] < timedelta(minutes=1):
        return None
    between = (known[-1] - known[0]) / (len(known) - 1)
    return max(between / 2, (now - known[-1]) / 10)


def next_interval(*, seen: timedelta | None, asked: Sequence[timedelta | None], least: timedelta, most: timedelta) -> timedelta:
    """The time until the next fetch: what was observed, but not before anybody asked for it; always within the bounds."""
    wanted = max([DEFAULT if seen is None else seen, *(each for each in asked if each is not None)])
    return min(max(wanted, least), most)


def spread(interval: timedelta, most: timedelta, share: float = 0.05) -> timedelta:
    """A little more than that, so that feeds that came together do not stay together for ever."""
    return min(interval * (1 + _random.uniform(0, share)), most)


def backoff(failures: int, *, asked: timedelta | None, most: timedelta) -> timedelta:
    """The time until a feed is tried again that has failed so often in a row; not before its server asked for it."""
    doubled: timedelta = BACKOFF * 2 ** min(max(failures, 1) - 1, 20)
    return min(max(doubled, asked or timedelta(0)), most)


def _age(headers: Mapping[str, str]) -> int:
    text = headers.get("age", "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _until(value: str | None, now: datetime) -> timedelta | None:
    if value is None or len(value) > 64:
        return None
    try:
        at = parsedate_to_datetime(value)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        left = at - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return _bounded(left) if left > timedelta(0) else None


def _bounded(value: timedelta) -> timedelta:
    return min(value, LONGEST_ASKED)
