"""A schedule as it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import UUID

from rota.model.schedule import Strategy, Timing

_TIMES = ("next_run_at", "last_run_at", "failing_since", "created_at", "updated_at")
_TIMING_TIMES = ("starts_at", "ends_at")
_DURATIONS = ("every", "jitter", "start_within", "finish_within")
_TIMING = frozenset(Timing.__slots__)


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """One row: when a task runs by itself, and how that has gone so far."""

    id: UUID
    name: str | None
    task: str
    key: str | None
    payload: dict[str, Any]
    timing: Timing
    enabled: bool
    next_run_at: datetime | None
    last_run_at: datetime | None
    job_id: UUID | None
    queue: str | None
    priority: int | None
    max_attempts: int | None
    successes: int
    failures: int
    consecutive_failures: int
    failing_since: datetime | None
    last_error: dict[str, Any] | None
    definition: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime

    @property
    def strategy(self) -> Strategy:
        """How its times are found."""
        return self.timing.strategy

    @property
    def label(self) -> str:
        """What it is called on the command line: its name, or task and key of a recurring row."""
        return self.name or f"{self.task}/{self.key}"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What rota.show_schedule wrote."""
        values: dict[str, Any] = json.loads(text)
        timing = read_timing({name: values.pop(name) for name in _TIMING})
        for name in _TIMES:
            values[name] = _read_time(values[name])
        values["id"] = UUID(values["id"])
        values["job_id"] = UUID(values["job_id"]) if values["job_id"] is not None else None
        return cls(timing=timing, **values)


def read_timing(values: Mapping[str, Any]) -> Timing:
    """Read a timing from its stored form: durations in seconds, times as text."""
    read: dict[str, Any] = dict(values)
    for name in _TIMING_TIMES:
        read[name] = _read_time(read[name])
    for name in _DURATIONS:
        read[name] = timedelta(seconds=read[name]) if read[name] is not None else None
    return Timing(**read)


def _read_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text is not None else None
