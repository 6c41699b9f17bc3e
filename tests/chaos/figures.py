"""What is measured: how soon the work of a killed worker is taken up, and how soon it goes on after a restart."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.evidence import Evidence

RERUN_P95_S = 5.0
RERUNS_AT_LEAST = 25  # fewer say little about a p95; an idle machine has little in hand when its workers are killed
PROGRESS_S = 10.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds from one event to another."""

    seconds: list[float]

    def quantile(self, share: float) -> float:
        """Give the value that this share of them does not exceed."""
        ordered = sorted(self.seconds)
        return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else 0.0

    def __str__(self) -> str:
        if not self.seconds:
            return "none"
        p50, p95, most = self.quantile(0.5), self.quantile(0.95), max(self.seconds)
        return f"{len(self.seconds)}: p50 {p50:.2f} s, p95 {p95:.2f} s, most {most:.2f} s"


def kill_to_rescue(evidence: Evidence) -> Latencies:
    """Measure from SIGKILL to the moment at which another worker had taken the jobs; without restarts in between."""
    rescued: dict[str, list[float]] = {}
    for line in evidence.of("rescued"):
        rescued.setdefault(line["worker"], []).append(line["at"])
    return Latencies([
        at - kill.at for kill in _kills(evidence) for at in rescued.get(kill.worker, ()) if kill.undisturbed_until(at)
    ])  # fmt: skip


def kill_to_rerun(evidence: Evidence, *, undisturbed: bool) -> Latencies:
    """Measure from SIGKILL to the beginning of the next attempt at each job that was lost with it.

    Where that attempt was lost with another worker before it began, it is that worker's kill that counts.
    `undisturbed`: only workers with default settings, and only where the server was up from the kill to the re-run.
    """
    lost: dict[str, list[tuple[str, int]]] = {}
    for job, rows in evidence.rows.items():
        for row in rows:
            if row.outcome == "lost" and row.worker is not None:
                lost.setdefault(row.worker, []).append((job, row.attempt))
    begun = [
        (kill, again["at"])
        for kill in _kills(evidence)
        for job, attempt in lost.get(kill.worker, ())
        for again in evidence.starts.get((job, attempt + 1), ())
    ]
    wanted = [(kill, at) for kill, at in begun if not undisturbed or (kill.default and kill.undisturbed_until(at))]
    return Latencies([at - kill.at for kill, at in wanted])


@dataclass(frozen=True, slots=True)
class Kill:
    """A SIGKILL and whom it hit."""

    at: float
    worker: str
    default: bool  # a worker with default settings
    outages: list[tuple[float, float]]

    def undisturbed_until(self, at: float) -> bool:
        """Say whether the server was up from the kill until then."""
        return not any(down <= at and self.at <= up for down, up in self.outages)


def _kills(evidence: Evidence) -> Iterator[Kill]:
    outages = _outages(evidence)
    for line in evidence.of("killed"):
        workers = [worker for at, worker in evidence.workers.get(line["worker_pid"], ()) if at <= line["at"]]
        if workers:
            yield Kill(line["at"], workers[-1], line["default"], outages)


def _outages(evidence: Evidence) -> list[tuple[float, float]]:
    downs, ups = ([line["at"] for line in evidence.of(event)] for event in ("server down", "server up"))
    return list(zip(downs, ups, strict=True))


def restart_to_progress(evidence: Evidence) -> Latencies:
    """Measure from the server's return to the next completion that a worker is told of."""
    told = [line["at"] for line in evidence.of("told") if line["state"] == "completed"]
    ups = [line["at"] for line in evidence.of("server up")]
    return Latencies([told[at] - up for up in ups if (at := bisect_right(told, up)) < len(told)])


def slow(rerun: Latencies, progress: Latencies) -> list[str]:
    """Say what took longer than it may."""
    found = []
    if (p95 := rerun.quantile(0.95)) > RERUN_P95_S:
        found.append(f"SIGKILL to re-run: p95 is {p95:.2f} s, more than {RERUN_P95_S:g} s")
    if len(rerun.seconds) < RERUNS_AT_LEAST:
        found.append(f"SIGKILL to re-run: only {len(rerun.seconds)} re-runs were measured, less than {RERUNS_AT_LEAST}")
    if (most := max(progress.seconds, default=0)) > PROGRESS_S:
        found.append(f"restart to progress: {most:.1f} s, more than {PROGRESS_S:g} s")
    return found


def endings(evidence: Evidence) -> Counter[str]:
    """Count how attempts ended."""
    return Counter(row.outcome for rows in evidence.rows.values() for row in rows)
