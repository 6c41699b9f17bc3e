"""When a task runs by itself: cron, every, init; checked when it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from rota.errors import UsageError
from rota.model.cron import Cron
from rota.model.duration import Duration, parse_duration

Strategy = Literal["cron", "interval", "init", "recurring"]
Misfire = Literal["latest", "skip", "all"]
Overlap = Literal["allow", "skip", "queue_one"]

SHORTEST = timedelta(seconds=1)
LONGEST_JITTER = timedelta(days=1)
MOST_CATCH_UP = 10_000

_TIMES = ("strategy", "cron", "every", "tz", "starts_at", "ends_at")  # of a timing: what decides when instants are


@dataclass(frozen=True, slots=True)
class Timing:
    """What `cron`, `every` and `init` make: when instants are, and what to do when one is missed or the last job still runs."""

    strategy: Strategy
    cron: str | None = None
    every: timedelta | None = None
    tz: str = "UTC"
    misfire: Misfire = "latest"
    catch_up: int = 100
    overlap: Overlap = "allow"
    jitter: timedelta = timedelta(0)
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    start_within: timedelta | None = None
    finish_within: timedelta | None = None

    def first(self, now: datetime) -> datetime | None:
        """The first instant after `now`, None if there is none."""
        match self.strategy:
            case "init":
                return now
            case "cron":
                begin = now if self.starts_at is None else max(now, self.starts_at - timedelta(microseconds=1))
                at = self.parsed.next_after(begin)
            case _:
                assert self.every is not None
                at = self.starts_at if self.starts_at is not None and self.starts_at > now else now + self.every
        return self.bounded(at)

    def replanned(self, before: Timing, next_run_at: datetime | None, now: datetime) -> datetime | None:
        """When a schedule fires next that went by `before` until now: what is due stays due, what is not changed keeps its beat."""
        is_due = next_run_at is not None and next_run_at <= now
        is_same = all(getattr(self, name) == getattr(before, name) for name in _TIMES)
        return next_run_at if is_due or is_same else self.first(now)

    def bounded(self, at: datetime | None) -> datetime | None:
        """`at`, unless the schedule has ended by then."""
        return None if at is None or (self.ends_at is not None and at > self.ends_at) else at

    @property
    def parsed(self) -> Cron:
        """The cron expression, ready to be asked."""
        assert self.cron is not None
        return Cron.parse(self.cron, self.tz)

    def describe(self) -> str:
        """The timing in words."""
        match self.strategy:
            case "cron":
                return self.parsed.describe()
            case "init":
                return "once ever"
            case _:
                from rota.model.duration import show_duration

                assert self.every is not None
                return f"every {show_duration(self.every)}"


def cron(
    expression: str,
    *,
    tz: str = "UTC",
    misfire: Misfire = "latest",
    catch_up: int = 100,
    overlap: Overlap = "allow",
    jitter: Duration = 0,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    start_within: Duration | None = None,
    finish_within: Duration | None = None,
) -> Timing:
    """At the times of a cron expression (five fields, or @daily and the like) in a time zone.

    After downtime `misfire` runs the latest instant that was missed, skips what is late, or runs all (the last `catch_up` of
    them). While the job of the instant before is not done, `overlap` allows another one, skips it, or queues one to follow.
    A job that does not begin or end within its deadline raises an alert.
    """
    parsed = Cron.parse(expression, tz)
    return timing(
        strategy="cron", cron=parsed.expression, tz=parsed.tz, misfire=misfire, catch_up=catch_up, overlap=overlap, jitter=jitter,
        starts_at=starts_at, ends_at=ends_at, start_within=start_within, finish_within=finish_within,
    )  # fmt: skip


def every(
    interval: Duration,
    *,
    misfire: Misfire = "latest",
    catch_up: int = 100,
    overlap: Overlap = "allow",
    jitter: Duration = 0,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    start_within: Duration | None = None,
    finish_within: Duration | None = None,
) -> Timing:
    """Again and again after this much time; the rest is as for `cron`."""
    return timing(
        strategy="interval", every=interval, misfire=misfire, catch_up=catch_up, overlap=overlap, jitter=jitter,
        starts_at=starts_at, ends_at=ends_at, start_within=start_within, finish_within=finish_within,
    )  # fmt: skip


init = Timing("init")
"""Once ever: when the task is first seen, and again at later starts until it has succeeded."""


def timing(**given: Any) -> Timing:
    """A timing from values that a user wrote, each checked."""
    wanted = ("jitter", "every") if given["strategy"] == "interval" else ("jitter",)
    for name in ("jitter", "start_within", "finish_within", "every"):
        if name in wanted or given.get(name) is not None:
            given[name] = parse_duration(given[name], name=name, positive=name != "jitter")
    if given["jitter"] > LONGEST_JITTER:
        raise UsageError(f"jitter={given['jitter']} is out of range: from 0 to {LONGEST_JITTER}")
    if given.get("every") is not None and given["every"] < SHORTEST:
        raise UsageError(f"every={given['every']} is out of range: at least a second; what runs oftener is a loop in a handler")
    _check_choice("misfire", given["misfire"], Misfire)
    _check_choice("overlap", given["overlap"], Overlap)
    catch_up = given["catch_up"]
    if isinstance(catch_up, bool) or not isinstance(catch_up, int) or not 1 <= catch_up <= MOST_CATCH_UP:
        raise UsageError(f"catch_up={catch_up!r} is out of range: from 1 to {MOST_CATCH_UP}")
    for name in ("starts_at", "ends_at"):
        given[name] = _read_time(name, given[name])
    if given["starts_at"] is not None and given["ends_at"] is not None and given["starts_at"] >= given["ends_at"]:
        raise UsageError(f"ends_at={given['ends_at']} is not after starts_at={given['starts_at']}")
    return Timing(**given)


def changed(timing_: Timing, **changes: Any) -> Timing:
    """A timing with some of it changed, checked like a new one."""
    if changes.get("cron") is not None and changes.get("every") is not None:
        raise UsageError("give cron or every, not both")
    if changes.get("cron") is not None:
        changes |= {"strategy": "cron", "every": None}
    elif changes.get("every") is not None:
        changes |= {"strategy": "interval", "cron": None}
    merged = {name: changes.get(name, getattr(timing_, name)) for name in Timing.__slots__}
    if merged["cron"] is not None:
        parsed = Cron.parse(merged["cron"], merged["tz"])
        merged |= {"cron": parsed.expression, "tz": parsed.tz}
    elif changes.get("tz", "UTC") != "UTC":
        raise UsageError(f"tz={changes['tz']!r} has no meaning without a cron expression: intervals are the same everywhere")
    return timing(**merged)


def _check_choice(name: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        raise UsageError(f"{name}={value!r} is unknown: give one of {', '.join(get_args(choices))}")


def _read_time(name: str, value: datetime | None) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise UsageError(f"{name}={value!r} is not a time with a zone: write datetime(..., tzinfo=UTC)")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise UsageError(f"{name}={value!r} is out of range: in UTC it is not in the years 1 to 9999") from None
