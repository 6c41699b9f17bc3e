"""One attempt at a job, from its claim to its end."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID


class Run:
    """What a worker holds: the claimed job, and then what became of the attempt.

    Mutable and slotted because tens of thousands a second pass through a worker. Times without a zone are this process's
    monotonic clock; they are only ever subtracted from each other.
    """

    __slots__ = (
        "arrived", "attempt", "claimed", "crashes", "delay_s", "details", "error", "heard", "id", "interrupted", "leased",
        "max_attempts", "next_at", "outcome", "payload", "priority", "queue", "result", "retryable", "run_at", "started", "state",
        "task", "token", "took_s", "wait_s",
    )  # fmt: skip

    id: str
    token: int
    task: str
    queue: str
    priority: int
    run_at: datetime
    payload: str
    attempt: int
    max_attempts: int
    crashes: int
    details: dict[str, Any]
    wait_s: float  # from due to claimed, by the database's clock
    claimed: float
    arrived: float  # the answer to the claim
    leased: float  # the claim, or the last renewal of its lease
    started: float
    took_s: float
    outcome: str | None  # completed, failed, crashed, canceled, snoozed, released
    error: dict[str, Any] | None
    result: str | None  # JSON text
    delay_s: float | None  # until it runs again, when it does; None: none, or as its recurring row says
    next_at: datetime | None  # or the time at which the recurring row runs again
    retryable: bool
    interrupted: str | None  # why the handler was told to stop: timeout, cancel, lost, shutdown
    heard: bool  # the handler knows that
    state: str | None  # the job's state after this run was recorded; lost when it was not ours to record

    def __init__(
        self, id: str, token: int, task: str, queue: str, priority: int, run_at: datetime, payload: str, attempt: int,
        max_attempts: int, details: dict[str, Any], wait_s: float, claimed: float,
    ) -> None:  # fmt: skip
        self.id = id
        self.token = token
        self.task = task
        self.queue = queue
        self.priority = priority
        self.run_at = run_at
        self.payload = payload
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.details = details
        self.crashes = details["crashes"] if details else 0
        self.wait_s = wait_s
        self.claimed = self.leased = self.arrived = claimed
        self.started = 0.0
        self.took_s = 0.0
        self.outcome = self.error = self.result = self.interrupted = self.state = self.delay_s = self.next_at = None
        self.retryable = True
        self.heard = False

    @property
    def job_id(self) -> UUID:
        return UUID(self.id)

    @property
    def is_scheduled(self) -> bool:
        """Whether a schedule enqueued the job, and may wait for its end."""
        return bool(self.details) and self.details["schedule_id"] is not None

    @property
    def limited(self) -> bool:
        """Whether it has a place within its task's limit."""
        return bool(self.details) and bool(self.details["limited"])

    @property
    def charged(self) -> int:
        """Attempts that count against max_attempts, this one included."""
        return int(self.details["charged"]) if self.details else self.attempt

    def __repr__(self) -> str:
        return f"<Run {self.task} {self.id} attempt {self.attempt}>"
