"""What `rota demo` shows: figures read from the database once a second, as a live view or as plain lines."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

import psycopg
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rota.config import Settings
from rota.control.accounts import SIGN_IN_PATH, admin_link, hash_of
from rota.control.schedule_views import describe, last_state, list_schedules
from rota.db import queries
from rota.model.duration import show_duration
from rota.store.schedule_reads import ScheduleLine

SQL = queries.load("demo")
WINDOW = timedelta(minutes=1)  # jobs older than this have ended: their runs are counted a last time, and kept as a sum
LIVE = {"running": "cyan", "queued": "white", "later": "blue", "waiting": "magenta"}
FATES = {
    "completed": "green",
    "snoozed": "blue",
    "retried": "yellow",
    "timed out": "yellow",
    "lost": "red",
    "failed": "red",
    "canceled": "magenta",
}
TEXT_COLUMNS = {
    "ended runs",
    "worker process",
    "failed at",
    "task",
    "then",
    "error",
    "schedule",
    "when",
    "last firing",
}
SUPPLIERS_SHOWN = 5  # of the recurring rows
BARS = " ▁▂▃▄▅▆▇█"


@dataclass
class Figures:
    """The state of the demo, and how it got there."""

    started_at: datetime
    now: datetime
    live: dict[str, int] = field(default_factory=dict)
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)  # by task and fate
    failures: list[tuple[Any, ...]] = field(default_factory=list)
    workers: list[tuple[Any, ...]] = field(default_factory=list)
    schedules: list[ScheduleLine] = field(default_factory=list)
    fired: int = 0  # instants of schedules
    skipped: int = 0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=60))  # jobs completed per second

    def fate(self, name: str) -> int:
        """How many runs ended this way."""
        return sum(count for (_, fate), count in self.ended.items() if fate == name)


class Gauge:
    """Reads the figures, at a cost that does not grow with the length of the demo."""

    def __init__(self, conn: psycopg.AsyncConnection[tuple[Any, ...]], now: datetime) -> None:
        self._conn = conn
        self._settled: Counter[tuple[str, str]] = Counter()
        self._settled_until = now
        self.figures = Figures(now, now)

    @classmethod
    async def starting_now(cls, conn: psycopg.AsyncConnection[tuple[Any, ...]]) -> Self:
        """A gauge of the jobs made from now on, by the database's clock."""
        row = await (await conn.execute("SELECT rota.now()")).fetchone()
        assert row is not None
        return cls(conn, row[0])

    async def read(self) -> Figures:
        """Brings the figures up to date."""
        figures = self.figures
        before, completed_before = figures.now, figures.fate("completed")
        (figures.now,) = (await self._fetch("SELECT rota.now()"))[0]
        if figures.now - self._settled_until > 2 * WINDOW:
            until = figures.now - WINDOW
            self._settled += await self._count(self._settled_until, until)
            self._settled_until = until
        figures.ended = self._settled + await self._count(self._settled_until, figures.now + WINDOW)
        figures.live = dict(await self._fetch(SQL["demo_live"]))
        figures.failures = await self._fetch(SQL["demo_failures"], since=figures.now - WINDOW, limit=4)
        figures.workers = await self._fetch(SQL["demo_workers"])
        [(figures.fired, figures.skipped)] = await self._fetch(SQL["demo_fired"])
        named, rows = await list_schedules(self._conn), await list_schedules(self._conn, recurring=True, limit=SUPPLIERS_SHOWN)
        figures.schedules = named.schedules + rows.schedules
        elapsed = (figures.now - before).total_seconds()
        if elapsed > 0:
            figures.rates.append((figures.fate("completed") - completed_before) / elapsed)
        return figures

    async def _count(self, since: datetime, until: datetime) -> Counter[tuple[str, str]]:
        rows = await self._fetch(SQL["demo_ended"], since=since, until=until)
        return Counter({(task, fate): count for task, fate, count in rows})

    async def _fetch(self, sql: Any, **parameters: Any) -> list[tuple[Any, ...]]:
        return await (await self._conn.execute(sql, parameters)).fetchall()


async def watch(conn: psycopg.AsyncConnection[tuple[Any, ...]]) -> AsyncIterator[Figures]:
    """Yields the figures once a second, for ever."""
    gauge = await Gauge.starting_now(conn)
    while True:
        yield await gauge.read()
        await asyncio.sleep(1)


class SignInLink:
    """A link to sign in with, replaced by a new one once it has been used or is too old."""

    def __init__(self, conn: psycopg.AsyncConnection[tuple[Any, ...]], settings: Settings, link: str) -> None:
        self._conn = conn
        self._settings = settings
        self._link = link

    async def current(self) -> str:
        """Return a link that can be used."""
        base, _, token = self._link.partition(f"{SIGN_IN_PATH}?token=")
        row = await (await self._conn.execute(SQL["demo_link"], {"hash": hash_of(token)})).fetchone()
        if row is None:
            self._link = await admin_link(self._conn, self._settings, base=base) or self._link
        return self._link


def render_line(figures: Figures) -> str:
    """The figures in one line, for logs and pipes."""
    parts = [f"{(figures.now - figures.started_at).total_seconds():5.0f} s", f"{_rate(figures):5.0f} jobs/s"]
    parts += [f"{state} {figures.live.get(state, 0)}" for state in LIVE]
    parts += [f"{fate} {figures.fate(fate)}" for fate in FATES]
    parts += [f"fired {figures.fired}", f"skipped {figures.skipped}"]
    return "  ".join([*parts, f"workers {len(figures.workers)}"])


