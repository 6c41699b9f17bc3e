"""When a failed job runs again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from rota.errors import UsageError
from rota.model.duration import Duration, parse_duration


@dataclass(frozen=True, slots=True)
class Retry:
    """Attempts and backoff: `base · 2^(attempt − 1)`, at most `cap`, plus up to `jitter`.

    Without `max_attempts` there are as many as otherwise: for a task by the settings, for a job by its task.
    """

    max_attempts: int | None = None
    base: Duration = timedelta(seconds=5)
    cap: Duration = timedelta(minutes=5)
    jitter: Duration = timedelta(seconds=1)

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            check_max_attempts(self.max_attempts)
        for name in ("base", "cap", "jitter"):
            object.__setattr__(self, name, parse_duration(getattr(self, name), name=f"retry.{name}"))

    def delay(self, attempt: int, random: Random) -> timedelta:
        """How long to wait after failed attempt number `attempt` (from 1)."""
        base, cap, jitter = (value.total_seconds() for value in (self.base, self.cap, self.jitter))  # type: ignore[union-attr]
        # The exponent is bounded because the cap is reached long before a float overflows.
        return timedelta(seconds=min(base * 2.0 ** min(attempt - 1, 60), cap) + random.uniform(0, jitter))

    def to_json(self) -> dict[str, Any]:
        """The policy as it is stored with a job."""
        base, cap, jitter = (value.total_seconds() for value in (self.base, self.cap, self.jitter))  # type: ignore[union-attr]
        return {"max_attempts": self.max_attempts, "base": base, "cap": cap, "jitter": jitter}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Retry:
        """The policy that `to_json` stored."""
        return cls(**value)


def policy_of(retry: Retry | None, max_attempts: int | None, *, retries: int) -> Retry:
    """Return a task's policy: `retry`, with `max_attempts` or else `retries` after the first attempt."""
    retry = retry or Retry()
    if max_attempts is not None:
        check_max_attempts(max_attempts)
    return replace(retry, max_attempts=max_attempts or retry.max_attempts or 1 + retries)


def check_max_attempts(value: int) -> None:
    """Refuses a number of attempts that the database would refuse."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise UsageError(f"max_attempts={value!r} is out of range: from 1 to 1000")
