"""What becomes of jobs, in plain Python: the measure for the SQL."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

LIVE = ("waiting", "delayed", "held", "queued", "running")
INTERNAL = {"delayed": "queued", "held": "queued"}  # what users see of them


@dataclass
class Job:
    """What the model knows of a job."""

    id: UUID
    task: str
    priority: int
    run_at: datetime
    max_attempts: int
    policy: str
    state: str
    limited: bool = False
    aside: bool = False  # no worker knows its task
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
    def public_state(self) -> str:
        return INTERNAL.get(self.state, self.state)

    @property
    def charged(self) -> int:
        return self.attempt - self.forgiven - (0 if self.culprit else min(self.crashes, 3))


class Model:
    """All jobs, the parents that each was given, the limit of those that have one, and the time."""

    def __init__(self, now: datetime, limit: int | None) -> None:
        self.now = now
        self.limit = limit
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
            if job.limited:
                self.admit()
            return
        job.runs.append(recorded)
        job.forgiven += outcome in ("snoozed", "released")
        if not job.culprit and outcome != "released":
            job.forgiven += min(job.crashes, 3)
            job.crashes = 0
        if outcome != "released":  # what was cut short keeps its place in the queue
            job.run_at = self.now + delay
        job.state, job.worker, job.lease_until = "delayed" if delay else "queued", None, None
        if job.limited and outcome != "released":
            job.state = "delayed" if delay else "held"
            self.admit()

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

    def admit(self) -> int:
        """Held jobs take the places that are free; where there are too many, those that do not run yet give theirs up."""
        limited = sorted(
            (job for job in self.jobs.values() if job.limited and not job.aside), key=lambda job: (job.priority, job.run_at, job.id)
        )
        held = [job for job in limited if job.state == "held"]
        queued = [job for job in limited if job.state == "queued"]
        running = [job for job in limited if job.state == "running"]
        places = len(held) if self.limit is None else self.limit - len(queued) - len(running)
        admitted = held[: max(places, 0)]
        for job in admitted:
            job.state = "queued"
        for job in queued[::-1][: max(-places, 0)]:
            job.state = "held"
        return len(admitted)

    def let_go(self, job: Job) -> None:
        """A job that waits for nobody is ready, or will be at its time."""
        if not job.waits_for:
            job.state = "delayed" if job.run_at > self.now else "held" if job.limited else "queued"
