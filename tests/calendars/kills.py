"""Kills workers in the middle of synchronising, again and again, and judges from outside what came of it.

    python -m tests.calendars.kills --kills 100 --events 1000 --seed 7

Two calendars on a CalDAV server; meanwhile somebody edits, creates and deletes events on either side, each event on one side at a
time, so that it is known what must be there in the end: every event once, with its last text, on both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from tests.calendars.conftest import KEY, WINDOW, dav_end
from tests.calendars.events import event
from tests.calendars.servers import Dav, radicale
from tests.support.processes import WorkerProcess, until

from rota import Rota
from rota.apps.calendars import pairs
from rota.config import load_settings
from rota.db import migrations

PAIR = "kills"
ENVIRONMENT = {
    "ROTA_SECRETS_KEY": KEY, "ROTA_HTTP_ALLOW": "127.0.0.1", "ROTA_HOUSEKEEPING_ENABLED": "false", "ROTA_LOG_LEVEL": "error",
}  # fmt: skip
OPTIONS: Any = {"concurrency": 1, "queues": {"calendar": 1}}
CREW = 3
LIVE = "SELECT count(*) FROM rota.job WHERE task = 'sync_pair'"


@dataclass
class Figures:
    """What happened."""

    kills: int = 0
    spared: int = 0  # they were done before
    edits: int = 0
    summaries: dict[str, int] = field(default_factory=dict)
    took_s: float = 0.0

    def __str__(self) -> str:
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.summaries.items()))
        kills = f"{self.kills} workers killed while they synchronised, {self.spared} were faster"
        return f"{kills}; {self.edits} edits, attempts: {told}; {self.took_s:.0f} s"


class Judged(AssertionError):
    """The calendars are not what they must be."""


class Scene:
    """Two calendars, somebody who edits them, and the workers that are killed."""

    def __init__(self, dsn: str, port: int, rng: random.Random, events: int) -> None:
        self.rng = rng
        self.figures = Figures()
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.sides = [Dav(port, f"kills{n}") for n in (1, 2)]
        self.wanted: dict[str, str] = {}  # titles by UID
        self.home: dict[str, int] = {}  # the one side on which an event may be touched until the next rest
        settings = load_settings(database_url=dsn, secrets_key=KEY, http_allow="127.0.0.1", housekeeping_enabled=False)
        self.app = Rota(settings=settings)
        self.app.include("rota.apps.calendars")
        migrations.up(self.conn, self.app.migrations)
        self.events = events
        self.crew: list[WorkerProcess] = []
        self.longest_s = 3.0  # that a worker is left at it

    async def open(self) -> None:
        """Fill the first calendar and make the pair."""
        for n in range(self.events):
            self.wanted[f"e{n}"] = f"Event {n}"
            self.home[f"e{n}"] = 0
            await asyncio.to_thread(self._write, 0, f"e{n}", f"Event {n}")
        await self.app.control.sync_definitions()
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
            await pairs.add(conn, self.app.settings, PAIR, *(dav_end(side) for side in self.sides))

    def edit(self, count: int) -> None:
        """Change, make and delete some events, each on one side at a time."""
        for _ in range(count):
            side = self.rng.randrange(2)
            self.figures.edits += 1
            kind = self.rng.choices(["edit", "create", "delete"], [8, 1, 1])[0]
            there = [uid for uid in self.wanted if self.home.get(uid, side) == side]
            uid = f"n{self.figures.edits}" if kind == "create" or not there else self.rng.choice(there)
            self.home[uid] = side
            if kind == "delete" and there:
                assert self.sides[side].ask("DELETE", f"{uid}.ics")[0] in (200, 204)
                del self.wanted[uid]
                continue
            title = f"Edit {self.figures.edits}"
            self.wanted[uid] = title
            self._write(side, uid, title)

    def _write(self, side: int, uid: str, title: str) -> None:
        at = f"2029{self.figures.edits // 672 % 12 + 1:02}{self.figures.edits // 24 % 28 + 1:02}T{self.figures.edits % 24:02}0000Z"
        status, body = self.sides[side].ask("PUT", f"{uid}.ics", event(uid, title, changed=at), Content_Type="text/calendar")
        assert status in (201, 204), (status, body)

    async def enqueue(self) -> None:
        """See to it that there is a synchronisation to be done; one that waits for its retry does not wait."""
        self.conn.execute("UPDATE rota.job SET run_at = rota.now() WHERE task = 'sync_pair' AND state = 'delayed'")
        if self._is_idle():
            async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
                job = pairs.job_of(await pairs.get(conn, PAIR), WINDOW, {"allow_deletions": True})
            await self.app.aenqueue("sync_pair", job.stored(), max_attempts=1000)

    def hire(self) -> None:
        """See to it that there are workers: one that works, and others that take over at once."""
        while len(self.crew) < CREW:
            self.crew.append(WorkerProcess("tests.calendars.office:app", self.dsn, env=ENVIRONMENT, **OPTIONS).start())

    def dismiss(self) -> None:
        """Stop those that are left."""
        for worker in self.crew:
            worker.kill(signal.SIGTERM)
        for worker in self.crew:
            worker.wait()
        self.crew.clear()

    async def kill_one(self) -> None:
        """Let a worker work at it for a while, and kill it; one that has done it by then lives."""
        self.hire()
        await self.enqueue()
        pid = await asyncio.to_thread(until, self._at_work, 120, "for a worker to begin")
        await asyncio.sleep(self.rng.uniform(0, self.longest_s))
        if self._at_work() != pid:
            self.figures.spared += 1
            self.longest_s = max(self.longest_s * 0.8, 0.05)  # so that most are hit, at any point of it
            return
        self.longest_s = min(self.longest_s * 1.1, 10.0)
        worker = next(each for each in self.crew if each.pid == pid)
        worker.kill()
        await asyncio.to_thread(worker.wait)
        self.crew.remove(worker)
        self.figures.kills += 1
        # The next one need not wait until others are sure that it is dead, nor be careful with a job whose workers die.
        with self.conn.transaction():
            self.conn.execute(
                "UPDATE rota.job SET lease_until = rota.now() - interval '1 s' WHERE state = 'running' AND worker_id IN "
                "(SELECT id FROM rota.worker WHERE pid = %s)",
                [pid],
            )
            self.conn.execute("SELECT rota.rescue_runs('{}')")
            self.conn.execute("UPDATE rota.job SET crashes = 0, culprit = false WHERE task = 'sync_pair'")

    def _is_idle(self) -> bool:
        return self.conn.execute(LIVE).fetchone() == (0,)

    def _at_work(self) -> int | None:
        """The process that synchronises now."""
        row = self.conn.execute(
            "SELECT w.pid FROM rota.job j JOIN rota.worker w ON w.id = j.worker_id "
            "WHERE j.task = 'sync_pair' AND j.state = 'running'"
        ).fetchone()
        return row[0] if row and any(worker.pid == row[0] for worker in self.crew) else None

    async def rest(self, within_s: float = 300) -> None:
        """Let the workers do what is left, twice, and judge."""
        self.hire()
        for _ in range(2):
            await self.enqueue()
            await asyncio.to_thread(until, self._is_idle, within_s, "for the synchronisation")
        self.judge()
        self.home.clear()

    def judge(self) -> None:
        """Both calendars have every event once, with its last text."""
        for name, side in zip(("first", "second"), self.sides, strict=True):
            titles = side.titles()  # fails where one is there twice
            if titles != self.wanted:
                lost, extra = self.wanted.keys() - titles.keys(), titles.keys() - self.wanted.keys()
                wrong = {uid for uid in self.wanted.keys() & titles.keys() if titles[uid] != self.wanted[uid]}
                raise Judged(f"{name}: lost {sorted(lost)[:5]}, extra {sorted(extra)[:5]}, wrong {sorted(wrong)[:5]}")
        conflicts = self.conn.execute("SELECT uid, kind, left(text, 200) FROM rota_calendars.conflict LIMIT 5").fetchall()
        if conflicts:
            raise Judged(f"there were conflicts although nobody edited both sides: {conflicts}")
        rows = self.conn.execute("SELECT outcome, count(*) FROM rota_calendars.summary GROUP BY 1").fetchall()
        self.figures.summaries = dict(rows)


async def play(dsn: str, port: int, *, kills: int, events: int, seed: int, rests: int = 10) -> Figures:
    """Kill so many workers, with rests at which everything is judged."""
    rng = random.Random(seed)
    scene = Scene(dsn, port, rng, events)
    started = time.monotonic()
    try:
        await scene.open()
        judged = 0
        while scene.figures.kills < kills:
            await scene.kill_one()
            await asyncio.to_thread(scene.edit, rng.randrange(0, max(events // 50, 2)))
            if scene.figures.kills >= judged + max(kills // rests, 1):
                judged = scene.figures.kills
                await scene.rest()
                print(f"in order after {scene.figures}", flush=True)
        await scene.rest()
    finally:
        scene.dismiss()
        scene.conn.close()
        await scene.app.aclose()
    scene.figures.took_s = time.monotonic() - started
    return scene.figures


def main(arguments: list[str] | None = None) -> None:
    """Run it on servers of its own and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="rota-kills-"))
    try:
        figures = _run(folder, given)
    except Judged as error:
        sys.exit(f"FAILED with seed {given.seed}: {error}")
    finally:
        shutil.rmtree(folder)
    print(f"all in order: {figures}")


def _run(folder: Path, given: Any) -> Figures:
    from tests.support.postgres import migrate, server

    with server() as postgres, radicale(folder) as port:
        dsn = postgres.dsn()
        migrate(dsn)
        return asyncio.run(play(dsn, port, kills=given.kills, events=given.events, seed=given.seed))


if __name__ == "__main__":
    main()
