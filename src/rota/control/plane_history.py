"""What has happened: runs, errors, lines that handlers have said, and what they add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.control.plane_base import Plane
from rota.lazy import Lazy
from rota.model.filters import RunFilter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from rota.control import error_groups, logs, runs, series, stats, tasks
    from rota.control.error_groups import ErrorDetail, ErrorGroup
    from rota.control.logs import LogPage, NewLines
    from rota.control.runs import RunPage
    from rota.control.series import PeriodName, Series
    from rota.control.stats import TaskStats
    from rota.model.capped import Capped
    from rota.model.log_filter import LogFilter
    from rota.store.logs_read import Place
    from rota.store.runs_read import RunDetail, RunId
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    error_groups = Lazy("rota.control.error_groups")
    logs = Lazy("rota.control.logs")
    runs = Lazy("rota.control.runs")
    series = Lazy("rota.control.series")
    stats = Lazy("rota.control.stats")
    tasks = Lazy("rota.control.tasks")


class HistoryPlane(Plane):
    """What operators see of the past."""

    async def list_runs(
        self, filter: RunFilter | None = None, *, schedule: str | None = None, before: RunId | None = None, limit: int = 50
    ) -> RunPage:
        """The newest attempts at jobs that match; `schedule` is the name or id of one, or task/key."""
        async with self._for("runs.read") as conn:
            chosen = filter or RunFilter()
            if schedule is not None:
                chosen = await runs.of_schedule(conn, chosen, schedule)
            return await runs.list_runs(conn, chosen, before=before, limit=limit)

    async def count_runs(self, filter: RunFilter) -> Capped:
        """How many runs match, as far as that can be known cheaply."""
        async with self._for("runs.read") as conn:
            return await runs.count_runs(conn, filter)

    async def get_run(self, job: UUID, attempt: int | None = None) -> RunDetail:
        """One attempt at a job, by default the open or last one."""
        async with self._for("runs.read") as conn:
            return await runs.get_run(conn, job, attempt)

    async def list_errors(
        self,
        *,
        task: str | None = None,
        since: datetime | timedelta | None = None,
        before: tuple[datetime, str] | None = None,
        limit: int = 50,
    ) -> Sequence[ErrorGroup]:
        """Failures in groups of the same kind, those seen last first."""
        async with self._for("runs.read") as conn:
            return await error_groups.list_errors(conn, task=task, since=since, before=before, limit=limit)

    async def get_error(self, fingerprint: str) -> ErrorDetail:
        """One group of failures."""
        async with self._for("runs.read") as conn:
            return await error_groups.get_error(conn, fingerprint)

    async def list_logs(self, filter: LogFilter | None = None, *, before: Place | None = None, limit: int = 100) -> LogPage:
        """The newest lines of handlers that match."""
        async with self._for("logs.read") as conn:
            return await logs.list_logs(conn, filter, before=before, limit=limit)

    async def new_logs(self, filter: LogFilter, *, since: datetime | None = None, limit: int = 1000) -> NewLines:
        """The lines that have come since a look, and some that may have been seen, in their order; and when to look from next."""
        async with self._for("logs.read") as conn:
            return await logs.new_lines(conn, filter, since=since, limit=limit)

    async def task_stats(self, task: str) -> dict[str, TaskStats]:
        """How a task's runs went over the last hour, day and week."""
        async with self._for("runs.read") as conn:
            await tasks.get_task(conn, task)  # NotFound where there is none: all zeros would look as if it had not run
            return await stats.recent_stats(conn, task)

    async def list_stats(self, *, period: timedelta, task: str | None = None, system: bool = False) -> list[TaskStats]:
        """How every task that has run within a period fared, or one; Rota's own only if asked for."""
        async with self._for("runs.read") as conn:
            if task is not None:
                return [await stats.task_stats(conn, task, period=period)]
            return await stats.list_stats(conn, period=period, system=system)

    async def series(
        self, *, period: PeriodName = "24h", task: str | None = None, queue: str | None = None, system: bool = False
    ) -> Series:
        """Throughput and percentiles over time: of all tasks, of one, or of those whose queue this is."""
        async with self._for("runs.read") as conn:
            return await series.series(conn, period=period, task=task, queue=queue, system=system)
