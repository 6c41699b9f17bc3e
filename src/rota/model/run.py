"""One attempt at a job, from its claim to its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

from rota.model.vault import Records, records_of


class Book(Protocol):
    """Keeps what a run's handler says."""

    def write(self, run: Run, level: int, message: str, fields: Mapping[str, Any]) -> None:
        """Takes in a line without secrets; never fails and never waits."""

    def show(self, run: Run, progress: str) -> None:
        """Takes in how far the handler has come, as JSON."""

    def close(self, run: Run) -> None:
        """The handler has ended: what it said is written down soon."""


class Run:
    """What a worker holds: the claimed job, and then what became of the attempt.

    Mutable and slotted because tens of thousands a second pass through a worker. Times without a zone are this process's
    monotonic clock; they are only ever subtracted from each other.
    """

    __slots__ = (
        "arrived", "attempt", "book", "claimed", "crashes", "delay_s", "details", "error", "heard", "id", "interrupted", "leased",
        "max_attempts", "next_at", "outcome", "payload", "priority", "queue", "result", "retryable", "run_at", "said", "secrets",
        "started", "state", "task", "token", "took_s", "wait_s",
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
    # The answer to the claim. `started` is recorded relative to it: relative to the request, which may have been slow to arrive,
    # a run would start and finish in the future.
    arrived: float
    leased: float  # the claim, or the last renewal of its lease
    started: float
    took_s: float
    outcome: str | None  # completed, failed, crashed, canceled, snoozed, released, refused
    error: dict[str, Any] | None
    result: str | None  # JSON text
    delay_s: float | None  # until it runs again, when it does; None: none, or as its recurring row says
    next_at: datetime | None  # or the time at which the recurring row runs again
    retryable: bool
    interrupted: str | None  # why the handler was told to stop: timeout, cancel, lost, shutdown
    heard: bool  # the handler knows that
    state: str | None  # the job's state after this run was recorded; lost when it was not ours to record
    book: Book | None  # where its handler's lines go
    said: Any  # what the book knows about it; None: its handler has said nothing
    secrets: Collection[str]  # of its payload: hidden wherever they come up

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
        self.book = self.said = None
        self.secrets = ()
        self.retryable = True
        self.heard = False

    @property
    def job_id(self) -> UUID:
        return UUID(self.id)

    @property
    def run_id(self) -> str:
        """The job and the number of the attempt, as people write it."""
        return f"{self.id}/{self.attempt}"

    @property
    def correlation_id(self) -> str:
        """What ties this run to others and to the world outside: what its maker gave, else the job's own id."""
        triggered_by = self.details and self.details["triggered_by"]
        return str((triggered_by or {}).get("correlation_id") or self.id)

    @property
    def identity(self) -> dict[str, Any]:
        """Whose line it is, for the process log."""
        return {"task": self.task, "job_id": self.id, "attempt": self.attempt, "correlation_id": self.correlation_id}

    @property
    def queued_at(self) -> datetime:
        """When the job was enqueued, to the millisecond: its id says so, and no claim has to carry it."""
        return datetime.fromtimestamp((int(self.id[:8], 16) << 16 | int(self.id[9:13], 16)) / 1000, UTC)

    @property
    def records(self) -> Records:
        """The records that secrets in its payload may have been sealed for."""
        if not self.details:
            return records_of(self.task, job=self.id)
        return records_of(self.task, job=self.id, owner=self.details["owner"], schedule=self.details["schedule_id"])

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


current_run: ContextVar[Run | None] = ContextVar("rota_current_run", default=None)  # whose handler this is, if it is one
