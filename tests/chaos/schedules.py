"""Schedulers that are killed, over a clock that is moved: every instant of a month is fired once, or the ledger says why not."""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import psycopg
from rich.console import Console
from tests.chaos import lifeline, schedule_judge, schedule_sabotage
from tests.chaos.__main__ import show
from tests.chaos.crew import strangers
from tests.chaos.history import VARIABLE
from tests.chaos.lifeline import Process, Start
from tests.chaos.scene import Report, logged
from tests.chaos.schedule_judge import Story
from tests.chaos.schedule_load import expected_instants, make_timings
from tests.support.postgres import server
from tests.support.scheduling import Scheduling

from rota.contrib.testing.clock import Clock
from rota.db import migrations

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
STEP = 2 * HOUR  # how far a clock is set by mistake
PATIENCE_S = 60.0  # until everything that is due must have been handled

# The tests' clock may be moved in the middle of a transaction; the real one stands still during it, and so does this.
CLOCK = """
CREATE OR REPLACE FUNCTION rota.now() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    known text := current_setting('chaos.now', true);
BEGIN
    IF coalesce(known, '') = '' THEN
        known := set_config('chaos.now', (SELECT frozen_at + shift FROM rota.clock WHERE single)::text, true);
    END IF;
    RETURN known::timestamptz;
END $$
"""
JUMP, ON, BACK = "jumps of 1 to 90 minutes", "clock set on by 2 h", "clock set back by 2 h"

DUE = "SELECT name FROM rota.schedule WHERE enabled AND next_run_at <= rota.now() LIMIT 1"
# What a worker would do, with jobs that take some time: some begin, some end.
PROMOTE = "UPDATE rota.job SET state = 'queued' WHERE state = 'delayed' AND run_at <= rota.now()"
BEGIN = """UPDATE rota.job SET state = 'running', worker_id = rota.uuid7(), token = token + 1, attempt = attempt + 1,
                  claimed_at = rota.now(), lease_until = 'infinity' WHERE state = 'queued' AND id = ANY (%s)"""
FINISH = """SELECT rota.finish_run(j.id, j.token, j.worker_id, 'completed', 0, 0) FROM rota.job j
            WHERE j.state = 'running' AND j.id = ANY (%s)"""
FORGET = """DELETE FROM rota.job j USING rota.schedule s WHERE s.id = j.schedule_id AND s.overlap = 'allow'"""


@dataclass(frozen=True, slots=True)
class Dose:
    """How much of it."""

    start: datetime
    days: float
    schedules: int
    processes: int


# Clocks go forward in America and in Europe, and back in Australia, New Zealand and Chile.
FULL = Dose(datetime(2026, 3, 7, 6, 7, 8, tzinfo=UTC), days=29.9, schedules=200, processes=8)  # the ledger is kept for thirty
SHORT = Dose(datetime(2026, 3, 28, 6, 7, 8, tzinfo=UTC), days=2.5, schedules=40, processes=4)


