"""Jobs: found, looked into, retried, canceled, edited, put off; one and many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rota.control.access import RUN
from rota.control.plane_base import Plane
from rota.lazy import Lazy
from rota.model.filters import JobFilter
from rota.store import jobs_change

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from rota.control import calendar_jobs, edit, error_groups, explain, facets, job_stats, lineage, reschedule, service, tasks
    from rota.control.explain import Explanation
    from rota.control.facets import JobFacets
    from rota.control.job_stats import JobStats
    from rota.control.lineage import Lineage, RelativePage, Side
    from rota.control.service import Bulk, JobDetail, JobPage
    from rota.control.tasks import PayloadForm
    from rota.db.connection import AsyncConn
    from rota.model.calendar_job import CalendarJob, ScheduledJobs
    from rota.model.capped import Capped
    from rota.store.jobs_read import EditedJob, JobSummary
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    calendar_jobs = Lazy("rota.control.calendar_jobs")
    edit = Lazy("rota.control.edit")
    error_groups = Lazy("rota.control.error_groups")
    explain = Lazy("rota.control.explain")
    facets = Lazy("rota.control.facets")
    job_stats = Lazy("rota.control.job_stats")
    lineage = Lazy("rota.control.lineage")
    reschedule = Lazy("rota.control.reschedule")
    service = Lazy("rota.control.service")
    tasks = Lazy("rota.control.tasks")

Progress = Callable[["Bulk"], None]


class JobPlane(Plane):
    """What operators see and do of jobs."""

    async def list_jobs(
        self, filter: JobFilter | None = None, *, before: UUID | None = None, offset: int = 0, limit: int = 50
    ) -> JobPage:
        """The newest jobs that match."""
        async with self._for("jobs.read") as conn:
            return await service.list_jobs(conn, filter, before=before, offset=offset, limit=limit)

    async def count_jobs(self, filter: JobFilter) -> Capped:
        """How many jobs match, as far as that can be known cheaply."""
        async with self._for("jobs.read") as conn:
            return await service.count_jobs(conn, filter)

    async def job_stats(self) -> JobStats:
        """Jobs by state, and how long the oldest one that is due has waited."""
        async with self._for("jobs.read") as conn:
            return await job_stats.job_stats(conn)

    async def job_facets(self, filter: JobFilter | None = None) -> JobFacets:
        """How many jobs match by state, task and queue."""
        async with self._for("jobs.read") as conn:
            return await facets.job_facets(conn, filter)

    async def list_values(self, of: Literal["task", "queue"], *, text: str = "", limit: int = 20) -> list[str]:
        """The names of tasks or queues, to complete what somebody types."""
        async with self._for("jobs.read") as conn:
            return await facets.list_values(conn, of, text=text, limit=limit)

    async def lineage(self, id: UUID) -> Lineage:
        """Who or what made a job, its parents and children, and edits of its payload."""
        async with self._for("jobs.read") as conn:
            return await lineage.lineage(conn, id)

    async def relatives(self, id: UUID, side: Side, *, after: UUID | None = None, limit: int = 50) -> RelativePage:
        """Some parents or children of a job, those after one."""
        async with self._for("jobs.read") as conn:
            return await lineage.relatives(conn, id, side, after=after, limit=limit)

    async def payload_form(self, task: str) -> PayloadForm:
        """Return what the payload of a task looks like, for callers who may run it."""
        async with self._for(RUN) as conn:
            return await tasks.payload_form(conn, task)

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
        async with self._changing("jobs.change") as conn:
            job = await service.retry_job(conn, id)
            await self._record(conn, "jobs.retry", id)
            return job

    async def cancel(self, id: UUID, *, reason: str | None = None) -> JobSummary:
        """Ends a job that does not run; one that does is asked to stop."""
        async with self._changing("jobs.change") as conn:
            job = await service.cancel_job(conn, id, reason=reason)
            await self._record(conn, "jobs.cancel", id, reason=reason)
            return job

    async def reschedule(self, id: UUID, run_at: datetime) -> JobSummary:
        """Lets a job that has not begun run at another time, earlier or later."""
        async with self._changing("jobs.change") as conn:
            job = await reschedule.reschedule_job(conn, id, run_at)
            await self._record(conn, "jobs.reschedule", id, run_at=run_at.isoformat())
            return job

    async def edit_and_retry(
        self, id: UUID, payload: Mapping[str, Any] | None = None, *, changes: Mapping[str, Any] | None = None
    ) -> EditedJob:
        """Retries a job with another payload, or with some of it changed, validated; who did it and what it was are kept."""
        by = self.actor.as_trigger()
        async with self._changing(RUN) as conn:
            job = await edit.edit_job(conn, id, payload, changes=changes, editor=by, validate=edit.by_code(self._app.tasks))
            # Which members, not what is in them: that is kept with the job, and for those only who may see it.
            members = sorted(changes if payload is None else payload) if changes else None
            await self._record(conn, "jobs.edit", id, members=members, dropped=job.dropped_secrets or None)
            return job

    async def retry_many(
        self,
        filter: JobFilter,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        before: UUID | None = None,
        within_s: float | None = None,
    ) -> Bulk:
        """Retries every job that matches, by default the failed ones; `within_s` ends it early, `before` goes on from there."""
        async with self._for("jobs.change") as conn:
            return await self._bulk(
                conn, "jobs.retry_many", filter, progress,
                lambda told: service.retry_jobs(conn, filter, limit=limit, progress=told, before=before, within_s=within_s),
            )  # fmt: skip

    async def cancel_many(
        self,
        filter: JobFilter,
        *,
        reason: str | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
        before: UUID | None = None,
        within_s: float | None = None,
    ) -> Bulk:
        """Cancels every live job that matches; `within_s` ends it early, `before` goes on from there."""
        async with self._for("jobs.change") as conn:
            return await self._bulk(
                conn, "jobs.cancel_many", filter, progress,
                lambda told: service.cancel_jobs(
                    conn, filter, reason=reason, limit=limit, progress=told, before=before, within_s=within_s),
            )  # fmt: skip

    async def count_to_retry(self, filter: JobFilter) -> Capped:
        """How many jobs `retry_many` would mean, for those who may do it."""
        return await self._count_to_change(service.to_retry(filter))

    async def count_to_cancel(self, filter: JobFilter) -> Capped:
        """How many jobs `cancel_many` would mean, for those who may do it."""
        return await self._count_to_change(service.to_cancel(filter))

    async def _count_to_change(self, filter: JobFilter) -> Capped:
        async with self._for("jobs.change") as conn, conn.transaction():
            await jobs_change.look_briefly(conn)
            return await service.count_jobs(conn, filter)

    async def retry_error(
        self, fingerprint: str, *, task: str | None = None, before: UUID | None = None, within_s: float | None = None
    ) -> Bulk:
        """Retries the jobs that have failed for good with one kind of error."""
        async with self._for("jobs.change") as conn:
            whole = await error_groups.find_fingerprint(conn, fingerprint)
        return await self.retry_many(error_groups.failed_jobs(whole, task=task), before=before, within_s=within_s)

    async def schedule_calendar_jobs(self, jobs: Sequence[CalendarJob], *, key: str | None = None) -> ScheduledJobs:
        """Stores synchronisations of calendars, all or none; asked for again with the same key, they are not stored twice."""
        async with self._for("jobs.schedule") as conn:
            return await calendar_jobs.schedule(conn, self.actor, jobs, key=key)

    async def _bulk(self, conn: AsyncConn, operation: str, filter: JobFilter, progress: Progress | None, work: Any) -> Bulk:
        """Many transactions, and one record of them all: also of those before an error, which stay."""
        done = service.Bulk(0, 0)

        def told(bulk: Bulk) -> None:
            nonlocal done
            done = bulk
            if progress is not None:
                progress(bulk)

        try:
            result: Bulk = await work(told)
            return result
        finally:
            if done.changed:
                shown = {name: str(value) for name in JobFilter.__slots__ if name != "ids" and (value := getattr(filter, name))}
                shown |= {"ids": f"{len(filter.ids)} jobs"} if filter.ids else {}
                await self._record(conn, operation, "jobs", changed=done.changed, skipped=done.skipped, filter=shown)
