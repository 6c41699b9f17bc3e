"""Tasks: known from code, switched on and off, set otherwise, run by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rota.control.access import RUN
from rota.control.plane_base import Plane
from rota.control.versions import check_version
from rota.errors import UsageError
from rota.lazy import Lazy
from rota.model.filters import check_text
from rota.store import task_sync

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from rota.control import enqueue, sync, tasks
    from rota.control.sync import Plan
    from rota.control.tasks import TaskPage, TaskView
    from rota.db.connection import AsyncConn
    from rota.store.task_sync import Synced
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    enqueue = Lazy("rota.control.enqueue")
    sync = Lazy("rota.control.sync")
    tasks = Lazy("rota.control.tasks")


class TaskPlane(Plane):
    """What operators see and do of tasks."""

    async def sync_definitions(self, *, force: bool | Collection[str] = False) -> Synced:
        """Writes what the application's code defines to the database; operators' changes stay, but for tasks in `force`."""
        app = self._app
        async with self._for("tasks.change") as conn:
            done = await sync.sync_definitions(
                conn, app.definitions(), app=app.name, queues=app.queues, limits=app.queue_limits, force=force
            )
            counts = {name: len(getattr(done, name)) for name in ("created", "changed", "returned", "gone")}
            if force or any(counts.values()):
                await self._record(conn, "tasks.sync", app.name, force=force or None, **counts)
            return done

    async def plan(self, *, scan: int | None = None) -> Plan:
        """What a sync would change, what operators have changed, and which live jobs the code could not run, of so many."""
        async with self._for("tasks.read") as conn:
            most = sync.SCAN_MOST if scan is None else scan
            return await sync.plan(conn, self._app.definitions(), app=self._app.name, scan=most)

    async def list(
        self,
        *,
        system: bool = False,
        tag: str | None = None,
        fields: Collection[str] = (),
        after: str = "",
        limit: int = 500,
    ) -> TaskPage:
        """List tasks by name: with this tag and all of these fields, written `team=billing`; Rota's own only with `system`."""
        async with self._for("tasks.read") as conn:
            return await tasks.list_tasks(conn, system=system, tag=tag, fields=fields, after=after, limit=limit)

    async def get(self, task: str) -> TaskView:
        """One task: what code says, what operators have changed, who knows it."""
        async with self._for("tasks.read") as conn:
            return await tasks.get_task(conn, task)

    async def trigger(self, task: str, payload: Mapping[str, Any] | None = None, **options: Any) -> UUID:
        """Enqueues a job of a task by hand: its default payload with this over it, validated; the job says who it was."""
        async with self._changing(RUN) as conn:
            id = await tasks.trigger(conn, task, payload, user=self.actor.name, tasks=self._app.tasks, **options)
            await self._record(conn, "tasks.trigger", task, job=str(id))
            return id

    async def enqueue(self, task: str, payload: Mapping[str, Any], **options: Any) -> tuple[UUID, bool]:
        """Stores a job with exactly this payload; its id, and whether it is new: another may have its key."""
        async with self._changing(RUN) as conn:
            if (spec := self._app.tasks.get(task)) is not None:
                payload = json.loads(spec.payload.encode_json(payload))  # as its code reads it
            else:
                await enqueue.check_task(conn, task, dict(payload))
            id, is_new = await enqueue.enqueue(conn, task, dict(payload), triggered_by=self.actor.as_trigger(), **options)
            if is_new:
                await self._record(conn, "jobs.enqueue", id, task=task)
            return id, is_new

    async def enable(self, task: str, *, expect: str | None = None) -> TaskView:
        """Lets a task's schedules fire and its jobs run again."""
        async with self._changing("tasks.change") as conn:
            await self._expect_task(conn, task, expect)
            view = await tasks.enable_task(conn, task)
            await self._record(conn, "tasks.enable", task)
            return view

    async def disable(self, task: str, *, reason: str | None = None, expect: str | None = None) -> TaskView:
        """Lets a task's schedules fire no more and its jobs wait; what runs already goes on."""
        async with self._changing("tasks.change") as conn:
            await self._expect_task(conn, task, expect)
            view = await tasks.disable_task(conn, task, reason=reason, user=self.actor.name)
            await self._record(conn, "tasks.disable", task, reason=reason)
            return view

    async def update(self, task: str, *, expect: str | None = None, **settings: Any) -> TaskView:
        """Overrules what code says of a task's limits, retries, timeout, retention and default payload; deploys leave it so.

        A default payload decides what runs, and needs the right to run the task too.
        """
        if "default_payload" in settings:
            self.require(RUN)
        async with self._changing("tasks.change") as conn:
            await self._expect_task(conn, task, expect)
            view = await tasks.set_task(conn, task, settings, tasks=self._app.tasks)
            await self._record(conn, "tasks.update", task, settings=_audited(settings))
            return view

    async def reset(self, task: str, *settings: str, expect: str | None = None) -> TaskView:
        """Lets code say again what these settings of a task are, or all of them."""
        async with self._changing("tasks.change") as conn:
            await self._expect_task(conn, task, expect)
            view = await tasks.unset_task(conn, task, settings)
            await self._record(conn, "tasks.reset", task, settings=settings or None)
            return view

    async def _expect_task(self, conn: AsyncConn, task: str, expect: str | None) -> None:
        """Locks the task and compares it with what the caller has seen; one that is not there is the change's to refuse."""
        if not isinstance(task, str):
            raise UsageError(f"task={task!r} is not the name of a task")
        check_text("task", task)
        if expect is not None and (record := await self._carry_out(conn, task_sync.get_for_change(task))) is not None:
            check_version(record, expect, f"task {task!r}")


def _audited(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the audit has them: of a payload the names of its members, since their values may be secret."""
    payload = settings.get("default_payload")
    return {**settings, "default_payload": sorted(payload)} if isinstance(payload, dict) else dict(settings)
