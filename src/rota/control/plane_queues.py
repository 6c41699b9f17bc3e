"""Queues and the workers that serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.control.plane_base import Plane
from rota.control.versions import check_version
from rota.errors import UsageError
from rota.lazy import Lazy
from rota.model.filters import check_text
from rota.store import queues

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from rota.control import queue_limits, service
    from rota.control.service import Queue
    from rota.db.connection import AsyncConn
    from rota.store.workers_read import WorkerRecord
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    queue_limits = Lazy("rota.control.queue_limits")
    service = Lazy("rota.control.service")

MAX_REASON = 500


class QueuePlane(Plane):
    """What operators see and do of queues, and see of workers."""

    async def list_queues(self) -> Sequence[Queue]:
        """Every queue: how full it is, how far behind, and who works it."""
        async with self._for("queues.read") as conn:
            return await service.list_queues(conn)

    async def get_queue(self, name: str) -> Queue:
        """One queue."""
        async with self._for("queues.read") as conn:
            return await service.get_queue(conn, name)

    async def pause_queue(self, name: str, *, reason: str | None = None, expect: str | None = None) -> Queue:
        """Stops claims from a queue, over restarts too."""
        check_text("reason", reason)
        if reason is not None and len(reason) > MAX_REASON:
            raise UsageError(f"reason has {len(reason)} letters, which is too long: at most {MAX_REASON}")
        async with self._changing("queues.change") as conn:
            await self._expect_queue(conn, name, expect)
            await service.pause_queue(conn, name, reason=reason)
            await self._record(conn, "queues.pause", name, reason=reason)
            return await service.get_queue(conn, name)

    async def resume_queue(self, name: str, *, expect: str | None = None) -> Queue:
        """Lets a queue be claimed from again."""
        async with self._changing("queues.change") as conn:
            await self._expect_queue(conn, name, expect)
            await service.resume_queue(conn, name)
            await self._record(conn, "queues.resume", name)
            return await service.get_queue(conn, name)

    async def limit_queue(self, name: str, *, expect: str | None = None, **limits: Any) -> Any:
        """Overrules what code says of a queue's `max_concurrency` and `rate`; gives what holds now."""
        async with self._changing("queues.change") as conn:
            await self._expect_queue(conn, name, expect)
            held = await queue_limits.limit_queue(conn, name, **limits)
            await self._record(conn, "queues.limit", name, limits=limits)
            return held

    async def unlimit_queue(self, name: str, *, expect: str | None = None) -> Any:
        """Lets code say again what a queue's limits are."""
        async with self._changing("queues.change") as conn:
            await self._expect_queue(conn, name, expect)
            held = await queue_limits.unlimit_queue(conn, name)
            await self._record(conn, "queues.unlimit", name)
            return held

    async def list_workers(self) -> Sequence[WorkerRecord]:
        """The workers of the last day."""
        async with self._for("workers.read") as conn:
            return await service.list_workers(conn)

    async def get_worker(self, id: UUID) -> WorkerRecord:
        """One worker of the last day, with the jobs that it holds."""
        async with self._for("workers.read") as conn:
            return await service.get_worker(conn, id)

    async def _expect_queue(self, conn: AsyncConn, name: str, expect: str | None) -> None:
        check_text("queue", name)
        if expect is not None and (known := await queues.get_for_change(conn, name)) is not None:
            check_version(known, expect, f"queue {name!r}")
