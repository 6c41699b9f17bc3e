"""The control plane as an application has it: `app.control`, everything that operators see and do, by who acts.

Each method is one of the functions of this package, on a connection of the application's, after a look at who may do it. The
command line and the API call the same functions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

import psycopg

from rota.control import (
    alerts,
    edit,
    error_groups,
    explain,
    logs,
    queue_limits,
    runs,
    schedule_views,
    schedules,
    service,
    stats,
    sync,
    tasks,
    webhooks,
)
from rota.control.access import Actor, Policy, check
from rota.control.error_groups import ErrorDetail, ErrorGroup
from rota.control.explain import Explanation
from rota.control.logs import LogPage
from rota.control.runs import RunPage
from rota.control.schedule_views import ScheduleDetail, SchedulePage
from rota.control.service import Bulk, JobDetail, JobPage, Queue
from rota.control.stats import TaskStats
from rota.control.sync import Plan
from rota.control.tasks import TaskPage, TaskView
from rota.control.webhooks import Added
from rota.db.connection import AsyncConn
from rota.db.steps import Steps
from rota.errors import Forbidden
from rota.model.filters import JobFilter, RunFilter
from rota.model.limits import QueueLimits
from rota.model.log_filter import LogFilter
from rota.model.schedule import Timing
from rota.model.schedule_record import ScheduleRecord
from rota.model.task import TaskSpec
from rota.store.alerts import AlertRecord
from rota.store.intake import Intake
from rota.store.jobs_change import look_briefly
from rota.store.jobs_read import JobSummary
from rota.store.logs_read import Place
from rota.store.runs_read import RunDetail, RunId
from rota.store.task_sync import Synced
from rota.store.webhooks import DeliveryRecord, WebhookRecord
from rota.store.workers_read import WorkerRecord

Result = TypeVar("Result")

APPLICATION = Actor("application", "admin")  # code that has the application's object at hand has its database, too


class Application(Protocol):
    """What the control plane must know of the code it belongs to."""

    name: str

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """Its tasks by name."""

    @property
    def queues(self) -> Mapping[str, int]:
        """Its queues with their weights."""

    @property
    def queue_limits(self) -> Mapping[str, QueueLimits]:
        """What it says of the limits of queues."""

    def definitions(self) -> list[TaskSpec]:
        """Its tasks and Rota's own."""


