"""Queues and workers, over the API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rota.cli.remote.base import Remote, given
from rota.control.service import Queue
from rota.errors import NotFound, UnknownQueue
from rota.store.workers_read import WorkerRecord


class RemoteQueues(Remote):
    """What operators see and do of queues, and see of workers."""

    async def list_queues(self) -> Sequence[Queue]:
        """Every queue."""
        return self._page(Queue, "queues", query={})[0]

    async def pause_queue(self, name: str, *, reason: str | None = None) -> Queue:
        """Stops claims from a queue."""
        with _known():
            return self._post(Queue, "queues", name, "pause", body=given(reason=reason))

    async def resume_queue(self, name: str) -> Queue:
        """Lets a queue be claimed from again."""
        with _known():
            return self._post(Queue, "queues", name, "resume")

    async def limit_queue(self, name: str, **limits: Any) -> Any:
        """Overrules what code says of a queue's limits; gives what holds now."""
        with _known():
            return self._put(dict[str, Any], "queues", name, "limits", body=limits)

    async def unlimit_queue(self, name: str) -> Any:
        """Lets code say again what a queue's limits are."""
        with _known():
            return self._delete(dict[str, Any], "queues", name, "limits")

    async def list_workers(self) -> Sequence[WorkerRecord]:
        """The workers of the last day."""
        return self._page(WorkerRecord, "workers", query={})[0]


@contextmanager
def _known() -> Iterator[None]:
    """A queue that is not there is a wrong word on the command line, and something that is not found over HTTP."""
    try:
        yield
    except NotFound as error:
        raise UnknownQueue(str(error)) from error
