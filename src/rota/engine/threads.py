"""Threads for synchronous handlers."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import Context as ContextVars
from typing import Any

from rota.engine import django_connections

_Call = tuple["asyncio.Future[Any]", ContextVars, Callable[[], Any]]


class Threads:
    """A pool of daemon threads: a handler that never returns cannot keep a stopping worker alive."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._idle = 0
        self._count = 0

    def run(self, variables: ContextVars, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Starts `call` in a thread; the future resolves in the event loop."""
        future = asyncio.get_running_loop().create_future()
        if self._idle == 0:
            self._count += 1
            threading.Thread(target=self._work, name=f"rota-handler-{self._count}", daemon=True).start()
        else:
            self._idle -= 1
        self._calls.put((future, variables, call))
        return future

    def close(self) -> None:
        """Lets idle threads end; busy ones end after their call."""
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            future, variables, call = item
            django_connections.renew()
            try:
                outcome, failed = variables.run(call), False
            except BaseException as error:
                outcome, failed = error, True
            django_connections.renew()
            try:
                future.get_loop().call_soon_threadsafe(self._settle, future, outcome, failed)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return
            del item, future, variables, call, outcome
        django_connections.close_all()

    def _settle(self, future: asyncio.Future[Any], outcome: Any, failed: bool) -> None:
        self._idle += 1
        if future.done():
            return
        if not failed:
            future.set_result(outcome)
        elif isinstance(outcome, StopIteration | GeneratorExit):  # they would mean something else to who awaits the future
            future.set_exception(RuntimeError(f"the handler raised {type(outcome).__name__}"))
        else:
            future.set_exception(outcome)
