"""Rota through its public API, as a user would run it: with logs, metrics and run history on."""

import asyncio
import gc
import time
from datetime import timedelta
from typing import Any

import psycopg
import uvloop

from bench.agent import PAYLOAD, Agent, Enqueue, Handled, serve, write
from rota import Context, Rota
from rota.db import migrations
from rota.db.connection import connect_async
from rota.engine.journal import Journal
from rota.engine.metrics import Metrics
from rota.engine.scheduler import Scheduler
from rota.events import Events
from rota.log import configure_logging
from rota.model.ids import new_id
from rota.store import runs, schedules

# No worker ever wants to be woken.
SILENCE = """
CREATE OR REPLACE FUNCTION rota.keep_silent() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.wants_wake := false; RETURN NEW; END';
CREATE OR REPLACE TRIGGER keep_silent BEFORE INSERT OR UPDATE ON rota.worker FOR EACH ROW EXECUTE FUNCTION rota.keep_silent();
UPDATE rota.worker SET wants_wake = false;
"""


class RotaAgent(Agent):
    """A worker with Rota's defaults, or with the settings named in `options`."""

    def __init__(self, dsn: str, options: dict[str, Any]) -> None:
        super().__init__(dsn, options)
        self.app = app = Rota(dsn)
        self.handled: Handled = lambda: None
        queue = self.options.pop("noop_queue", None)

        lines, takes_s = self.options.pop("lines", 0), self.options.pop("takes_s", 0.0)

        async def plain(n: int) -> None:  # noqa: ARG001 - the payload
            self.handled()

        async def saying(ctx: Context, n: int) -> None:
            for _ in range(lines):
                ctx.log.info("handled", n=n)
            if takes_s:
                await asyncio.sleep(takes_s)
            self.handled()

        noop: Any = app.task(name="noop", queue=queue or "default")(saying if lines or takes_s else plain)

        @app.recurring(key="{n}")
        async def again(n: int) -> timedelta:  # noqa: ARG001
            if queue is None:  # else only what runs beside it is counted
                self.handled()
            return timedelta(hours=1)

        @app.task
        async def tell_lateness(ctx: Context) -> None:
            assert ctx.scheduled_for is not None
            late_s = time.time() - ctx.scheduled_for.timestamp()
            write(f"0 {max(int(late_s * 1e6), 0)}")

        if self.options.pop("limits", False):

            @app.task(max_concurrency=1)
            async def narrow(n: int) -> None: ...

            @app.task(concurrency_key="{n}")
            async def keyed(n: int) -> None: ...

        self.noop = noop

    async def setup(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            migrations.up(conn)

    async def producers(self, count: int) -> list[Enqueue]:
        if not self.options.get("notify", True):
            async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as conn:
                await conn.execute(SILENCE)
        if count == 1:
            return [lambda: self.noop.aenqueue(**PAYLOAD)]

        def on(conn: psycopg.AsyncConnection[Any]) -> Enqueue:
            task = self.noop.using(conn=conn)
            return lambda: task.aenqueue(**PAYLOAD)

        return [on(await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)) for _ in range(count)]

    async def enqueue_many(self, jobs: int, due_in: float) -> float:
        task = self.noop.using(delay=timedelta(seconds=due_in)) if due_in else self.noop
        async with self.app:
            started = time.perf_counter()
            await self.app.aenqueue_many(task.job(**PAYLOAD) for _ in range(jobs))
            return time.perf_counter() - started

    async def work(self, handled: Handled) -> None:
        events = Events()
        self.handled = handled
        gc.collect()  # as `rota worker` does
        gc.freeze()
        configure_logging(self.app.settings.log)
        options = {key: value for key, value in self.options.items() if key != "notify"}
        worker = self.app.worker(events=events, **options)
        Journal(events, worker.id)
        Metrics(events)
        await worker.run()

    async def claim_nothing(self, claims: int) -> float:
        conn = await connect_async(self.dsn, "bench")
        worker = new_id()
        async with conn:
            for _ in range(5):
                await runs.claim(conn, worker=worker, tasks="{noop}", queue="default", limit=500, lease_s=300)
            started = time.perf_counter()
            for _ in range(claims):
                await runs.claim(conn, worker=worker, tasks="{noop}", queue="default", limit=500, lease_s=300)
            return time.perf_counter() - started

    async def look_for_due(self, looks: int) -> dict[str, float]:
        scheduler = Scheduler(Events())
        async with await connect_async(self.dsn, "bench") as conn:
            started, fired = time.perf_counter(), 0
            while count := (await scheduler.run_once(conn)).jobs:
                fired += count
            firing = time.perf_counter() - started
            started = time.perf_counter()
            for _ in range(looks):
                assert not (await scheduler.run_once(conn)).jobs
                await schedules.next_s(conn, apps=["default"])
            return {"fired": fired, "firing_seconds": firing, "seconds": time.perf_counter() - started}


if __name__ == "__main__":
    serve(RotaAgent, uvloop.run)
