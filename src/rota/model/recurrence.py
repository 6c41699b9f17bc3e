"""What the handler of a recurring task returns: when it wants to run next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from rota.errors import UsageError
from rota.model.duration import parse_duration

_LATEST = datetime(9999, 1, 1, tzinfo=UTC)  # what is later than that in some time zone, not every client can read


class Next(NamedTuple):
    """When a recurring row runs next: after `delay`, at `at`, or, with neither, after the same time as before."""

    delay: timedelta | None = None
    at: datetime | None = None


def read_next(value: Any) -> Next:
    """When the handler that returned `value` wants to run next."""
    match value:
        case None:
            return Next()
        case timedelta():
            return Next(delay=parse_duration(value, name="the next run, which the handler returned,"))
        case datetime():
            if value.utcoffset() is None:
                raise UsageError(f"the handler returned {value!r}, which has no time zone: write datetime(..., tzinfo=UTC)")
            try:
                at = value.astimezone(UTC)
            except OverflowError:
                at = _LATEST
            if at >= _LATEST:
                raise UsageError(f"the handler returned {value!r}, which is out of range: before {_LATEST:%Y} is allowed")
            return Next(at=at)
    raise UsageError(
        f"the handler of a recurring task returned {value!r}: "
        "return a timedelta or a datetime for the next run, or None for the same interval as before"
    )
