"""A client: enqueues its share of the load through the bad network, and asks again until it is told that it worked.

Run as `python -m tests.chaos.enqueuer SEED JOBS POISON SECONDS SHARE SHARES`.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import deque

import psycopg
from psycopg.types.json import Jsonb
from tests.chaos import load
from tests.chaos.lifeline import end_with_harness
from tests.chaos.tasks import app, history

from rota.errors import DatabaseError
from rota.model.job import Enqueued, NewJob

Away = (DatabaseError, psycopg.OperationalError, psycopg.InterfaceError)


class Client:
    """Delivers, however often it takes."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._conn: psycopg.Connection | None = None
        self._recent: deque[str] = deque(maxlen=8)  # jobs that may still be live, for children that come later
        self._parents: list[str] = []  # of the delivery at hand

    def deliver(self, delivery: load.Delivery) -> None:
        """Enqueue and write down what was acknowledged; without keys only once, and then nobody knows."""
        self._parents = random.sample(self._recent, min(len(self._recent), 3)) if delivery.how == "later" else []
        tries = 0
        while True:
            tries += 1
            try:
                made = getattr(self, f"_{delivery.how}")(delivery.orders)
            except Away as error:
                self._forget()
                if delivery.how == "copy":
                    history.write("unknown", orders=[order.n for order in delivery.orders], error=str(error))
                    return
                time.sleep(random.uniform(0.05, 0.5))
            except Exception as error:
                history.write("refused", orders=[order.n for order in delivery.orders], error=f"{type(error).__name__}: {error}")
                return
            else:
                break
        for order, enqueued in zip(delivery.orders, made, strict=True):
            made_of = {"n": order.n, "job": str(enqueued.id), "parents": self._parents}
            history.write("acknowledged", **made_of, created=enqueued.created, tries=tries)
            if order.task in load.SOLID_PARENTS:
                self._recent.append(str(enqueued.id))

    def _one(self, orders: tuple[load.Order, ...]) -> list[Enqueued]:
        return [app.enqueue(order.task, {"n": order.n, **order.arguments}, key=order.key) for order in orders]

    def _many(self, orders: tuple[load.Order, ...]) -> list[Enqueued]:
        jobs: dict[int, NewJob] = {}
        for order in orders:
            job = app.job(order.task, {"n": order.n, **order.arguments}, key=order.key, on_parent_failure=order.on_parent_failure)
            jobs[order.n] = job.after(*(jobs[parent] for parent in order.after))
        return app.enqueue_many(jobs.values())

    def _later(self, orders: tuple[load.Order, ...]) -> list[Enqueued]:
        return [
            app.enqueue(
                order.task,
                {"n": order.n, **order.arguments},
                key=order.key,
                parents=self._parents,
                on_parent_failure=order.on_parent_failure,
            )
            for order in orders
        ]

    def _copy(self, orders: tuple[load.Order, ...]) -> list[Enqueued]:
        return app.enqueue_many([app.job(order.task, {"n": order.n, **order.arguments}) for order in orders])

    def _sql(self, orders: tuple[load.Order, ...]) -> list[Enqueued]:
        made = []
        for order in orders:
            payload = Jsonb({"n": order.n, **order.arguments})
            row = (
                self._own_connection()
                .execute("SELECT rota.enqueue(%s, %s, key => %s)", [order.task, payload, order.key])
                .fetchone()
            )
            assert row is not None
            made.append(Enqueued(row[0]))
        return made

    def _own(self, orders: tuple[load.Order, ...]) -> list[Enqueued]:
        conn = self._own_connection()
        with conn.transaction():
            made = [app.enqueue(order.task, {"n": order.n, **order.arguments}, key=order.key, conn=conn) for order in orders]
            for order, enqueued in zip(orders, made, strict=True):
                conn.execute(
                    "INSERT INTO chaos.shipment (n, job_id) VALUES (%s, %s) ON CONFLICT DO NOTHING", [order.n, enqueued.id]
                )
        return made

    def _own_connection(self) -> psycopg.Connection:
        if self._conn is None:
            self._conn = psycopg.connect(self._dsn, autocommit=True, application_name="rota chaos client", connect_timeout=5)
        return self._conn

    def _forget(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def main() -> None:
    """Deliver every `shares`-th delivery of the plan, at its time."""
    end_with_harness()
    seed, jobs, poison = map(int, sys.argv[1:4])
    seconds = float(sys.argv[4])
    share, shares = map(int, sys.argv[5:7])
    began = time.monotonic()
    client = Client(os.environ["CHAOS_DSN"])
    for delivery in load.plan(seed, jobs=jobs, poison=poison, seconds=seconds)[share::shares]:
        time.sleep(max(began + delivery.at - time.monotonic(), 0))
        client.deliver(delivery)
    app.close()


if __name__ == "__main__":
    main()
