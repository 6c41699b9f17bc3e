"""What a scheduler does about a due schedule: which instants to fire, which to pass over and why, and when to look again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rota.model.schedule import Timing

GRACE = timedelta(minutes=1)  # an instant that is later than this was missed

Reason = Literal["outage", "misfire"]

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Instants that were passed over: one, or so many in a row from `instant` to `until`."""

    instant: datetime
    until: datetime | None
    instants: int | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Firing:
    """The plan for one due schedule."""

    fire: list[datetime]
    skip: list[Skipped]
    next: datetime | None


def plan(timing: Timing, due: datetime, now: datetime) -> Firing:
    """What to do at `now` about a schedule whose next instant was `due`, by its policies."""
    if timing.strategy == "init":
        return Firing([due], [], None)
    if timing.bounded(due) is None:
        return Firing([], [], None)
    until = now if timing.ends_at is None else min(now, timing.ends_at)
    [last] = _newest(timing, due, until, 1)
    keep = {"latest": 1, "skip": int(now - last <= GRACE), "all": timing.catch_up}[timing.misfire]
    fire = _newest(timing, due, until, keep)
    skip = [_passed_over(timing, due, fire[0] - _INSTANT if fire else until)] if fire[:1] != [due] else []
    if timing.strategy == "cron":
        next = timing.parsed.next_after(now)
    else:
        assert timing.every is not None
        # On time, it keeps its beat; after an outage it begins a new one, unless all instants of the old one were wanted.
        next = last + timing.every if timing.misfire == "all" or now - due <= GRACE else now + timing.every
    return Firing(fire, skip, timing.bounded(next))


def _newest(timing: Timing, due: datetime, until: datetime, most: int) -> list[datetime]:
    """The newest instants from `due` to `until`, in their order; `due` is one, whatever the timing says now."""
    if timing.strategy == "interval":
        assert timing.every is not None
        steps = (until - due) // timing.every
        return [due + n * timing.every for n in range(max(steps - most + 1, 0), steps + 1)]
    cron, at, instants = timing.parsed, until, list[datetime]()
    while len(instants) < most and at >= due:
        instants.append(max(cron.latest_before(at) or due, due))
        at = instants[-1] - _INSTANT
    return instants[::-1]


def _passed_over(timing: Timing, due: datetime, until: datetime) -> Skipped:
    reason: Reason = "misfire" if timing.misfire == "skip" else "outage"
    [last] = _newest(timing, due, until, 1)
    if last == due:
        return Skipped(due, None, None, reason)
    if timing.every is not None:
        return Skipped(due, last, 1 + (last - due) // timing.every, reason)
    return Skipped(due, last, 1 + timing.parsed.count(due, last), reason)