class ControlPlane:
    """What operators see and do. Every method raises Forbidden when the actor may not do it, and then nothing was asked."""

    def __init__(self, app: Application, intake: Intake, policy: Policy, actor: Actor = APPLICATION) -> None:
        self.actor = actor
        self._app = app
        self._intake = intake
        self._policy = policy

    def acting_as(self, actor: Actor) -> ControlPlane:
        """The same for somebody else: a user of the dashboard, a holder of a token."""
        return ControlPlane(self._app, self._intake, self._policy, actor)

    def may(self, operation: str) -> bool:
        """Whether the actor may do this, to show no button that would not work."""
        try:
            check(self._policy, self.actor, operation)
        except Forbidden:
            return False
        return True

    # Tasks

    async def sync_definitions(self, *, force: bool | Collection[str] = False) -> Synced:
        """Writes what the application's code defines to the database; operators' changes stay, but for tasks in `force`."""
        app = self._app
        async with self._for("tasks.change") as conn:
            return await sync.sync_definitions(
                conn, app.definitions(), app=app.name, queues=app.queues, limits=app.queue_limits, force=force
            )

    async def plan(self) -> Plan:
        """What a sync would change, what operators have changed, and which live jobs the code could not run."""
        async with self._for("tasks.read") as conn:
            return await sync.plan(conn, self._app.definitions(), app=self._app.name)

    async def list(self, *, system: bool = False, tag: str | None = None, after: str = "", limit: int = 500) -> TaskPage:
        """Tasks by name; Rota's own only with `system`."""
        async with self._for("tasks.read") as conn:
            return await tasks.list_tasks(conn, system=system, tag=tag, after=after, limit=limit)

    async def get(self, task: str) -> TaskView:
        """One task: what code says, what operators have changed, who knows it."""
        async with self._for("tasks.read") as conn:
            return await tasks.get_task(conn, task)

    async def trigger(self, task: str, payload: Mapping[str, Any] | None = None, **options: Any) -> UUID:
        """Enqueues a job of a task by hand: its default payload with this over it, validated; the job says who it was."""
        async with self._for("tasks.trigger") as conn:
            return await tasks.trigger(conn, task, payload, user=self.actor.name, tasks=self._app.tasks, **options)

    async def enable(self, task: str) -> TaskView:
        """Lets a task's schedules fire and its jobs run again."""
        async with self._for("tasks.change") as conn:
            return await tasks.enable_task(conn, task)

    async def disable(self, task: str, *, reason: str | None = None) -> TaskView:
        """Lets a task's schedules fire no more and its jobs wait; what runs already goes on."""
        async with self._for("tasks.change") as conn:
            return await tasks.disable_task(conn, task, reason=reason, user=self.actor.name)

    async def update(self, task: str, **settings: Any) -> TaskView:
        """Overrules what code says of a task's limits, retries, timeout, retention and default payload; deploys leave it so."""
        async with self._for("tasks.change") as conn:
            return await tasks.set_task(conn, task, settings)

    async def reset(self, task: str, *settings: str) -> TaskView:
        """Lets code say again what these settings of a task are, or all of them."""
        async with self._for("tasks.change") as conn:
            return await tasks.unset_task(conn, task, settings)

    async def task_stats(self, task: str) -> dict[str, TaskStats]:
        """How a task's runs went over the last hour, day and week."""
        async with self._for("runs.read") as conn:
            return await stats.recent_stats(conn, task)

    # Jobs

    async def list_jobs(self, filter: JobFilter | None = None, *, before: UUID | None = None, limit: int = 50) -> JobPage:
        """The newest jobs that match."""
        async with self._for("jobs.read") as conn:
            return await service.list_jobs(conn, filter, before=before, limit=limit)

    async def get_job(self, id: UUID) -> JobDetail:
        """One job with its relatives, and with its attempts for those who may see runs."""
        async with self._for("jobs.read") as conn:
            detail = await service.get_job(conn, id)
        return detail if self.may("runs.read") else replace(detail, runs=[])

    async def why(self, id: UUID) -> Explanation:
        """Why a job has not run."""
        async with self._for("jobs.read") as conn:
            return await explain.why(conn, id)

    async def retry(self, id: UUID) -> JobSummary:
        """Puts a failed or canceled job back in the queue, with its history; one that waits for its time runs at once."""
        async with self._for("jobs.change") as conn:
            return await service.retry_job(conn, id)

    async def cancel(self, id: UUID, *, reason: str | None = None) -> JobSummary:
        """Ends a job that does not run; one that does is asked to stop."""
        async with self._for("jobs.change") as conn:
            return await service.cancel_job(conn, id, reason=reason)

    async def retry_many(self, filter: JobFilter, *, limit: int | None = None) -> Bulk:
        """Retries every job that matches, by default the failed ones."""
        async with self._for("jobs.change") as conn:
            return await service.retry_jobs(conn, filter, limit=limit)

    async def cancel_many(self, filter: JobFilter, *, reason: str | None = None, limit: int | None = None) -> Bulk:
        """Cancels every live job that matches."""
        async with self._for("jobs.change") as conn:
            return await service.cancel_jobs(conn, filter, reason=reason, limit=limit)

    async def edit_and_retry(
        self, id: UUID, payload: Mapping[str, Any] | None = None, *, changes: Mapping[str, Any] | None = None
    ) -> JobSummary:
        """Retries a job with another payload, or with some of it changed, validated; who did it and what it was are kept."""
        by = self.actor.as_trigger()
        async with self._for("jobs.edit") as conn:
            return await edit.edit_job(conn, id, payload, changes=changes, editor=by, validate=edit.by_code(self._app.tasks))

    # What has happened

    async def list_runs(self, filter: RunFilter | None = None, *, before: RunId | None = None, limit: int = 50) -> RunPage:
        """The newest attempts at jobs that match."""
        async with self._for("runs.read") as conn:
            return await runs.list_runs(conn, filter, before=before, limit=limit)

    async def get_run(self, job: UUID, attempt: int | None = None) -> RunDetail:
        """One attempt at a job, by default the open or last one."""
        async with self._for("runs.read") as conn:
            return await runs.get_run(conn, job, attempt)

    async def list_errors(
        self, *, task: str | None = None, since: datetime | timedelta | None = None, limit: int = 50
    ) -> Sequence[ErrorGroup]:
        """Failures in groups of the same kind, those seen last first."""
        async with self._for("runs.read") as conn:
            return await error_groups.list_errors(conn, task=task, since=since, limit=limit)

    async def get_error(self, fingerprint: str) -> ErrorDetail:
        """One group of failures."""
        async with self._for("runs.read") as conn:
            return await error_groups.get_error(conn, fingerprint)

    async def list_logs(self, filter: LogFilter | None = None, *, before: Place | None = None, limit: int = 100) -> LogPage:
        """The newest lines of handlers that match."""
        async with self._for("logs.read") as conn:
            return await logs.list_logs(conn, filter, before=before, limit=limit)

    async def list_alerts(self, *, all: bool = False, kind: str | None = None, limit: int = 100) -> Sequence[AlertRecord]:
        """The open alerts, or all of them."""
        async with self._for("alerts.read") as conn:
            return await alerts.list_alerts(conn, all=all, kind=kind, limit=limit)

    async def acknowledge_alert(self, id: int, *, note: str | None = None) -> AlertRecord:
        """Says that the actor knows of it."""
        async with self._for("alerts.change") as conn:
            return await alerts.acknowledge(conn, id, by=self.actor.name, note=note)

    async def list_webhooks(self) -> Sequence[WebhookRecord]:
        """Who is told of alerts."""
        async with self._for("webhooks.read") as conn:
            return await webhooks.list_webhooks(conn)

    async def add_webhook(self, url: str, *, kinds: Sequence[str] = ()) -> Added:
        """Makes a webhook for alerts of some kinds, or of all; its secret is shown this once."""
        async with self._for("webhooks.change") as conn:
            return await webhooks.add(conn, url, kinds=kinds)

    async def remove_webhook(self, id: int) -> None:
        """Removes a webhook, with the record of what was sent to it."""
        async with self._for("webhooks.change") as conn:
            await webhooks.remove(conn, id)

    async def list_deliveries(self, *, webhook: int | None = None, limit: int = 50) -> Sequence[DeliveryRecord]:
        """The newest messages to webhooks and what became of them."""
        async with self._for("webhooks.read") as conn:
            return await webhooks.list_deliveries(conn, webhook=webhook, limit=limit)

    # Queues, workers, schedules

    async def list_queues(self) -> Sequence[Queue]:
        """Every queue: how full it is, how far behind, and who works it."""
        async with self._for("queues.read") as conn:
            return await service.list_queues(conn)

    async def pause_queue(self, name: str, *, reason: str | None = None) -> None:
        """Stops claims from a queue, over restarts too."""
        async with self._for("queues.change") as conn:
            await service.pause_queue(conn, name, reason=reason)

    async def resume_queue(self, name: str) -> None:
        """Lets a queue be claimed from again."""
        async with self._for("queues.change") as conn:
            await service.resume_queue(conn, name)

    async def limit_queue(self, name: str, **limits: Any) -> Any:
        """Overrules what code says of a queue's `max_concurrency` and `rate`; gives what holds now."""
        async with self._for("queues.change") as conn:
            return await queue_limits.limit_queue(conn, name, **limits)

    async def unlimit_queue(self, name: str) -> Any:
        """Lets code say again what a queue's limits are."""
        async with self._for("queues.change") as conn:
            return await queue_limits.unlimit_queue(conn, name)

    async def list_workers(self) -> Sequence[WorkerRecord]:
        """The workers of the last day."""
        async with self._for("workers.read") as conn:
            return await service.list_workers(conn)

    async def list_schedules(self, **filter: Any) -> SchedulePage:
        """The schedules by name."""
        async with self._for("schedules.read") as conn:
            return await schedule_views.list_schedules(conn, **filter)

    async def get_schedule(self, name: str) -> ScheduleDetail:
        """One schedule, its next times, and what became of its last instants."""
        async with self._for("schedules.read") as conn:
            return await schedule_views.show_schedule(conn, name)

    async def create_schedule(self, name: str, task: str, timing: Timing, **options: Any) -> ScheduleRecord:
        """Makes a schedule; Conflict if there is one of that name."""
        check(self._policy, self.actor, "schedules.change")
        schedules.check_task(task, self._app.tasks, options.get("payload") or {})
        return await self._transact("schedules.change", schedules.create(name, task, timing, **options))

    async def update_schedule(self, name: str, **changes: Any) -> ScheduleRecord:
        """Changes some of a schedule: cron, every, tz, payload, enabled and what else a schedule has. A task's own has its name."""
        return await self._transact("schedules.change", schedules.update(name, tasks=self._app.tasks, **changes))

    async def enable_schedule(self, name: str) -> ScheduleRecord:
        """Lets a schedule fire again, from now on."""
        return await self._transact("schedules.change", schedules.set_enabled(name, True))

    async def disable_schedule(self, name: str) -> ScheduleRecord:
        """Lets a schedule fire no more; its history stays."""
        return await self._transact("schedules.change", schedules.set_enabled(name, False))

    async def run_schedule(self, name: str) -> UUID:
        """Enqueues a job of a schedule now, beside its times."""
        return await self._transact("schedules.change", schedules.run(name, user=self.actor.name))

    async def _transact(self, operation: str, steps: Steps[Result]) -> Result:
        check(self._policy, self.actor, operation)
        return await self._intake.atransact(steps)

    @asynccontextmanager
    async def _for(self, operation: str) -> AsyncIterator[AsyncConn]:
        """A connection, if the actor may do this."""
        check(self._policy, self.actor, operation)
        try:
            async with self._intake.aconnection() as conn:
                if operation.endswith(".read"):
                    async with conn.transaction():
                        await look_briefly(conn)
                        yield conn
                else:
                    yield conn
        except psycopg.errors.InsufficientPrivilege as error:
            message = f"the database's user may not do {operation}: {error}; `rota migrate grant` gives it the right"
            raise Forbidden(message) from error
