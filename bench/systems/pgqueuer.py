"""PgQueuer through its public API, on asyncpg."""

import time
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.agent import Agent, Enqueue, Handled, serve

PAYLOAD = b'{"n": 1}'
CHUNK = 5_000


class PgQueuerAgent(Agent):
    """A worker over a connection, or over a pool when `pool` says how large."""

    async def setup(self) -> None:
        await Queries.from_asyncpg_connection(await asyncpg.connect(self.dsn)).install()

    async def producers(self, count: int) -> list[Enqueue]:
        def on(conn: Any) -> Enqueue:
            queries = Queries.from_asyncpg_connection(conn)
            return lambda: queries.enqueue("noop", PAYLOAD)

        return [on(await asyncpg.connect(self.dsn)) for _ in range(count)]

    async def enqueue_many(self, jobs: int, due_in: float) -> float:
        queries = Queries.from_asyncpg_connection(await asyncpg.connect(self.dsn))
        started = time.perf_counter()
        for left in range(jobs, 0, -CHUNK):
            size = min(left, CHUNK)
            later: list[timedelta | None] | None = [timedelta(seconds=due_in)] * size if due_in else None
            await queries.enqueue(["noop"] * size, [PAYLOAD] * size, [0] * size, later)
        return time.perf_counter() - started

    async def work(self, handled: Handled) -> None:
        if size := self.options.get("pool"):
            queue = PgQueuer.from_asyncpg_pool(await asyncpg.create_pool(self.dsn, min_size=size, max_size=size))
        else:
            queue = PgQueuer.from_asyncpg_connection(await asyncpg.connect(self.dsn))

        @queue.entrypoint("noop")
        async def noop(_: Job) -> None:
            handled()

        await queue.run(**self.options.get("run", {}))


if __name__ == "__main__":
    serve(PgQueuerAgent, uvloop.run)
