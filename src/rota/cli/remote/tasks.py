"""Tasks, over the API."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from rota.cli.remote.base import Remote, given, read
from rota.control.stats import TaskStats
from rota.control.tasks import TaskPage, TaskView
from rota.server.paging import encode_cursor


class RemoteTasks(Remote):
    """What operators see and do of tasks."""

    async def list(
        self,
        *,
        system: bool = False,
        tag: str | None = None,
        fields: Collection[str] = (),
        after: str = "",
        limit: int = 500,
    ) -> TaskPage:
        """List tasks by name."""
        cursor = encode_cursor("tasks", after) if after else None
        query = {"system": system, "tag": tag, "field": list(fields), "cursor": cursor, "limit": limit}
        tasks, next = self._page(TaskView, "tasks", query=query)
        return TaskPage(tasks, None if next is None else tasks[-1].record.name)

    async def get(self, task: str) -> TaskView:
        """One task."""
        return self._get(TaskView, "tasks", task)

    async def task_stats(self, task: str) -> dict[str, TaskStats]:
        """How a task's runs went over the last hour, day and week."""
        return self._get(dict[str, TaskStats], "tasks", task, "stats")

    async def trigger(self, task: str, payload: Mapping[str, Any] | None = None, **options: Any) -> UUID:
        """Enqueues a job of a task by hand."""
        made = self._post(dict[str, Any], "tasks", task, "trigger", body=given(payload=payload, **options))
        return read(UUID, made.get("id"))

    async def enable(self, task: str) -> TaskView:
        """Lets a task's schedules fire and its jobs run again."""
        return self._post(TaskView, "tasks", task, "enable")

    async def disable(self, task: str, *, reason: str | None = None) -> TaskView:
        """Lets a task's schedules fire no more and its jobs wait."""
        return self._post(TaskView, "tasks", task, "disable", body=given(reason=reason))

    async def update(self, task: str, **settings: Any) -> TaskView:
        """Overrules what code says of a task."""
        body: dict[str, Any] = {}
        for name, value in settings.items():
            section, dot, key = name.partition(".")
            if dot:
                body.setdefault(section, {})[key] = value
            else:
                body[name] = value
        return self._put(TaskView, "tasks", task, "settings", body=body)

    async def reset(self, task: str, *settings: str) -> TaskView:
        """Lets code say again what these settings of a task are, or all of them."""
        return self._delete(TaskView, "tasks", task, "settings", query={"setting": settings})
