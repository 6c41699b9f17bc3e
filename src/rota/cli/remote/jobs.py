"""Jobs, over the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from rota.cli.remote.base import Remote, given, read
from rota.control.explain import Explanation
from rota.control.service import Bulk, JobDetail, JobPage
from rota.model.capped import Capped
from rota.model.filters import JobFilter
from rota.server.paging import decode_cursor, encode_cursor
from rota.store.jobs_read import EditedJob, JobSummary


class RemoteJobs(Remote):
    """What operators see and do of jobs."""

    async def list_jobs(self, filter: JobFilter | None = None, *, before: UUID | None = None, limit: int = 50) -> JobPage:
        """The newest jobs that match."""
        cursor = None if before is None else encode_cursor("jobs", before)
        query = {**_match(filter or JobFilter()), "cursor": cursor, "limit": limit}
        jobs, next = self._page(JobSummary, "jobs", query=query)
        place = decode_cursor("jobs", next, UUID)
        return JobPage(jobs, None if place is None else place[0])

    async def count_jobs(self, filter: JobFilter) -> Capped:
        """How many jobs match, as far as that can be known cheaply."""
        return self._get(Capped, "jobs", "count", query=_match(filter))

    async def get_job(self, id: UUID) -> JobDetail:
        """One job with its attempts and relatives."""
        return self._get(JobDetail, "jobs", id)

    async def why(self, id: UUID) -> Explanation:
        """Why a job has not run."""
        return self._get(Explanation, "jobs", id, "why")

    async def retry(self, id: UUID) -> JobSummary:
        """Puts a failed or canceled job back in the queue."""
        return self._post(JobSummary, "jobs", id, "retry")

    async def cancel(self, id: UUID, *, reason: str | None = None) -> JobSummary:
        """Ends a job that does not run; one that does is asked to stop."""
        return self._post(JobSummary, "jobs", id, "cancel", body=given(reason=reason))

    async def edit_and_retry(
        self, id: UUID, payload: Mapping[str, Any] | None = None, *, changes: Mapping[str, Any] | None = None
    ) -> EditedJob:
        """Retries a job with another payload, or with some of it changed."""
        return self._post(EditedJob, "jobs", id, "edit", body=given(payload=payload, changes=changes))

    async def retry_many(self, filter: JobFilter, *, progress: Callable[[Bulk], None] | None = None) -> Bulk:
        """Retries every job that matches, by default the failed ones."""
        return self._change_many({"action": "retry", "filter": _match(filter)}, progress)

    async def cancel_many(
        self, filter: JobFilter, *, reason: str | None = None, progress: Callable[[Bulk], None] | None = None
    ) -> Bulk:
        """Cancels every live job that matches."""
        return self._change_many({"action": "cancel", "filter": _match(filter), **given(reason=reason)}, progress)

    async def enqueue(self, task: str, payload: Mapping[str, Any], **options: Any) -> tuple[UUID, bool]:
        """Stores a job; its id, and whether it is new: another may have its key."""
        made = self._post(dict[str, Any], "jobs", body={"task": task, "payload": payload, **given(**options)})
        return read(UUID, made.get("id")), read(bool, made.get("created"))

    def _change_many(self, body: dict[str, Any], progress: Callable[[Bulk], None] | None) -> Bulk:
        """A request works for a moment and says how to go on."""
        done = Bulk(0, 0)
        cursor: str | None = None
        while True:
            answer = self._post(dict[str, Any], "jobs", "bulk", body={**body, **given(cursor=cursor)})
            done = Bulk(done.changed + read(int, answer.get("changed")), done.skipped + read(int, answer.get("skipped")))
            if progress is not None:
                progress(done)
            cursor = answer.get("next")
            if cursor is None:
                return done


def _match(filter: JobFilter) -> dict[str, Any]:
    """A filter as the API has it."""
    names = ("task", "queue", "key", "text", "since")
    return given(state=list(filter.states), error=filter.fingerprint, **{name: getattr(filter, name) for name in names})
