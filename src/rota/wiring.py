"""What an application is made of when it works: its own tasks, Rota's, and a worker with the settings it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rota.config import Settings
from rota.control.alerts import LOOK_S, Watch
from rota.control.servers import BEAT_S, note_ports
from rota.control.system import control_tasks
from rota.engine.options import LogOptions, WorkerOptions
from rota.engine.system import SYSTEM_TASKS, system_tasks
from rota.engine.upkeep import Duty
from rota.engine.worker import Worker
from rota.events import Events
from rota.model.limits import QueueLimits
from rota.model.task import TaskSpec


class Application(Protocol):
    """What a worker must know of the code it belongs to."""

    name: str
    settings: Settings

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """Its tasks by name."""

    @property
    def queues(self) -> Mapping[str, int]:
        """Its queues with their weights."""

    @property
    def queue_limits(self) -> Mapping[str, QueueLimits]:
        """What it says of the limits of queues."""


def definitions_of(app: Application) -> list[TaskSpec]:
    """An application's tasks and Rota's own."""
    jobs = app.settings.jobs
    ticks = jobs.scheduler_enabled and "default" in (jobs.queues or app.queues)
    return list(_with_own(app, ticks=ticks).values())


def worker_of(app: Application, events: Events, options: Mapping[str, Any]) -> Worker:
    """A worker for an application's tasks; `options` are those of WorkerOptions, and overrule the settings."""
    settings = app.settings
    jobs = settings.jobs
    chosen: dict[str, Any] = {
        "queues": jobs.queues or dict(app.queues),
        "concurrency": jobs.worker_concurrency,
        "poll_interval_s": jobs.poll_interval_ms / 1000,
        "lease_s": jobs.lease_duration_s,
        "unknown_task_after_s": jobs.unknown_task_after,
        "heartbeat_s": jobs.heartbeat_s,
        "shutdown_timeout_s": jobs.shutdown_timeout_s,
        "scheduler": jobs.scheduler_enabled,
        "scheduler_tick_s": jobs.scheduler_tick_s,
        "scheduler_lock": jobs.scheduler_lock,
        "pooled": settings.database.pooled,
        "logs": LogOptions(**settings.logs.model_dump()),
        "app": app.name,
        "queue_limits": dict(app.queue_limits),
        **options,
    }
    # Its jobs are of the default queue: a worker that serves others must not fill it.
    ticks = chosen["scheduler"] and "default" in chosen["queues"]
    duties = [Duty(LOOK_S, Watch(settings.alerts).run_once)]
    if settings.http.enabled:
        duties.append(Duty(BEAT_S, note_ports))
    return Worker(settings.database.dsn, _with_own(app, ticks=ticks), WorkerOptions(**chosen), events, duties)


def own_task(name: str) -> TaskSpec | None:
    """One of Rota's own tasks."""
    return (SYSTEM_TASKS | control_tasks()).get(name)


def _with_own(app: Application, *, ticks: bool) -> dict[str, TaskSpec]:
    settings = app.settings
    own = system_tasks(tick_cron=settings.jobs.scheduler_cron if ticks else "") | control_tasks(settings, scheduled=ticks)
    return {**app.tasks, **own}
