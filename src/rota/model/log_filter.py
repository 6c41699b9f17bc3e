"""Which lines are meant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from rota.errors import UsageError
from rota.model.filters import check_text

LEVEL_NAMES = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}
LEVELS = {name: level for level, name in LEVEL_NAMES.items()}
MAX_TEXT_CHARS = 500


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Lines for which everything that is given holds."""

    text: str | None = None  # words in message or values; "a phrase" in quotes, -word for without it, or between alternatives
    task: str | None = None
    level: str | None = None  # this one or worse
    job_id: UUID | None = None
    attempt: int | None = None
    since: datetime | timedelta | None = None  # a timedelta counts back from the database's now
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.level is not None and self.level not in LEVELS:
            raise UsageError(f"level={self.level!r} is not a level: one of {', '.join(LEVELS)}")
        if self.attempt is not None and self.job_id is None:
            raise UsageError("attempt= is of a job: give job_id= too")
        if self.attempt is not None and not 1 <= self.attempt < 2**63:
            raise UsageError(f"attempt={self.attempt!r} is out of range: from 1")
        for name in ("task", "text"):
            check_text(name, getattr(self, name))
        if self.text is not None and len(self.text) > MAX_TEXT_CHARS:
            raise UsageError(f"text= has {len(self.text)} characters: at most {MAX_TEXT_CHARS}")
        for name in ("since", "until"):
            moment = getattr(self, name)
            if isinstance(moment, datetime) and moment.tzinfo is None:
                raise UsageError(f"{name}={moment.isoformat()} has no time zone: give an aware datetime, e.g. in UTC")

    @property
    def least(self) -> int:
        """The number of the least level."""
        return LEVELS[self.level] if self.level else 0


def parse_run(text: str) -> tuple[UUID, int | None]:
    """A job's id, or a run's as in `0198…/2`."""
    id, slash, attempt = text.partition("/")
    try:
        return UUID(id), int(attempt) if slash else None
    except ValueError:
        raise UsageError(f"{text!r} is neither a job's id nor a run's: write 01980000-0000-7000-8000-000000000000/1") from None
