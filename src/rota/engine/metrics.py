"""Events as Prometheus metrics.

Tens of thousands of runs a second pass here, so the subscriber adds up plain numbers per batch, and the metric objects are made
when somebody scrapes.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rota import events as e

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Histogram:
    """How many values lie within each of the bounds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Counts a value."""
        self.counts[bisect_left(BOUNDS, value)] += 1
        self.total += value

    def add_all(self, values: list[float]) -> None:
        """Counts many values; tens of thousands a second, so the loops are C's."""
        values.sort()
        below = 0
        for place, bound in enumerate(BOUNDS):
            reached = bisect_right(values, bound, below)
            self.counts[place] += reached - below
            below = reached
        self.counts[-1] += len(values) - below
        self.total += sum(values)

    def buckets(self) -> list[tuple[str, float]]:
        """The counts as Prometheus has them, each with those before it."""
        filled, cumulated = 0, []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            filled += count
            cumulated.append((bound, float(filled)))
        return cumulated


class Metrics:
    """A Prometheus collector fed by the engine's events; their library is loaded by who scrapes it."""

    def __init__(self, events: e.Events) -> None:
        self._lock = threading.Lock()
        self._claimed: Counter[str] = Counter()
        self._finished: Counter[tuple[str, ...]] = Counter()
        self._retried: Counter[str] = Counter()
        self._rescued: Counter[str] = Counter()
        self._lease_lost: Counter[str] = Counter()
        self._released = 0
        self._outages = 0
        self._depths: Sequence[e.QueueDepth] = ()
        self._durations: dict[str, Histogram] = {}
        self._latencies: dict[str, Histogram] = {}
        events.subscribe(e.RunsClaimed, self._on_claimed)
        events.subscribe(e.RunsFinished, self._on_finished)
        events.subscribe(e.RunRescued, self._on_rescued)
        events.subscribe(e.RunLeaseLost, self._on_lease_lost)
        events.subscribe(e.RunsReleased, self._on_released)
        events.subscribe(e.DatabaseLost, self._on_database_lost)
        events.subscribe(e.QueuesMeasured, self._on_queues_measured)

    def _on_claimed(self, event: e.RunsClaimed) -> None:
        with self._lock:
            self._claimed[event.queue] += len(event.runs)
            histogram = self._latencies.get(event.queue) or self._latencies.setdefault(event.queue, Histogram())
            histogram.add_all([run.wait_s for run in event.runs])

    def _on_finished(self, event: e.RunsFinished) -> None:
        durations: defaultdict[str, list[float]] = defaultdict(list)
        for run in event.runs:
            durations[run.task].append(run.took_s)
        with self._lock:
            self._finished.update([(run.task, run.queue, run.outcome or "") for run in event.runs])
            self._retried.update([run.task for run in event.runs if run.state == "queued" and run.outcome in ("failed", "crashed")])
            for task, took in durations.items():
                (self._durations.get(task) or self._durations.setdefault(task, Histogram())).add_all(took)

    def _on_rescued(self, event: e.RunRescued) -> None:
        with self._lock:
            self._rescued[event.task] += 1

    def _on_lease_lost(self, event: e.RunLeaseLost) -> None:
        with self._lock:
            self._lease_lost[event.run.task] += 1

    def _on_released(self, event: e.RunsReleased) -> None:
        with self._lock:
            self._released += event.count

    def _on_database_lost(self, _event: e.DatabaseLost) -> None:
        with self._lock:
            self._outages += 1

    def _on_queues_measured(self, event: e.QueuesMeasured) -> None:
        self._depths = event.queues

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now."""
        with self._lock:
            yield counter("rota_jobs_claimed", "Jobs claimed.", ["queue"], {(queue,): n for queue, n in self._claimed.items()})
            yield counter("rota_runs_finished", "Runs recorded, by outcome.", ["task", "queue", "outcome"], dict(self._finished))
            yield counter("rota_runs_retried", "Failed runs whose job will be tried again.", ["task"], _by_task(self._retried))
            yield counter("rota_runs_rescued", "Jobs taken from dead workers.", ["task"], _by_task(self._rescued))
            yield counter(
                "rota_leases_lost",
                "Runs whose end was refused because another worker has the job.",
                ["task"],
                _by_task(self._lease_lost),
            )
            yield counter("rota_jobs_released", "Claimed jobs given back unstarted.", [], {(): self._released})
            yield counter(
                "rota_database_errors",
                "Broken connections and failed statements, all retried.",
                [],
                {(): self._outages},
            )
            yield histogram("rota_run_duration_seconds", "How long handlers ran.", ["task"], _alone(self._durations))
            yield histogram(
                "rota_queue_latency_seconds",
                "How long jobs were due before they were claimed.",
                ["queue"],
                _alone(self._latencies),
            )
            yield gauge(
                "rota_queue_jobs",
                "Live jobs of a queue by state; estimated where there are more than 10,000.",
                ["queue", "state"],
                {(depth.queue, state): jobs for depth in self._depths for state, jobs in depth.jobs.items()},
            )
            yield gauge(
                "rota_queue_oldest_seconds",
                "How long the oldest ready job of a queue has been due.",
                ["queue"],
                {(depth.queue,): depth.oldest_s for depth in self._depths},
            )


def _by_task(counter: Counter[str]) -> dict[tuple[str, ...], int]:
    return {(task,): count for task, count in counter.items()}


def _alone(histograms: dict[str, Histogram]) -> dict[tuple[str, ...], Histogram]:
    return {(label,): histogram for label, histogram in histograms.items()}


def counter(name: str, text: str, labels: list[str], values: Mapping[tuple[str, ...], int]) -> Metric:
    """A counter by labels."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


def gauge(name: str, text: str, labels: list[str], values: Mapping[tuple[str, ...], float]) -> Metric:
    """A gauge by labels."""
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


def histogram(name: str, text: str, labels: list[str], histograms: Mapping[tuple[str, ...], Histogram]) -> Metric:
    """A histogram by labels."""
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, text, labels=labels)
    for label_values, each in histograms.items():
        family.add_metric(label_values, each.buckets(), each.total)
    return family
