"""Durations as people write them: `30`, `"30s"`, `"5m"`, `"1h30m"`, `timedelta(...)`."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from rota.errors import UsageError

Duration = timedelta | float | int | str

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_LONGEST = timedelta(days=3660)


def parse_duration(value: Duration, *, name: str = "duration", positive: bool = False) -> timedelta:
    """The timedelta that `value` says; numbers are seconds. `name` is the argument that an error speaks of."""
    if isinstance(value, timedelta):
        seconds: float = value.total_seconds()
    elif isinstance(value, str):
        text = value.strip().lower()
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise UsageError(f'{name}={value!r} is not a duration: write "30s", "5m", "1h30m" (units ms, s, m, h, d, w)')
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    elif isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == math.inf:
        raise UsageError(f"{name}={value!r} is not a duration: give seconds, a timedelta or text such as '5m'")
    else:
        seconds = value
    span = timedelta(seconds=seconds) if 0 <= seconds <= _LONGEST.total_seconds() else None
    if span is None or (positive and not span):
        least = "a microsecond" if positive else "0"
        raise UsageError(f"{name}={value!r} is out of range: from {least} to {_LONGEST.days} days")
    return value if isinstance(value, timedelta) else span


def show_duration(value: timedelta) -> str:
    """A duration in its two largest units: `3d 4h`, `1m 5s`, `0.25s`."""
    seconds = value.total_seconds()
    if seconds < 0:
        return "-" + show_duration(-value)
    if seconds < 10:
        return f"{seconds:.3g}s"
    whole = round(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count)
