"""A job that synchronises a pair of calendars, as it is asked for and as it is stored."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rota.errors import UsageError
from rota.model.job import encode_object
from rota.model.retry import Retry

TASK = "sync_pair"
QUEUE = "calendar"  # of its own: workers that do not have the application must not claim these jobs, and fail them as unknown
RETRIES = 5
RETRY = Retry(max_attempts=RETRIES + 1, base="1m", cap="30m")  # after 1, 2, 4, 8 and 16 minutes
MOST = 100  # jobs of one request
MAX_PAYLOAD_BYTES = 65_536

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def _as_text(value: Any) -> Any:
    if not isinstance(value, str) or not _MOMENT.match(value):  # a number would be taken for seconds since 1970
        raise ValueError("a time with its offset is needed, such as 2030-01-01T00:00:00Z")
    return value


def _in_utc(value: datetime) -> datetime:
    if not _FIRST <= value <= _LAST:  # also those that astimezone could not write
        raise ValueError("a time from 1970 to 9998 is needed")
    return value.astimezone(UTC)


def _check_payload(value: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(encode_object("payload", value).encode())
    except UsageError:  # whose words show the value, which may be secret
        raise ValueError(
            "it cannot be stored: it has a NUL, a lone surrogate, a number that JSON does not know, or no end"
        ) from None
    if size > MAX_PAYLOAD_BYTES:
        raise ValueError(f"it has {size} bytes: at most {MAX_PAYLOAD_BYTES}")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_as_text), AfterValidator(_in_utc)]


class CalendarJob(BaseModel):
    """One synchronisation: which pair of calendars, by which connector, and what part of their time."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        regex_engine="python-re",
        json_schema_extra={
            "example": {
                "calendar_pair_id": "team-and-rooms",
                "connector": "caldav",
                "window_start": "2030-01-01T00:00:00Z",
                "window_end": "2030-02-01T00:00:00Z",
            }
        },
    )

    calendar_pair_id: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@/-]{0,199}\Z", description="The pair of calendars.")
    connector: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,49}\Z", description="The connector, such as `caldav` or `ics`.")
    window_start: Moment = Field(description="From when on; a time with its offset from UTC.")
    window_end: Moment = Field(description="Until when; later than window_start.")
    payload: Annotated[dict[str, Any], AfterValidator(_check_payload)] = Field(
        default_factory=dict, description="What else the connector is told; a JSON object."
    )
    priority: int = Field(default=0, ge=-32768, le=32767, strict=True, description="Smaller numbers run first.")
    max_retries: int = Field(default=RETRIES, ge=0, le=99, strict=True, description="Attempts after the first one.")
    run_at: Moment | None = Field(default=None, description="When it is due; at once if nothing is said.")

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.window_end <= self.window_start:
            raise ValueError("window_end must be later than window_start")
        return self

    def stored(self) -> dict[str, Any]:
        """The payload of the job: the arguments of the handler of `sync_pair`."""
        return {
            "calendar_pair_id": self.calendar_pair_id,
            "connector": self.connector,
            "window_start": self.window_start.isoformat(),
            "window_end": self.window_end.isoformat(),
            "payload": self.payload,
        }

    def row(self) -> dict[str, Any]:
        """Everything that was asked for, in plain values."""
        policy = replace(RETRY, max_attempts=self.max_retries + 1)
        return {
            "payload": self.stored(),
            "priority": self.priority,
            "run_at": self.run_at and self.run_at.isoformat(),
            "max_attempts": policy.max_attempts,
            "retry": policy.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A job that was stored: `id` is what `rota jobs show` takes."""

    id: UUID
    task: str
    queue: str
    calendar_pair_id: str
    connector: str
    window_start: datetime
    window_end: datetime
    priority: int
    run_at: datetime | None
    max_attempts: int


@dataclass(frozen=True, slots=True)
class ScheduledJobs:
    """The answer of `POST /jobs/schedule`, in the order of the request."""

    jobs: list[ScheduledJob]
