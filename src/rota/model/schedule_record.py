"""A schedule as it is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import UUID

from rota.model.schedule import Strategy, Timing

_TIMES = ("next_run_at", "last_run_at", "failing_since", "created_at", "updated_at", "starts_at", "ends_at")
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
        for name in _TIMES:
            values[name] = datetime.fromisoformat(values[name]).astimezone(UTC) if values[name] is not None else None
        for name in _DURATIONS:
            values[name] = timedelta(seconds=values[name]) if values[name] is not None else None
        values["id"] = UUID(values["id"])
        values["job_id"] = UUID(values["job_id"]) if values["job_id"] is not None else None
        timing = Timing(**{name: values.pop(name) for name in _TIMING})
        return cls(timing=timing, **values)
