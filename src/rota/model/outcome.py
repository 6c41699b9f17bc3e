"""What a handler may return instead of a result. Outcomes are values, matched once, in the executor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rota.model.duration import Duration, parse_duration


@dataclass(frozen=True, slots=True)
class Snooze:
    """Run this job again after `delay`; the run does not count against max_attempts."""

    delay: Duration

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", parse_duration(self.delay, name="Snooze.delay"))

    @property
    def interval(self) -> timedelta:
        return parse_duration(self.delay)


@dataclass(frozen=True, slots=True)
class Cancel:
    """End this job as canceled, for `reason`."""

    reason: str = "canceled by its handler"


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """The run failed, for `reason`; try again after `delay` instead of the policy's backoff."""

    delay: Duration
    reason: str = "asked to be retried later"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", parse_duration(self.delay, name="RetryAfter.delay"))

    @property
    def interval(self) -> timedelta:
        return parse_duration(self.delay)
