"""What Rota promises, as ratios between figures of one run."""

from dataclasses import dataclass

from bench.results import Results

Figure = tuple[str, str, str]
"""Scenario, system, figure."""


@dataclass(frozen=True)
class Target:
    """A bound on one figure, or on the ratio of two."""

    text: str
    figure: Figure
    bound: float
    over: Figure | None = None
    at_most: bool = False

    def value(self, results: Results) -> float | None:
        """The figure or ratio, or None where a part of it was not measured."""
        value = results.median(*self.figure)
        if self.over is None or value is None:
            return value
        divisor = results.median(*self.over)
        return value / divisor if divisor else None

    def met(self, value: float) -> bool:
        """Whether the value keeps the bound."""
        return value <= self.bound if self.at_most else value >= self.bound


def ratio(text: str, bound: float, figure: Figure, over: Figure, *, at_most: bool = False) -> Target:
    """A bound on the ratio of two figures."""
    return Target(text, figure, bound, over, at_most)


def pickup(text: str, figure: str) -> Target:
    """A bound on the time to pick up a job, against a bare LISTEN and claim."""
    return ratio(f"pick-up {text}: rota ÷ floor", 1.5, ("pickup", "rota", figure), ("pickup", "floor", figure), at_most=True)


TUNED = ("drain1", "rota-tuned", "rate")
DEFAULTS = ("drain1", "rota", "rate")

TARGETS = [
    ratio("drain, 1 process: rota tuned ÷ floor", 0.6, TUNED, ("drain1", "floor", "rate")),
    ratio("drain, 1 process: rota tuned ÷ graphile-worker batched", 1.3, TUNED, ("drain1", "graphile", "rate")),
    ratio("drain, 1 process: rota tuned ÷ pgqueuer tuned", 2.5, TUNED, ("drain1", "pgqueuer", "rate")),
    ratio("drain, 1 process: rota ÷ pgqueuer, both defaults", 3.0, DEFAULTS, ("drain1", "pgqueuer-default", "rate")),
    ratio("drain: rota tuned, 2 processes ÷ 1", 1.1, ("drain2", "rota-tuned", "rate"), TUNED),
    ratio("enqueue one by one: rota ÷ floor", 0.7, ("single", "rota", "rate"), ("single", "floor", "rate")),
    ratio("enqueue in bulk: rota ÷ floor", 0.6, ("bulk", "rota", "rate"), ("bulk", "floor", "rate")),
    pickup("p50 from the commit", "p50_ms"),
    pickup("p50 from the call", "from_call_p50_ms"),
    Target("pinned xmin, large batches: last ÷ first", ("pinned-large", "rota-tuned", "ratio"), 0.85),
    Target("pinned xmin, small batches: last ÷ first", ("pinned-small", "rota", "ratio"), 0.85),
    Target("beside 1M jobs not yet due ÷ without", ("future", "rota-tuned", "ratio"), 0.9),
    Target("behind 1M jobs of a task that no worker knows ÷ without", ("unknown", "rota", "ratio"), 0.9),
    Target("idle claim beside 1M jobs not yet due, ms", ("future", "rota-tuned", "idle_claim_ms"), 2.0, at_most=True),
    Target("unlimited jobs beside 200k held by limits ÷ without", ("unlimited", "rota", "ratio"), 0.95),
    Target("8 writers: with NOTIFY ÷ without", ("writers", "rota", "ratio"), 0.7),
    Target("look for due rows beside 1M that are not, ms", ("recurring-idle", "rota", "idle_poll_ms"), 5.0, at_most=True),
    Target("recurring rows fired and run by one worker, rows/s", ("recurring-fire", "rota", "rate"), 3000.0),
    Target("1M rows due at once: longest statement, ms", ("recurring-flood", "rota", "longest_ms"), 1000.0, at_most=True),
    Target("1M rows due at once: pick-up in another queue, p99 ms", ("recurring-flood", "rota", "p99_ms"), 1000.0, at_most=True),
    Target("listing and filtering 5M runs, p95 ms", ("runs", "rota", "p95_ms"), 200.0, at_most=True),
    Target("log lines kept, lines/s", ("lines", "rota", "rate"), 20_000.0),
    Target("jobs that log one line ÷ jobs that do not", ("saying", "rota", "ratio"), 0.9),
    Target("text search over 1M log lines, p95 ms", ("log-search", "rota", "p95_ms"), 300.0, at_most=True),
    Target("lateness of scheduled jobs, p99 ms", ("lateness", "rota", "p99_ms"), 150.0, at_most=True),
    Target("while 1M old runs are pruned ÷ without", ("prune", "rota", "ratio"), 0.85),
    Target("POST /jobs ÷ a bare endpoint with one INSERT", ("post-jobs", "rota", "ratio"), 0.6),
    Target("HTTP jobs end to end ÷ a bare loop of calls", ("http-jobs", "rota", "ratio"), 0.4),
    Target("admin list over 5M jobs, p95 ms", ("job-lists", "rota", "p95_ms"), 200.0, at_most=True),
    Target("pages over 5M jobs and 1M log lines, p95 ms", ("pages", "rota", "p95_ms"), 500.0, at_most=True),
    Target("pages, slowest request of all, ms", ("pages", "rota", "slowest_ms"), 2000.0, at_most=True),
    Target("processor time of a job with 200 live streams ÷ without", ("streams", "rota", "ratio"), 1.1, at_most=True),
    Target("memory of a worker, MB", ("drain1", "rota", "rss_mb"), 60.0, at_most=True),
    Target("memory of a tuned worker, MB", ("drain1", "rota-tuned", "rss_mb"), 60.0, at_most=True),
]
