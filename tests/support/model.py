"""What becomes of jobs, in plain Python: the measure for the SQL."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

LIVE = ("waiting", "delayed", "queued", "running")


@dataclass
class Job:
    """What the model knows of a job."""

    id: UUID
    priority: int
    run_at: datetime
    max_attempts: int
    policy: str
    state: str
    waits_for: set[UUID] = field(default_factory=set)
    attempt: int = 0
    forgiven: int = 0
    crashes: int = 0
    culprit: bool = False
    token: int = 0
    worker: UUID | None = None
    lease_until: datetime | None = None
    cancel_requested: bool = False
    runs: list[str] = field(default_factory=list)  # the outcome of attempt n at position n - 1

    @property
    def charged(self) -> int:
        return self.attempt - self.forgiven - (0 if self.culprit else min(self.crashes, 3))


class Model:
    """All jobs, the parents that each was given, and the time."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[UUID, Job] = {}
        self.parents: dict[UUID, list[UUID]] = {}

    def any(self, *states: str) -> bool:
        """Say whether a job is in one of these states."""
        return builtins.any(job.state in states for job in self.jobs.values())

    def finish(self, job: Job, outcome: str, delay: timedelta, retryable: bool) -> None:
        """A run ends; the job with it, or it is tried again."""
        job.culprit = job.culprit or outcome == "crashed"
        recorded = "failed" if outcome == "crashed" else outcome
        is_final = recorded in ("completed", "canceled")
        is_final |= recorded == "failed" and (not retryable or job.charged >= job.max_attempts)
        if is_final or job.cancel_requested:
            self.end(job, recorded if is_final else "canceled")
            return
        job.runs.append(recorded)
        job.forgiven += outcome in ("snoozed", "released")
        if not job.culprit and outcome != "released":
            job.forgiven += min(job.crashes, 3)
            job.crashes = 0
        if outcome != "released":  # what was cut short keeps its place in the queue
            job.run_at = self.now + delay
        job.state, job.worker, job.lease_until = "delayed" if delay else "queued", None, None

    def end(self, job: Job, outcome: str) -> None:
        """A job ends, and those that wait for it are told."""
        job.runs.append(outcome)
        job.state, job.worker, job.lease_until, job.cancel_requested = outcome, None, None, False
        for child in [each for each in self.jobs.values() if job.id in each.waits_for]:
            if child.state == "waiting" and (outcome == "completed" or child.policy == "ignore"):
                child.waits_for.discard(job.id)
                self.let_go(child)
            elif child.state == "waiting":
                child.attempt += 1
                child.waits_for.clear()
                self.end(child, "failed" if child.policy == "fail" else "canceled")

    def let_go(self, job: Job) -> None:
        """A job that waits for nobody is ready, or will be at its time."""
        if not job.waits_for:
            job.state = "delayed" if job.run_at > self.now else "queued"
