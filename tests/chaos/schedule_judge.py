"""Judges from outside what became of every instant.

What was fired is known from a record of the harness's own: a trigger on rota.job writes each job of a schedule to a table that Rota
knows nothing of, in the transaction that makes the job, so it has every job that was ever committed and no other. The instants
that had to come are listed by an oracle that shares no code with the product (cron), or follow one from the other (intervals).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg

from rota.model.schedule import Timing

GRACE = timedelta(minutes=1)
SCHEMA = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.fired (
    schedule text NOT NULL, instant timestamptz NOT NULL, at timestamptz NOT NULL, decision text NOT NULL,
    live bigint NOT NULL, waiting bigint NOT NULL  -- jobs of the same schedule at that moment
);
CREATE TABLE chaos.overlapped (schedule text NOT NULL, instant timestamptz NOT NULL, live bigint NOT NULL, waiting bigint NOT NULL);
CREATE FUNCTION chaos.write_fired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.fired
    SELECT (SELECT name FROM rota.schedule WHERE id = NEW.schedule_id), NEW.scheduled_for, rota.now(), pg_current_xact_id()::text,
           count(*), count(*) FILTER (WHERE state <> 'running')
    FROM rota.job WHERE schedule_id = NEW.schedule_id AND id <> NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER write_fired AFTER INSERT ON rota.job FOR EACH ROW EXECUTE FUNCTION chaos.write_fired();
CREATE FUNCTION chaos.write_overlapped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos.overlapped
    SELECT (SELECT name FROM rota.schedule WHERE id = NEW.schedule_id), NEW.instant,
           count(*), count(*) FILTER (WHERE state <> 'running')
    FROM rota.job WHERE schedule_id = NEW.schedule_id;
    RETURN NULL;
END $$;
CREATE TRIGGER write_overlapped AFTER INSERT ON rota.occurrence FOR EACH ROW WHEN (NEW.reason = 'overlap')
EXECUTE FUNCTION chaos.write_overlapped();
"""


class Fired(NamedTuple):
    """A job, as the trigger saw it."""

    instant: datetime
    at: datetime
    decision: str  # the transaction
    live: int
    waiting: int


class Line(NamedTuple):
    """A line of the product's ledger."""

    instant: datetime
    until: datetime
    instants: int | None
    what: str  # fired, or why not
    at: datetime


@dataclass(slots=True)
class Story:
    """What is known about one schedule."""

    name: str
    timing: Timing
    fired: list[Fired] = field(default_factory=list)
    ledger: list[Line] = field(default_factory=list)
    overlapped: list[tuple[int, int]] = field(default_factory=list)  # jobs live and waiting when it was passed over for them
    enabled_at: list[datetime] = field(default_factory=list)
    rewound: bool = False  # enabled after the clock was set back: it went through some instants again


Finding = tuple[str, str]


def collect(conn: psycopg.Connection[Any], timings: dict[str, Timing]) -> dict[str, Story]:
    """Read what the harness's triggers and the product have written."""
    conn.execute("SET timezone = 'UTC'")
    stories = {name: Story(name, timing) for name, timing in timings.items()}
    for name, *values in conn.execute("SELECT schedule, instant, at, decision, live, waiting FROM chaos.fired ORDER BY instant"):
        stories[name].fired.append(Fired(*values))
    statement = """SELECT s.name, o.instant, coalesce(o.until, o.instant), o.instants, coalesce(o.reason, o.outcome), o.decided_at
                   FROM rota.occurrence o JOIN rota.schedule s ON s.id = o.schedule_id ORDER BY o.instant"""
    for name, *values in conn.execute(statement):
        stories[name].ledger.append(Line(*values))
    for name, live, waiting in conn.execute("SELECT schedule, live, waiting FROM chaos.overlapped"):
        stories[name].overlapped.append((live, waiting))
    return stories


def judge(story: Story, expected: list[datetime] | None, begin: datetime, until: datetime) -> Iterator[Finding]:
    """Everything that is wrong; `expected` are the instants of a cron schedule, an interval's follow from its beginning."""
    count = Counter(each.instant for each in story.fired)
    yield from (("fired twice", f"{story.name} at {at}: {n} jobs") for at, n in count.items() if n > 1)
    yield from (("fired too early", f"{story.name} {each}") for each in story.fired if each.at < each.instant)
    told = {line.instant for line in story.ledger if line.what == "fired"}
    yield from (("ledger and jobs disagree", f"{story.name} at {at}") for at in sorted(told ^ set(count)))
    yield from _judge_policies(story)
    if expected is None:
        yield from _judge_beat(story, begin, until)
    else:
        yield from _judge_instants(story, expected, set(count))
        yield from _judge_newest(story, expected)


