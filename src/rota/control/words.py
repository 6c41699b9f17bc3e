"""Numbers and times as sentences say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rota.model.capped import Capped
from rota.model.duration import show_duration


def span(value: timedelta) -> str:
    """How far apart two instants are, whichever comes first."""
    return show_duration(abs(value))


def moment(at: datetime) -> str:
    """An instant, to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def number(count: int | Capped, noun: str) -> str:
    """`1 job`, `1,200 jobs`, `10k+ jobs`."""
    capped = count if isinstance(count, Capped) else Capped(count)
    return f"{capped} {noun if capped == Capped(1) else noun + 's'}"


def shorten(text: str, length: int = 200) -> str:
    """The text in one line, and not a long one."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def describe_unknown(task: str, is_refused: bool) -> str:
    """Say why no live worker can run jobs of a task."""
    return f"no live worker's version of task {task} accepts the payload" if is_refused else f"no live worker knows task {task}"