class Schedulers:
    """The processes, half of them with the lock; one that is killed is replaced at once."""

    def __init__(self, count: int, folder: Path, environment: dict[str, str], start: Start) -> None:
        self._folder = folder
        self._environment = {**environment, VARIABLE: str(folder)}
        self._count = count
        self._start_process = start
        self._processes: list[Process] = []
        self.problems: list[str] = []

    def __enter__(self) -> Self:
        self._processes = [self._start(number) for number in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                self.problems.append(f"scheduler {number} ended by itself with {process.returncode}")
            process.kill()
            process.wait()

    def kill(self, number: int) -> None:
        """SIGKILL one, wherever it is, and start another in its place."""
        process = self._processes[number]
        if process.poll() is not None:
            self.problems.append(f"scheduler {number} ended by itself with {process.returncode}")
        process.kill()
        process.wait()
        self._processes[number] = self._start(number)

    def _start(self, number: int) -> Process:
        return self._start_process(
            "tests.chaos.scheduler_process",
            "lock" if number % 2 else "free",
            environment=self._environment,
            log=self._folder / f"scheduler-{number}.log",
        )


class Month:
    """Virtual time, in which things happen that need not."""

    def __init__(self, dose: Dose, seed: int, conn: psycopg.Connection[Any], dsn: str, schedulers: Schedulers) -> None:
        self.done: Counter[str] = Counter()
        self.stuck: list[str] = []
        self.enabled_at: defaultdict[str, list[datetime]] = defaultdict(list)
        self.rewound: set[str] = set()
        self._random = random.Random(f"month {seed}")
        self._fate = random.Random(f"jobs {seed}")  # another one, as how many jobs there are depends on who is how fast
        self._dose = dose
        self._conn = conn
        self._schedulers = schedulers
        self._scheduling = Scheduling(dsn, conn)
        self._clock = Clock(conn)
        self._clock.freeze(dose.start)
        conn.execute(CLOCK)
        self._now = self.latest = dose.start
        self._disabled: set[str] = set()
        self._crons: list[str] = []

    def create(self, timings: dict[str, Any]) -> None:
        """Make the schedules."""
        for name, timing in timings.items():
            self._scheduling.create(name, timing, task="noop")
        self._crons = [name for name, timing in timings.items() if timing.strategy == "cron"]

    def live(self, say: Callable[[str], None]) -> None:
        """Go through all of it, jump by jump, and to its very end."""
        end, said = self._dose.start + self._dose.days * DAY, time.monotonic()
        while self._now < end and not self.stuck:
            self._jump()
            self._disturb()
            if self._random.random() < 0.8:  # else the next jump comes while they are still at it
                self._settle()
                self._work()  # now, so that what the judge's triggers see is what was decided by
            if time.monotonic() - said > 30:
                said = time.monotonic()
                say(f"{self._now:%d %B %H:%M}: {', '.join(f'{count} {name}' for name, count in sorted(self.done.items()))}")
        self._now = self.latest = max(self._now, self.latest) + MINUTE
        self._clock.freeze(self._now)
        for name in sorted(self._disabled):
            self._set_enabled(name, True)
        self._settle()

    def _jump(self) -> None:
        turn = sum(self.done[name] for name in (JUMP, ON, BACK)) % 25
        if turn == 12:
            by, name = -STEP, BACK
        elif turn in (13, 24):  # first to where it was, so that all that was decided there could be decided again
            by, name = STEP, ON
        else:
            by, name = self._random.randint(60, 90 * 60) * SECOND, JUMP
        self.done[name] += 1
        self._clock.move(by)
        self._now += by
        self.latest = max(self.latest, self._now)
        if by < timedelta(0):
            self._settle()
            for name in self._crons:  # somebody who saw it wants to put things right
                if int(name) % 2 and self._random.random() < 0.7:
                    self._operate(name)
                    self._operate(name)

    def _disturb(self) -> None:
        chance = self._random.random()
        if chance < 0.13:
            time.sleep(self._random.uniform(0, 0.05))
            self._schedulers.kill(self._random.randrange(self._dose.processes))
            self.done["schedulers killed"] += 1
        elif chance < 0.2:
            victims = self._conn.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = 'rota scheduler' ORDER BY random() LIMIT 2"""
            ).fetchall()
            self.done["connections cut"] += len(victims)
        elif chance < 0.4:
            self._operate(self._random.choice(sorted(self._disabled) or self._crons))  # what is off is soon on again

    def _operate(self, name: str) -> None:
        """Switch a schedule off or on; every other one only when the clock shows a time that it has never shown before."""
        is_new = self._now == self.latest
        if int(name) % 2 or is_new:
            self._set_enabled(name, name in self._disabled)
            self.done["schedules switched off or on"] += 1

    def _set_enabled(self, name: str, enabled: bool) -> None:
        self._scheduling.set_enabled(name, enabled)
        if enabled:
            self._disabled.discard(name)
            self.enabled_at[name].append(self._now)
            if self._now < self.latest:
                self.rewound.add(name)
        else:
            self._disabled.add(name)

    def _work(self) -> None:
        self._conn.execute(FORGET)
        self._conn.execute(PROMOTE)
        for statement, chance in ((FINISH, 0.5), (BEGIN, 0.6)):
            ids = [id for (id,) in self._conn.execute("SELECT id FROM rota.job ORDER BY id") if self._fate.random() < chance]
            self._conn.execute(statement, [ids])

    def _settle(self) -> None:
        """Wait until nothing is due."""
        deadline = time.monotonic() + PATIENCE_S
        while (row := self._conn.execute(DUE).fetchone()) is not None:
            if time.monotonic() > deadline:
                self.stuck.append(f"schedule {row[0]} has been due for {PATIENCE_S:g} s at {self._now}")
                return
            time.sleep(0.01)


def play(
    dose: Dose,
    seed: int,
    *,
    without: str | None = None,
    folder: Path,
    say: Callable[[str], None],
    start: Start = lifeline.start,
) -> Report:
    """Run it all once; `without` names a guarantee to take out."""
    began = time.monotonic()
    timings = make_timings(seed, dose.schedules, dose.start, dose.days)
    with ExitStack() as stack:
        postgres = stack.enter_context(server(max_connections="100", shared_buffers="128MB", fsync="off"))
        conn = stack.enter_context(psycopg.connect(postgres.dsn(), autocommit=True))
        migrations.up(conn)
        conn.execute(schedule_judge.SCHEMA)
        schedule_sabotage.in_database(conn, without)
        environment = {"CHAOS_DSN": postgres.dsn(), schedule_sabotage.VARIABLE: without or ""}
        schedulers = Schedulers(dose.processes, folder, environment, start)
        month = Month(dose, seed, conn, postgres.dsn(), schedulers)
        month.create(timings)
        with schedulers:
            month.live(say)
        stories = schedule_judge.collect(conn, timings)
        refused = conn.execute("SELECT name, last_error FROM rota.schedule WHERE NOT enabled OR last_error IS NOT NULL").fetchall()
    report = Report(seed, time.monotonic() - began, month.done)
    _judge(report, stories, month, dose)
    report.findings["stuck"] = month.stuck
    report.findings["switched off"] = [f"{name}: {why}" for name, why in refused]
    report.findings["processes"] = [*schedulers.problems, *strangers(folder), *logged(folder)]
    return report


def _judge(report: Report, stories: dict[str, Story], month: Month, dose: Dose) -> None:
    findings: dict[str, list[str]] = {"fired twice": [], "never accounted for": []}
    instants = 0
    for name, story in stories.items():
        story.enabled_at, story.rewound = month.enabled_at[name], name in month.rewound
        expected = expected_instants(story.timing, dose.start, month.latest) if story.timing.cron else None
        instants += len(expected or ())
        for kind, finding in schedule_judge.judge(story, expected, dose.start, month.latest):
            findings.setdefault(kind, []).append(finding)
    report.findings = findings
    lines = Counter(line.what for story in stories.values() for line in story.ledger)
    report.counts = {
        "schedules": len(stories), "virtual days": round(dose.days), "instants of cron schedules": instants,
        "jobs": sum(len(story.fired) for story in stories.values()),
        **{f"lines of the ledger: {what}": count for what, count in sorted(lines.items())},
    }  # fmt: skip


def main() -> int:
    """Play, print, and say by the exit code whether every instant was accounted for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.schedules", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="makes the same schedules and the same month")
    parser.add_argument("--short", action="store_true", help="forty schedules and two days and a half")
    parser.add_argument("--sabotage", choices=schedule_sabotage.KINDS, help="take this guarantee out: the run must turn red")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the server and its data go too
    console = Console(soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="rota-chaos-"))
    console.print(f"seed {options.seed}, logs in {folder}", highlight=False)
    report = play(
        SHORT if options.short else FULL, options.seed, without=options.sabotage, folder=folder,
        say=lambda text: console.print(text, highlight=False),
    )  # fmt: skip
    show(report, console)
    if report.kept:
        shutil.rmtree(folder)
    return 0 if report.kept else 1


if __name__ == "__main__":
    sys.exit(main())
