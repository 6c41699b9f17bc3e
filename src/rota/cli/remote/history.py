"""Runs, errors, lines of logs and figures, over the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from rota.cli.remote.base import Remote
from rota.control.error_groups import ErrorDetail, ErrorGroup
from rota.control.logs import LogPage
from rota.control.overview import Overview
from rota.control.runs import RunPage
from rota.control.stats import TaskStats
from rota.model.filters import RunFilter
from rota.model.log_filter import LogFilter
from rota.server.paging import decode_cursor, encode_cursor
from rota.store.logs_read import LogLine, Place
from rota.store.runs_read import RunDetail, RunId, RunLine


class RemoteHistory(Remote):
    """What operators see of the past, and of everything together."""

    async def overview(self) -> Overview:
        """How it goes in a sentence, what is wrong, and how much there is."""
        return self._get(Overview, "overview")

    async def list_runs(
        self, filter: RunFilter | None = None, *, schedule: str | None = None, before: RunId | None = None, limit: int = 50
    ) -> RunPage:
        """The newest attempts at jobs that match."""
        filter = filter or RunFilter()
        query = {
            "status": filter.statuses,
            "task": filter.task,
            "worker_id": filter.worker,
            "schedule": schedule,
            "job_id": filter.job,
            "text": filter.text,
            "since": filter.since,
            "until": filter.until,
            "triggered_by": filter.triggered_by,
            "error": filter.fingerprint,
            "cursor": None if before is None else encode_cursor("runs", *before),
            "limit": limit,
        }
        runs, next = self._page(RunLine, "runs", query=query)
        place = decode_cursor("runs", next, UUID, int)
        return RunPage(runs, None if place is None else RunId(*place))

    async def get_run(self, job: UUID, attempt: int | None = None) -> RunDetail:
        """One attempt at a job, by default the open or last one."""
        return self._get(RunDetail, "runs", job, *(() if attempt is None else (attempt,)))

    async def list_errors(
        self, *, task: str | None = None, since: datetime | timedelta | None = None, limit: int = 50
    ) -> Sequence[ErrorGroup]:
        """Failures in groups of the same kind, those seen last first."""
        return self._all(ErrorGroup, "errors", limit=limit, query={"task": task, "since": since})

    async def get_error(self, fingerprint: str) -> ErrorDetail:
        """One group of failures."""
        return self._get(ErrorDetail, "errors", fingerprint)

    async def list_logs(self, filter: LogFilter | None = None, *, before: Place | None = None, limit: int = 100) -> LogPage:
        """The newest lines of handlers that match."""
        query = {name: getattr(filter or LogFilter(), name) for name in LogFilter.__slots__}
        query |= {"cursor": None if before is None else encode_cursor("logs", *before), "limit": limit}
        lines, next = self._page(LogLine, "logs", query=query)
        place = decode_cursor("logs", next, datetime, UUID, int, int)
        return LogPage(lines, None if place is None else Place(*place))

    async def list_stats(self, *, period: timedelta, task: str | None = None, system: bool = False) -> list[TaskStats]:
        """How every task that has run within a period fared, or one."""
        return self._page(TaskStats, "stats", "tasks", query={"period": period, "task": task, "system": system})[0]
