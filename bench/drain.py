"""One drain: workers start together on a loaded queue and are timed until every job is closed."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from bench.cluster import Cluster
from bench.processes import Talker, await_true, tree_cpu_seconds, tree_peak_megabytes
from bench.system import Options, System

# Completions are written in batches: a queue seen empty this soon after the last handler counts as closed with it.
CLOSING_SECONDS = 0.05
CLOSED_TIMEOUT = 30.0


@dataclass(frozen=True)
class Course:
    """How many jobs all workers together had handled, and when, as nanoseconds of the monotonic clock."""

    points: list[tuple[int, int]]

    @classmethod
    def of(cls, workers: list[Talker]) -> "Course":
        """Add up what the workers reported."""
        reports = sorted((at, number, count) for number, each in enumerate(workers) for count, at in list(each.pairs))
        counts = [0] * len(workers)
        points = []
        for at, number, count in reports:
            counts[number] = count
            points.append((at, sum(counts)))
        return cls(points)

    @property
    def handled(self) -> int:
        """All jobs handled."""
        return self.points[-1][1] if self.points else 0

    def rate(self, start: float = 0.0, end: float = 1.0) -> float:
        """Jobs per second over a part of the jobs, given as fractions; starting up is no part of it."""
        from_count, to_count = self.handled * start, self.handled * end
        first = next((point for point in self.points if point[1] >= from_count), None)
        last = next((point for point in self.points if point[1] >= to_count), None)
        if first is None or last is None or first[0] >= last[0]:
            return 0.0
        return (last[1] - first[1]) / ((last[0] - first[0]) / 1e9)

    def closed_at(self, nanoseconds: int) -> "Course":
        """Move the end to the time when the last job was seen closed."""
        return Course([*self.points[:-1], (nanoseconds, self.handled)])


@dataclass(frozen=True)
class Drain:
    """What a drain came to."""

    course: Course
    complete: bool
    postgres_cpu: float
    worker_cpu: float
    megabytes: float

    def figures(self) -> dict[str, float]:
        """The figures of the table: rate, CPU per job in microseconds, memory of the largest worker."""
        handled = max(self.course.handled, 1)
        return {
            "rate": self.course.rate(),
            "postgres_us": 1e6 * self.postgres_cpu / handled,
            "worker_us": 1e6 * self.worker_cpu / handled,
            "rss_mb": self.megabytes,
            "complete": float(self.complete),
        }


def drain(
    cluster: Cluster,
    system: System,
    dsn: str,
    jobs: int,
    *,
    processes: int = 1,
    timeout: float,
    options: Options | None = None,
) -> Drain:
    """Let workers handle the `jobs` that are waiting, for at most `timeout` seconds."""
    with running_workers(system, dsn, processes, options) as workers:
        postgres_before = cluster.cpu_seconds()
        workers_before = sum(tree_cpu_seconds(worker.pid) for worker in workers)
        for worker in workers:
            worker.send_line()
        complete = await_true(lambda: Course.of(workers).handled >= jobs or fail_if_ended(workers), timeout, 0.02)
        course = Course.of(workers)
        if complete:
            time.sleep(CLOSING_SECONDS)
            closed_at = await_closed(system, dsn)
            if closed_at is not None:
                course = course.closed_at(closed_at)
        return Drain(
            course,
            complete,
            cluster.cpu_seconds() - postgres_before,
            sum(tree_cpu_seconds(worker.pid) for worker in workers) - workers_before,
            max(tree_peak_megabytes(worker.pid) for worker in workers),
        )


def await_closed(system: System, dsn: str) -> int | None:
    """Wait until no due job is open; the time of that, or None when it was so at the first look."""
    with psycopg.connect(dsn, autocommit=True, options="-c statement_timeout=30s") as conn:
        deadline = time.monotonic() + CLOSED_TIMEOUT
        looks = 0
        while time.monotonic() < deadline:
            looked_at = time.monotonic_ns()
            row = conn.execute(system.drained.encode()).fetchone()
            if row and row[0]:
                return looked_at if looks else None
            looks += 1
            time.sleep(0.002)
    raise TimeoutError(f"{system.name} handled every job, but did not close them all within {CLOSED_TIMEOUT:.0f} s")


@contextlib.contextmanager
def running_workers(
    system: System, dsn: str, processes: int, options: Options | None = None, *, ring: bool = False
) -> Iterator[list[Talker]]:
    """Start worker processes up to the line at which they wait to go, and end them afterwards."""
    workers = [system.start("work", dsn, options, ring=ring) for _ in range(processes)]
    try:
        for worker in workers:
            worker.await_ready()
        yield workers
    finally:
        for worker in workers:
            worker.stop()


def fail_if_ended(workers: list[Talker]) -> bool:
    """Raise if a worker is gone; for use in a condition that is waited for."""
    for worker in workers:
        if worker.ended:
            raise worker.failure("ended while there was work")
    return False