def _judge_policies(story: Story) -> Iterator[Finding]:
    timing = story.timing
    most = timing.catch_up if timing.misfire == "all" else 1
    for decision, n in Counter(each.decision for each in story.fired).items():
        if n > most:
            yield "over its cap", f"{story.name} made {n} jobs at once, at most {most} were allowed (transaction {decision})"
    allowed = {"fired", "misfire" if timing.misfire == "skip" else "outage"} | ({"overlap"} if timing.overlap != "allow" else set())
    for line in story.ledger:
        if line.what not in allowed and not (line.what == "disabled" and line.until in story.enabled_at):
            yield "a reason that cannot be", f"{story.name} {line}"
    for each in story.fired:
        if (timing.overlap == "skip" and each.live) or (timing.overlap == "queue_one" and each.waiting):
            yield "overlapped", f"{story.name} {each}"
    for live, waiting in story.overlapped:
        if not (live if timing.overlap == "skip" else waiting):
            yield "passed over for no job", f"{story.name}: {live} live, {waiting} waiting"


def _judge_instants(story: Story, expected: list[datetime], fired: set[datetime]) -> Iterator[Finding]:
    """Each instant that had to come is fired or in one line that says why not; nothing else is."""
    accounted: Counter[datetime] = Counter(fired)
    for line in story.ledger:
        if line.what == "fired":
            continue
        inside = expected[bisect_left(expected, line.instant) : bisect_right(expected, line.until)]
        accounted.update(inside)
        if line.instants not in (None, len(inside)) or not inside:
            yield "counted wrongly", f"{story.name} {line}: there were {len(inside)}"
    yield from (("never accounted for", f"{story.name} at {at}") for at in expected if not accounted[at])
    yield from (("fired without being due", f"{story.name} at {at}") for at in sorted(fired - set(expected)))
    if not story.rewound:
        yield from (("accounted for twice", f"{story.name} at {at}") for at, n in accounted.items() if n > 1)


def _judge_newest(story: Story, expected: list[datetime]) -> Iterator[Finding]:
    """What is fired late is what the policy wants: the newest, or the newest few, or nothing."""
    most = story.timing.catch_up if story.timing.misfire == "all" else 1
    for each in story.fired:
        reached = bisect_right(expected, each.at)
        if each.instant not in expected[max(reached - most, 0) : reached]:
            yield "not one of the newest", f"{story.name} {each}"
        if story.timing.misfire == "skip" and each.at - each.instant > GRACE:
            yield "fired too late", f"{story.name} {each}"


def _judge_beat(story: Story, begin: datetime, until: datetime) -> Iterator[Finding]:
    """Goes through an interval's decisions, each of which says when the next must be."""
    timing = story.timing
    assert timing.every is not None
    decisions: dict[datetime, list[Line]] = defaultdict(list)
    for line in story.ledger:
        decisions[line.at].append(line)
    next: datetime | None = timing.starts_at if timing.starts_at is not None and timing.starts_at > begin else begin + timing.every
    end = timing.ends_at or datetime.max.replace(tzinfo=begin.tzinfo)
    next = next if next <= end else None
    for at, lines in sorted(decisions.items(), key=lambda decision: decision[1][0].instant):
        due, last = lines[0].instant, lines[-1].until
        if due != next:
            yield "off the beat", f"{story.name} decided at {at} about {due}, not about {next}"
        missed = (min(at, end) - due) // timing.every + 1
        counted = sum(line.instants or 1 for line in lines)
        if counted != missed or last != due + (missed - 1) * timing.every:
            yield (
                "counted wrongly",
                f"{story.name} decided at {at} about {counted} instants from {due} to {last}: there were {missed}",
            )
        next = last + timing.every if timing.misfire == "all" or at - due <= GRACE else at + timing.every
        next = next if next <= end else None
    if next is not None and next <= until:
        yield "never accounted for", f"{story.name} at {next}"
