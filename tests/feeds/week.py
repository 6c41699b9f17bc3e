"""A week of ten thousand feeds on a virtual clock: `python -m tests.feeds.week`, or a smaller one.

The web is made up, and everything else is real: PostgreSQL, its clock moved five minutes at a time, the scheduler, the limits, the
claims, the handler, feedparser. At each step exactly those feeds have to be fetched that were due, each once.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import psycopg
from tests.feeds.world import World

from rota.config import LogSettings
from rota.contrib.testing.databases import run_databases
from rota.db.connection import close_quietly, connect_async
from rota.engine.drain import Drain
from rota.engine.options import LogOptions, WorkerOptions
from rota.engine.scheduler import Scheduler
from rota.events import Events
from rota.log import configure_logging
from rota.outbound.client import Answer, NotCalled

STEP = timedelta(minutes=5)
START = datetime(2026, 11, 16, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOST_CONCURRENCY = 2
LATER = "UPDATE rota.schedule SET next_run_at = next_run_at + interval '1 day' WHERE key = %s"
WAITING = "SELECT 1 FROM rota.job WHERE queue = 'feeds' AND run_at <= rota.now() LIMIT 1"
DUE = "SELECT id, next_fetch_at FROM feeds.feeds WHERE enabled AND next_fetch_at <= rota.now()"
SHOWN = 15  # entries that a document has
KINDS = {"etag": 50, "plain": 20, "cached": 10, "flaky": 8, "dead": 5, "unreachable": 3, "gone": 2, "moved": 2}  # percent


@dataclass
class Source:
    """A feed of the made-up web."""

    number: int
    kind: str
    host: str
    period: timedelta
    turns_at: datetime  # when it is gone, or has moved
    fetches: list[datetime] = field(default_factory=list)
    open: int = 0

    @property
    def url(self) -> str:
        """Where it was at first."""
        return f"http://{self.host}/{self.number}"

    def published(self, now: datetime) -> int:
        """How many entries it has had by then."""
        return (now - START) // self.period + SHOWN

    def document(self, now: datetime) -> bytes:
        """What it says then."""
        newest = self.published(now)
        items = "".join(
            f"<item><guid isPermaLink='false'>{number}</guid><title>Entry {number}</title>"
            f"<pubDate>{format_datetime(START + self.period * (number - SHOWN))}</pubDate></item>"
            for number in range(newest, newest - SHOWN, -1)
        )
        return f"<rss version='2.0'><channel><title>Feed {self.number}</title>{items}</channel></rss>".encode()


class Web:
    """Answers for all sources, at the time of the virtual clock, and watches how it is asked."""

    def __init__(self, feeds: int, week: timedelta, seed: int) -> None:
        dice = random.Random(seed)
        self.now = START
        self.dice = dice
        self.sources = {}
        self.open_hosts: Counter[str] = Counter()
        self.most_of_host = 0
        self.mistakes: list[str] = []
        self.fetched: Counter[int] = Counter()  # in this step
        self.statuses: Counter[str] = Counter()
        kinds = dice.choices(list(KINDS), weights=list(KINDS.values()), k=feeds)
        for number, kind in enumerate(kinds):
            host = "big.example" if number % 20 == 0 else f"h{dice.randrange(max(feeds // 3, 1))}.example"
            period = timedelta(minutes=round(dice.lognormvariate(8.0, 1.0)) + 30)
            self.sources[number] = Source(number, kind, host, period, START + week * dice.uniform(0.2, 0.8))

    async def download(self, url: str, headers: Mapping[str, str]) -> Answer:
        """Answer a question, a moment later, so that others come in between."""
        source = self.sources[int(url.split("/")[3])]
        if source.open:
            self.mistakes.append(f"feed {source.number} was fetched twice at once")
        source.open += 1
        self.open_hosts[source.host] += 1
        self.most_of_host = max(self.most_of_host, self.open_hosts[source.host])
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            source.fetches.append(self.now)
            self.fetched[source.number] += 1
            return self._answer(source, url, headers)
        finally:
            source.open -= 1
            self.open_hosts[source.host] -= 1

    def _answer(self, source: Source, url: str, headers: Mapping[str, str]) -> Answer:
        turned = self.now >= source.turns_at
        if source.kind == "unreachable":
            raise self._count("unreachable", NotCalled("dns", f"the name {source.host} was not found"))
        if source.kind == "dead" or (source.kind == "flaky" and self.dice.random() < 0.2):
            return self._made(url, 503 if source.kind == "flaky" else 500, retry_after="1200" if source.kind == "flaky" else None)
        if source.kind == "gone" and turned:
            return self._made(url, 410)
        tag = f'"{source.published(self.now)}"'
        moved_to = f"{source.url}/new" if source.kind == "moved" and turned and not url.endswith("/new") else None
        if source.kind != "plain" and headers.get("If-None-Match") == tag:
            return self._made(url, 304, etag=tag, moved_to=moved_to)
        control = f"max-age={round(source.period.total_seconds() / 2)}" if source.kind == "cached" else None
        etag = None if source.kind == "plain" else tag
        return self._made(url, 200, source.document(self.now), etag=etag, cache_control=control, moved_to=moved_to)

    def _made(self, url: str, status: int, body: bytes = b"", *, moved_to: str | None = None, **headers: str | None) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        return self._count(
            str(status), Answer(status, given, body, len(body), False, int(bool(moved_to)), moved_to or url, moved_to)
        )

    def _count(self, what: str, answer: Any) -> Any:
        self.statuses[what] += 1
        return answer


@dataclass
class Week:
    """What was seen."""

    feeds: int
    days: float
    fetches: int = 0
    steps: int = 0
    took_s: float = 0.0
    lateness_s: list[float] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    by_kind: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    statuses: Counter[str] = field(default_factory=Counter)
    entries: int = 0
    most_of_host: int = 0

    def figures(self) -> str:
        """All of it in words and numbers."""
        late = sorted(self.lateness_s) or [0.0]
        lines = [
            f"{self.feeds:,} feeds, {self.days:g} days in {self.steps:,} steps of {STEP}: "
            f"{self.fetches:,} fetches in {self.took_s:.0f} s ({self.fetches / max(self.took_s, 0.001):,.0f}/s)",
            f"late by {sum(late) / len(late):.0f} s on average, {late[int(len(late) * 0.99)]:.0f} s at p99, "
            f"{late[-1]:.0f} s at most (a step is {STEP.total_seconds():.0f} s)",
            f"at most {self.most_of_host} fetches from one host at once",
            "answers: " + ", ".join(f"{count:,} × {what}" for what, count in self.statuses.most_common()),
            f"entries stored: {self.entries:,}, none twice",
        ]
        for kind, counts in sorted(self.by_kind.items()):
            lines.append(
                f"  {kind:12} {len(counts):6,} feeds, fetches each: {min(counts)} to {max(counts)}, "
                f"{sum(counts) / len(counts):.1f} on average"
            )
        lines += [f"MISTAKE: {each}" for each in self.mistakes[:20]] or ["no mistakes"]
        return "\n".join(lines)


async def simulate(dsn: str, *, feeds: int, days: float, seed: int = 7, concurrency: int = 16, sabotage: bool = False) -> Week:
    """Let so many feeds live for so many days, and judge what is done to them."""
    started = time.monotonic()
    length = timedelta(days=days)
    web = Web(feeds, length, seed)
    week = Week(feeds, days)
    with psycopg.connect(dsn, autocommit=True) as conn:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as aconn:
            world = World(dsn, conn, aconn, host_concurrency=HOST_CONCURRENCY)
            world.clock.freeze(START)
            world.feeds.download = web.download  # type: ignore[method-assign]
            urls = [source.url for source in web.sources.values()]
            async for _ in world.feeds.import_now(aconn, urls, "ann"):
                pass
            numbers = {id: int(url.split("/")[3]) for id, url in conn.execute("SELECT id, url FROM feeds.feed")}
            await _live(world, web, week, numbers, START + length, concurrency, sabotage)
        _judge(conn, web, week, numbers, world)
        await world.app.aclose()
    week.took_s = time.monotonic() - started
    return week


async def _live(
    world: World, web: Web, week: Week, numbers: dict[int, int], until: datetime, concurrency: int, sabotage: bool
) -> None:
    scheduler = Scheduler(Events())
    options = WorkerOptions(queues=dict(world.app.queues), concurrency=concurrency, logs=LogOptions(enabled=False))
    conn = await connect_async(world.dsn, "week")
    try:
        async with Drain(world.dsn, world.app.tasks, options, Events()) as drain:
            while web.now < until:
                due = dict(world.conn.execute(DUE).fetchall())
                if sabotage and week.steps > 10 and due:
                    sabotage = False
                    world.conn.execute(LATER, [f"feed:{min(due)}"])
                web.fetched.clear()
                step_ends = web.now + STEP
                while True:
                    while await scheduler.tick(conn) or await drain.run_once():
                        pass
                    if world.conn.execute(WAITING).fetchone() is None or web.now + SECOND >= step_ends:
                        break
                    # They wait for a place at their host, and it is looked for one a moment later.
                    web.now += SECOND
                    world.clock.move(SECOND)
                    due = {**dict(world.conn.execute(DUE).fetchall()), **due}  # in that moment others may have become due
                _compare(web, week, {numbers[id]: at for id, at in due.items()})
                week.steps += 1
                world.clock.move(step_ends - web.now)
                web.now = step_ends
    finally:
        await close_quietly(conn)


def _compare(web: Web, week: Week, due: dict[int, datetime]) -> None:
    """At a step, those that were due were fetched, each once, and nobody else."""
    week.fetches += web.fetched.total()
    for number, times in web.fetched.items():
        if times != 1 or number not in due:
            week.mistakes.append(
                f"feed {number} was fetched {times} times at {web.now}, and was {'' if number in due else 'not '}due"
            )
    for number, at in due.items():
        week.lateness_s.append((web.now - at).total_seconds())
        if number not in web.fetched:
            week.mistakes.append(f"feed {number} was due at {at} and not fetched at {web.now}")


def _judge(conn: psycopg.Connection[Any], web: Web, week: Week, numbers: dict[int, int], world: World) -> None:
    week.mistakes += web.mistakes
    week.statuses, week.most_of_host = web.statuses, web.most_of_host
    if web.most_of_host > HOST_CONCURRENCY:
        week.mistakes.append(f"{web.most_of_host} fetches from one host at once")
    most = world.feeds.options.max_interval
    rows = conn.execute(
        "SELECT id, health, entry_count, (SELECT count(*) FROM feeds.entry e WHERE e.feed_id = f.id) FROM feeds.feeds f"
    )
    for id, health, entry_count, stored in rows.fetchall():
        source = web.sources[numbers[id]]
        week.by_kind[source.kind].append(len(source.fetches))
        week.entries += stored
        _judge_one(week, source, health, entry_count, stored, web.now, most)


def _judge_one(week: Week, source: Source, health: str, entry_count: int, stored: int, now: datetime, most: timedelta) -> None:
    name = f"feed {source.number} ({source.kind})"
    gaps = [later - earlier for earlier, later in pairwise(source.fetches)]
    is_gone = source.kind == "gone" and bool(source.fetches) and source.fetches[-1] >= source.turns_at
    if (
        not source.fetches
        or (not is_gone and now - source.fetches[-1] > most + 2 * STEP)
        or any(gap > most + 2 * STEP for gap in gaps)
    ):
        week.mistakes.append(f"{name} was starved: {source.fetches[-3:]} until {now}")
    if source.kind in ("dead", "unreachable"):
        if any(later < earlier - STEP for earlier, later in pairwise(gaps)) or health != "failing" or stored:
            week.mistakes.append(f"{name} did not back off: {[str(gap) for gap in gaps]}")
    elif is_gone and (health != "gone" or sum(at >= source.turns_at for at in source.fetches) != 1):
        week.mistakes.append(f"{name} is gone and {health}, fetched {len(source.fetches)} times")
    elif source.kind != "flaky" and not is_gone and health != "ok":
        week.mistakes.append(f"{name} is {health}")
    if source.kind in ("etag", "plain", "cached", "moved") and source.fetches:
        published = source.published(source.fetches[-1])
        if not (stored == entry_count == published):
            week.mistakes.append(f"{name} has {stored} entries, says {entry_count}, and has published {published}")


def main() -> None:
    """Run a week and print its figures."""
    parser = argparse.ArgumentParser(description="A simulated week of feeds.")
    parser.add_argument("--feeds", type=int, default=10_000)
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    configure_logging(LogSettings(level="warning"))
    with run_databases() as databases, databases.fresh() as name:
        week = asyncio.run(simulate(databases.dsn(name), feeds=given.feeds, days=given.days, seed=given.seed))
    print(week.figures())
    sys.exit(bool(week.mistakes))


if __name__ == "__main__":
    main()