def render_view(figures: Figures, hints: list[str], link: str | None = None) -> RenderableType:
    """The figures as a screen."""
    return Fitted(
        [Rule("Rota demo: Ctrl-C stops it", style="dim"), _headline(figures), _live_line(figures)],
        [Section("tasks", _task_table(figures)), Section("workers", _worker_table(figures)),
         Section("failures", _failure_table(figures)), Section("schedules", _schedule_table(figures)),
         Section("hints", Text("\n".join(hints), style="dim"))],
        [] if link is None else [Text.assemble(("Sign in, once: ", "dim"), (link, f"link {link}"), overflow="fold")],
    )  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A part of the screen that is left out where it does not fit."""

    name: str
    content: RenderableType


class Fitted:
    """As many sections as the terminal has room for, the first ones first. If some are left out, or cut, a line says so."""

    def __init__(self, head: list[RenderableType], sections: list[Section], foot: list[RenderableType]) -> None:
        self._head = head
        self._sections = sections
        self._foot = foot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or console.height
        room = options.reset_height()

        def lines(part: RenderableType, columns: int = width) -> int:
            return len(console.render_lines(part, room.update(width=columns), pad=False))

        widest = max(Measurement.get(console, room.update(max_width=1000), each.content).minimum for each in self._sections)
        sizes = {each.name: lines(each.content) + 1 for each in self._sections}
        fixed = sum(map(lines, (*self._head, *self._foot)))
        left = height - fixed
        whole = sum(sizes.values()) <= left and widest <= width
        left -= 0 if whole else 1
        hidden, shown = [], list(self._head)
        for section in self._sections:
            if sizes[section.name] > left:
                hidden.append(section.name)
                continue
            left -= sizes[section.name]
            shown += [Text(), section.content]
        yield Group(*shown, *self._foot)
        if not whole:
            missing = f"Not shown: {', '.join(hidden)}" if hidden else "Columns are cut"
            widest = max(widest, width)
            highest = sum(lines(part, widest) for part in (*self._head, *self._foot))
            highest += sum(lines(each.content, widest) + 1 for each in self._sections)
            yield Text(f"{missing}. Enlarge the terminal to {widest}x{highest}.", style="yellow", overflow="ellipsis", no_wrap=True)


def _rate(figures: Figures) -> float:
    recent = list(figures.rates)[-5:]
    return sum(recent) / len(recent) if recent else 0.0


def _headline(figures: Figures) -> Text:
    age = timedelta(seconds=round((figures.now - figures.started_at).total_seconds()))
    peak = max(figures.rates, default=0) or 1
    bars = "".join(BARS[round(rate / peak * (len(BARS) - 1))] for rate in figures.rates)
    return Text.assemble(
        (f"{_rate(figures):,.0f} jobs/s", "bold green"),
        f"   {figures.fate('completed'):,} completed in {show_duration(age)}   ",
        (bars, "green"),
    )


def _table(*columns: str, **options: Any) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **options)
    for column in columns:
        ratio = 1 if column == "error" else None  # it takes what the others leave
        table.add_column(column, justify="left" if column in TEXT_COLUMNS else "right", no_wrap=True, ratio=ratio)
    return table


def _live_line(figures: Figures) -> Text:
    counts = [Text.assemble((state, style), f" {figures.live.get(state, 0):,}") for state, style in LIVE.items()]
    return Text("   ").join(counts)


def _task_table(figures: Figures) -> Table:
    shown = [fate for fate in FATES if figures.fate(fate) or fate in ("completed", "retried", "failed")]
    table = _table("ended runs", *shown)
    for task in sorted({task for task, _ in figures.ended}):
        counts = [(figures.ended[task, fate], FATES[fate]) for fate in shown]
        table.add_row(task, *(Text(f"{count:,}" if count else "·", style if count else "dim") for count, style in counts))
    return table


def _schedule_table(figures: Figures) -> Table:
    table = _table("schedule", "when", "next", "last", "last firing")
    for line in figures.schedules:
        record, state = line.record, last_state(line)
        coming = "running" if record.next_run_at is None else f"in {_span(record.next_run_at - figures.now)}"
        last = "-" if record.last_run_at is None else f"{_span(figures.now - record.last_run_at)} ago"
        style = FATES.get((state or "").partition(",")[0], "white")
        table.add_row(record.label, describe(record), coming, last, Text(state or "-", style))
    return table


def _span(value: timedelta) -> str:
    return show_duration(timedelta(seconds=max(round(value.total_seconds()), 0)))


def _worker_table(figures: Figures) -> Table:
    table = _table("worker process", "running", "slots", "seen", "up")
    for pid, slots, started_at, seen_at, running in figures.workers:
        # The workers' clocks and ours are the database's, but it may have moved on between two of our questions.
        seen = max(figures.now - seen_at, timedelta(0))
        table.add_row(str(pid), str(running), str(slots), f"{show_duration(seen)} ago", _span(figures.now - started_at))
    return table


def _failure_table(figures: Figures) -> Table:
    table = _table("failed at", "task", "attempt", "then", "error", expand=True)
    for finished_at, task, attempt, final, kind, message in figures.failures:
        then = Text("failed", "red") if final else Text("retried", "yellow")
        error = Text(f"{kind}: {message}".partition("\n")[0], overflow="ellipsis")
        table.add_row(f"{finished_at.astimezone():%H:%M:%S}", task, str(attempt), then, error)
    return table
