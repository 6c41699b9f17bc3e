"""The header Retry-After: when a server wants to be asked again, as far as that makes sense."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_S = 3600.0  # a server that wants to be left alone for longer is asked once an hour
STATUSES = (429, 503)


def read_retry_after(value: str | None, *, now: datetime | None = None) -> float | None:
    """Seconds to wait, from 0 to an hour; None when the header says nothing that can be understood."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), MAX_S)
    if len(text) > 64:
        return None
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    try:
        wait_s = (at - (now or datetime.now(UTC))).total_seconds()
    except OverflowError:
        return None
    return min(max(wait_s, 0.0), MAX_S)
