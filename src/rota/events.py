"""What happened. The engine emits events; logs, metrics and traces are subscribers.

Events about runs come in batches, because the engine works in batches: a subscriber pays per batch what it can.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from rota.model.run import Run


@dataclass(frozen=True, slots=True)
class Event:
    """The root of everything that can be subscribed to."""

    name: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True)
class RunsClaimed(Event):
    """Jobs were claimed from a queue."""

    name = "run.claimed"
    queue: str
    runs: Sequence[Run]


@dataclass(frozen=True, slots=True)
class RunsFinished(Event):
    """Runs ended and were recorded; `run.outcome` says how and `run.state` what became of the job."""

    name = "run.finished"
    runs: Sequence[Run]


@dataclass(frozen=True, slots=True)
class RunInterrupted(Event):
    """A handler was told to stop: timeout, cancel, lost or shutdown."""

    name = "run.interrupted"
    run: Run
    reason: str


@dataclass(frozen=True, slots=True)
class RunRaised(Event):
    """A run failed with this exception: what an error tracker wants to see whole."""

    name = "run.raised"
    run: Run
    error: BaseException


@dataclass(frozen=True, slots=True)
class RunLeaseLost(Event):
    """This worker no longer held the job when it wanted to say something about it; nothing was changed."""

    name = "run.lease_lost"
    run: Run


@dataclass(frozen=True, slots=True)
class RunsReleased(Event):
    """Claimed jobs went back to the queue unstarted and uncharged."""

    name = "run.released"
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class RunRefused(Event):
    """A job went back uncharged: its payload does not fit this worker's version of the task, and another version may take it."""

    name = "run.refused"
    run: Run


@dataclass(frozen=True, slots=True)
class UnknownFailed(Event):
    """Jobs failed because no live worker had known their task for too long."""

    name = "task.unknown"
    task: str
    queue: str
    count: int


@dataclass(frozen=True, slots=True)
class RunRescued(Event):
    """A job was taken from a worker that died or let its lease run out."""

    name = "run.rescued"
    job_id: UUID
    task: str
    queue: str
    attempt: int
    worker_id: UUID
    state: str


@dataclass(frozen=True, slots=True)
class ThreadStuck(Event):
    """A handler's thread goes on after its run was ended; its slot stays taken until it returns."""

    name = "run.thread_stuck"
    run: Run


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """A worker began to claim."""

    name = "worker.started"
    worker_id: UUID
    queues: Sequence[str]
    slots: int


@dataclass(frozen=True, slots=True)
class WorkerBroken(Event):
    """A part of the worker ended by itself, and the worker stops because of it."""

    name = "worker.broken"
    worker_id: UUID
    part: str
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class WorkerStopping(Event):
    """A worker claims no more and lets its running jobs finish."""

    name = "worker.stopping"
    worker_id: UUID
    running: int


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    """A worker has ended."""

    name = "worker.stopped"
    worker_id: UUID


@dataclass(frozen=True, slots=True)
class WorkerDied(Event):
    """Another worker's session is gone and its jobs have been rescued."""

    name = "worker.died"
    worker_id: UUID
    rescued: int


@dataclass(frozen=True, slots=True)
class SchedulesFired(Event):
    """Due schedules were handled: jobs enqueued, instants passed over."""

    name = "schedule.fired"
    schedules: int
    jobs: int
    skipped: int


@dataclass(frozen=True, slots=True)
class ScheduleRefused(Event):
    """A schedule that cannot be fired, say because its time zone does not exist, was switched off."""

    name = "schedule.refused"
    schedule: str
    why: str


@dataclass(frozen=True, slots=True)
class DeadlineMissed(Event):
    """A scheduled job did not start, or finish, within the time its schedule allows: an alert."""

    name = "schedule.deadline_missed"
    schedule: str
    task: str
    instant: datetime
    job_id: UUID
    deadline: str
    due: datetime


@dataclass(frozen=True, slots=True)
class ScheduleFailing(Event):
    """A recurring row keeps failing and rests as long as it may between tries: an alert."""

    name = "schedule.failing"
    schedule: str
    task: str
    failures: int
    error: str | None


@dataclass(frozen=True, slots=True)
class LinesRefused(Event):
    """Lines of runs that are no longer this worker's were not kept."""

    name = "log.refused"
    lines: int


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many jobs a queue has by state, estimated beyond 10,000, and how long its oldest ready job has been due."""

    queue: str
    jobs: Mapping[str, int]
    oldest_s: float


@dataclass(frozen=True, slots=True)
class QueuesMeasured(Event):
    """A worker looked how full the queues are."""

    name = "queues.measured"
    queues: Sequence[QueueDepth]


@dataclass(frozen=True, slots=True)
class DatabaseLost(Event):
    """A connection broke or a statement failed; it will be tried again."""

    name = "database.lost"
    service: str
    error: BaseException
    retry_in_s: float


@dataclass(frozen=True, slots=True)
class DatabaseBack(Event):
    """A service has its connection again."""

    name = "database.back"
    service: str
    away_s: float


Subscriber = Callable[[Any], None]


class Events:
    """Hands each event to those who subscribed to its class (or to Event: everything), then to those of `within`."""

    def __init__(self, within: Events | None = None) -> None:
        self._within = within
        self._subscribers: dict[type[Event], list[Subscriber]] = {}

    def subscribe(self, kind: type[Event], subscriber: Subscriber) -> None:
        """Calls `subscriber` with every event of this class, in the thread that emits it."""
        self._subscribers.setdefault(kind, []).append(subscriber)

    def wanted(self, kind: type[Event]) -> bool:
        """Whether somebody subscribed to this class itself, for events that cost something to find out."""
        return kind in self._subscribers or (self._within is not None and self._within.wanted(kind))

    def emit(self, event: Event) -> None:
        """Tells the subscribers. A subscriber's error is logged and never reaches the engine."""
        for kind in (type(event), Event):
            for subscriber in self._subscribers.get(kind, ()):
                try:
                    subscriber(event)
                except Exception:
                    logging.getLogger("rota.events").exception("subscriber of %s failed", event.name)
        if self._within is not None:
            self._within.emit(event)
