"""Procrastinate through its public API, on psycopg."""

import time
from typing import Any

import procrastinate
from procrastinate import jobs

from bench.agent import PAYLOAD, Agent, Enqueue, Handled, serve

CHUNK = 1_000


class ProcrastinateAgent(Agent):
    """A worker with the options of `run_worker_async`."""

    async def setup(self) -> None:
        app, _ = self.app()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def producers(self, count: int) -> list[Enqueue]:
        async def on() -> Enqueue:
            app, task = self.app(min_size=1, max_size=1)
            await app.open_async()
            return lambda: task.defer_async(**PAYLOAD)

        return [await on() for _ in range(count)]

    async def enqueue_many(self, jobs: int, due_in: float) -> float:
        app, task = self.app()
        batch = task.configure(schedule_in={"seconds": int(due_in)}) if due_in else task
        async with app.open_async():
            started = time.perf_counter()
            for left in range(jobs, 0, -CHUNK):
                await batch.batch_defer_async(*[PAYLOAD] * min(left, CHUNK))
            return time.perf_counter() - started

    async def work(self, handled: Handled) -> None:
        app, _ = self.app(handled=handled)
        async with app.open_async():
            await app.run_worker_async(
                concurrency=self.options["concurrency"],
                delete_jobs=jobs.DeleteJobCondition.SUCCESSFUL.value,
                install_signal_handlers=False,
            )

    def app(self, handled: Handled = lambda: None, **pool: Any) -> tuple[procrastinate.App, Any]:
        """Make an application with the one task that does nothing."""
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self.dsn, **pool))

        @app.task(name="noop")
        async def noop(**_: object) -> None:
            handled()

        return app, noop


if __name__ == "__main__":
    serve(ProcrastinateAgent)
