"""Awa (a Rust engine with Python handlers) through its public API."""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import awa

from bench.agent import Agent, Enqueue, Handled, serve

QUEUE = "bench"
CHUNK = 10_000


@dataclass
class Noop:
    """The arguments of the task that does nothing."""

    n: int


class AwaAgent(Agent):
    """A worker over one queue, or over `partitions` physical ones."""

    async def setup(self) -> None:
        async with awa.AsyncClient(self.dsn) as client:
            await client.migrate()
            await client.install_queue_storage()

    async def producers(self, count: int) -> list[Enqueue]:
        def on(client: awa.AsyncClient, number: int) -> Enqueue:
            return lambda: client.insert(Noop(1), queue=self.queue(number))

        return [on(awa.AsyncClient(self.dsn, max_connections=1), number) for number in range(count)]

    async def enqueue_many(self, jobs: int, due_in: float) -> float:
        run_at = datetime.now(UTC) + timedelta(seconds=due_in) if due_in else None
        async with awa.AsyncClient(self.dsn) as client:
            started = time.perf_counter()
            for number, left in enumerate(range(jobs, 0, -CHUNK)):
                batch = [Noop(1)] * min(left, CHUNK)
                await client.enqueue_many_copy(batch, queue=self.queue(number), run_at=run_at)
            return time.perf_counter() - started

    async def work(self, handled: Handled) -> None:
        client = awa.AsyncClient(self.dsn, max_connections=self.options.get("connections", 10))
        shared = {"max_workers": self.options["concurrency"] // self.partitions, **self.options.get("queue", {})}

        @client.task(Noop, queue=self.queue(0))
        async def noop(_: object) -> None:
            handled()

        await client.start([{"name": self.queue(number), **shared} for number in range(self.partitions)])
        await asyncio.Event().wait()

    @property
    def partitions(self) -> int:
        """The number of physical queues."""
        return int(self.options.get("partitions", 1))

    def queue(self, number: int) -> str:
        """Name the physical queue for the `number`-th batch."""
        if self.partitions == 1:
            return QUEUE
        return str(awa.PartitionedQueue(QUEUE, self.partitions).queue_for_index(number))


if __name__ == "__main__":
    serve(AwaAgent)
