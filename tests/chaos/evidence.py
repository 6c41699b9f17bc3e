"""What is looked at after the drain: the history from outside, and the tables that must agree with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import class_row
from tests.chaos import history
from tests.chaos.history import Line
from tests.chaos.load import Delivery, Order


@dataclass(frozen=True, slots=True)
class Row:
    """A recorded attempt."""

    job: str
    attempt: int
    task: str
    outcome: str
    final: bool
    worker: str | None
    error: dict[str, Any] | None
    result: dict[str, Any] | None
    n: int | None

    @property
    def died(self) -> bool:
        """Whether its worker was lost, and not the handler's own doing."""
        of_worker = self.error_text.startswith("its worker ")  # and not "its process", in which it was alone
        return self.outcome == "lost" or (self.error_type == "WorkerCrashed" and of_worker)

    @property
    def error_type(self) -> str:
        return str((self.error or {}).get("type", ""))

    @property
    def error_text(self) -> str:
        return str((self.error or {}).get("message", ""))


class Evidence:
    """Everything that is known, by job."""

    def __init__(self, lines: list[Line], rows: Iterable[Row], deliveries: list[Delivery]) -> None:
        self.lines = lines
        self.deliveries = deliveries
        self.orders: dict[int, Order] = {order.n: order for delivery in deliveries for order in delivery.orders}
        self.rows: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row.attempt):
            self.rows[row.job].append(row)
        self.live: list[tuple[str, str, str, int]] = []  # id, task, state, attempt
        self.payments: dict[str, list[int]] = defaultdict(list)
        self.shipments: dict[int, str] = {}

    @classmethod
    def collect(cls, folder: Path, conn: psycopg.Connection[Any], deliveries: list[Delivery]) -> Evidence:
        """Read the history and the tables."""
        with conn.cursor(row_factory=class_row(Row)) as cursor:
            rows = cursor.execute(
                """SELECT job_id::text AS job, attempt, task, outcome, final, worker_id::text AS worker, error, result,
                          (payload ->> 'n')::integer AS n
                   FROM rota.run"""
            ).fetchall()
        evidence = cls(history.read(folder), rows, deliveries)
        evidence.live = conn.execute("SELECT id::text, task, state, attempt FROM rota.job ORDER BY id").fetchall()
        for job, attempt in conn.execute("SELECT job_id::text, attempt FROM chaos.payment").fetchall():
            evidence.payments[job].append(attempt)
        evidence.shipments = dict(conn.execute("SELECT n, job_id::text FROM chaos.shipment").fetchall())
        return evidence

    def of(self, *events: str) -> list[Line]:
        """Give the lines about these events."""
        return [line for line in self.lines if line["event"] in events]

    @cached_property
    def starts(self) -> dict[tuple[str, int], list[Line]]:
        """Attempts that began, by job and number."""
        return self._by_attempt("start")

    @cached_property
    def ends(self) -> dict[tuple[str, int], list[Line]]:
        """Attempts that ended by themselves, by job and number."""
        return self._by_attempt("end")

    @cached_property
    def workers(self) -> dict[int, list[tuple[float, str]]]:
        """When which worker came to be in a process."""
        workers: dict[int, list[tuple[float, str]]] = defaultdict(list)
        for line in self.of("worker"):
            workers[line["pid"]].append((line["at"], line["worker"]))
        return workers

    def worker_of(self, line: Line) -> str | None:
        """Say which worker a handler's line is from; in a child, its parent's."""
        # The parent first: the child may have the number of a worker that is long gone.
        for pid in (line["parent"], line["pid"]):
            known = [worker for at, worker in self.workers.get(pid, ()) if at <= line["at"]]
            if known:
                return known[-1]
        return None

    def final(self, job: str) -> Row | None:
        """Give the row that ended the job."""
        return next((row for row in self.rows.get(job, ()) if row.final), None)

    @cached_property
    def jobs_of(self) -> dict[int, list[str]]:
        """The ended jobs of each order: one, if all is well."""
        jobs: dict[int, list[str]] = defaultdict(list)
        for job, rows in self.rows.items():
            for row in rows:
                if row.final and row.n is not None:
                    jobs[row.n].append(job)
        return jobs

    def _by_attempt(self, event: str) -> dict[tuple[str, int], list[Line]]:
        found: dict[tuple[str, int], list[Line]] = defaultdict(list)
        for line in self.of(event):
            found[line["job"], line["attempt"]].append(line)
        return found
