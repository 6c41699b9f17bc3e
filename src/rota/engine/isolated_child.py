"""The process of isolated handlers, as seen from inside: performs what the worker asks for, one thing at a time."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import inspect
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from time import monotonic
from types import ModuleType
from typing import Any
from uuid import UUID

from rota.config import LogSettings
from rota.config.dsn import Dsn
from rota.engine import django_connections
from rota.engine.context import Context
from rota.engine.desk import Desk
from rota.engine.frames import Message, pack, unpack
from rota.engine.isolated_book import IsolatedBook
from rota.engine.options import LogOptions
from rota.engine.run_log import listening
from rota.log import configure_logging
from rota.model.outcome import Cancel, RetryAfter, Snooze
from rota.model.payload import PayloadSchema
from rota.model.redact import know_secrets, redact_text, secrets_known
from rota.model.run import Run, current_run
from rota.model.sanitize import clean_text, describe_error, encode_result
from rota.model.secret import find_secrets
from rota.model.task import TaskSpec

MAIN = "__mp_main__"  # the name that scripts know from multiprocessing: not `__main__`, so they do not start again
_PR_SET_PDEATHSIG = 1

loading = False  # a module with handlers is being imported: it must not start a worker


def main(descriptor: int) -> None:
    """Serves the worker at the other end of this socket until that end is closed."""
    _die_with_parent()
    os.set_inheritable(descriptor, False)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Sent to all processes of a service at once; when to stop is for the worker to say. Not SIG_IGN, which would be
        # inherited by what the handlers start.
        signal.signal(number, lambda *_: None)
    line = Line(socket.socket(fileno=descriptor))
    if (welcome := line.receive()) is None:
        return
    sys.argv[:] = welcome["argv"]
    if welcome["log"] is not None:
        configure_logging(LogSettings(**welcome["log"]))
    desk = Desk(Dsn(*welcome["dsn"]), UUID(welcome["worker_id"]), size=1, pooled=welcome["pooled"])
    with listening():
        Performer(line, desk, LogOptions(**welcome["logs"])).serve()


def _die_with_parent() -> None:
    """The kernel kills us with the worker, even in the middle of a handler that never lets another thread run."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Line:
    """Messages over a blocking socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._sending = threading.Lock()  # a handler's threads may log at once

    def send(self, message: Message) -> None:
        """Writes a message."""
        with self._sending:
            self._connection.sendall(pack(message))

    def receive(self) -> Message | None:
        """Waits for a message; None when the other end is closed."""
        while (message := unpack(self._buffer)) is None:
            try:
                data = self._connection.recv(1 << 18)
            except ConnectionError:
                return None
            if not data:
                return None
            self._buffer += data
        return message


class Performer:
    """Imports handlers and runs them in the main thread, while another thread listens for a word to stop."""

    def __init__(self, line: Line, desk: Desk, logs: LogOptions) -> None:
        self._line = line
        self._book = IsolatedBook(line.send, logs)
        self._desk = desk
        self._specs: dict[str, TaskSpec] = {}
        self._orders: queue.SimpleQueue[Callable[[], Message] | None] = queue.SimpleQueue()
        self._runner = asyncio.Runner()
        self._busy = False
        self._run: Run | None = None
        self._task: asyncio.Task[Any] | None = None  # of an async handler

    def serve(self) -> None:
        """Carries out orders until the worker has no more."""
        threading.Thread(target=self._listen, name="rota-line", daemon=True).start()
        with self._runner, contextlib.suppress(BrokenPipeError):
            while (order := self._orders.get()) is not None:
                answer = order()
                self._busy = False
                self._line.send(answer)
            self._runner.run(self._desk.close())

    def _listen(self) -> None:
        try:
            while (message := self._line.receive()) is not None:
                self._hear(message)
        except OSError:
            pass  # a handler has closed our end: its answer cannot be sent, and that ends us
        else:
            if self._busy:
                # The worker is gone or gave us up, and with it our right to go on; what the handler started goes too.
                os.killpg(0, signal.SIGKILL)
        self._orders.put(None)

    def _hear(self, message: Message) -> None:
        if "stop" in message:
            self._stop(message)
            return
        self._busy = True
        if "load" in message:
            self._orders.put(partial(self._load, message["load"]))
        else:
            self._run = run = _read_run(message["run"])
            self._orders.put(partial(self._perform, run))

    def _stop(self, message: Message) -> None:
        run = self._run
        if run is None or (run.id, run.token) != (message["id"], message["token"]):
            return  # it has ended meanwhile
        run.interrupted = message["stop"]
        if self._task is not None:
            self._runner.get_loop().call_soon_threadsafe(self._cancel, run)

    def _cancel(self, run: Run) -> None:
        if self._run is run and self._task is not None:
            run.heard = True
            self._task.cancel()

    def _load(self, reference: Message) -> Message:
        global loading
        loading = True
        try:
            self._specs[reference["task"]] = find_spec(**reference)
        except BaseException as error:  # whatever a module does when it is imported
            return {"error": describe_error(error)}
        finally:
            loading = False
        return {}

    def _perform(self, run: Run) -> Message:
        spec = self._specs[run.task]
        variables = copy_context()
        variables.run(current_run.set, run)
        run.book = self._book
        try:
            arguments = spec.payload.decode(run.payload, run.records)
            if spec.payload.has_secrets:
                run.secrets = find_secrets(arguments)
                variables.run(know_secrets, run.secrets)
            context = (Context(run, self._desk),) if spec.wants_context else ()
            call = partial(spec.handler, *context, **arguments)
            if spec.is_async:
                value, error = self._runner.run(self._attend(run, call), context=variables)
            else:
                django_connections.renew()
                value, error = variables.run(call), None
        except BaseException as raised:
            value, error = None, raised
        if not spec.is_async:
            django_connections.renew()
        self._book.close(run)
        if run.state is not None:  # the handler's own transaction has ended the run
            return {"state": run.state, "result": run.result}
        if error is None:
            with secrets_known(run.secrets):
                return {**_describe_value(value), "heard": run.heard}
        if isinstance(error, asyncio.CancelledError) and run.interrupted is not None:
            return {"stopped": True}
        with secrets_known(run.secrets):
            return {"error": describe_error(error)}

    async def _attend(self, run: Run, call: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
        # First known, then asked: `_stop` does the same two things the other way round, so one of us sees the other.
        self._task = asyncio.current_task()
        try:
            if run.interrupted is not None:
                raise asyncio.CancelledError
            if django_connections.is_loaded():
                await django_connections.renew_for_async()
            return await call(), None
        except BaseException as error:  # raised any further, SystemExit would end the loop
            return None, error
        finally:
            self._task = None


def _read_run(fields: Message) -> Run:
    run_at = datetime.fromisoformat(fields.pop("run_at"))
    claimed = monotonic() - fields.pop("waited_s")
    run = Run(**fields, run_at=run_at, claimed=claimed)
    run.started = monotonic()
    return run


def _describe_value(value: Any) -> Message:
    if isinstance(value, Snooze):
        return {"snooze": value.interval.total_seconds()}
    if isinstance(value, Cancel):
        return {"cancel": redact_text(clean_text(value.reason))}
    if isinstance(value, RetryAfter):
        return {"retry_after": value.interval.total_seconds(), "reason": redact_text(clean_text(value.reason))}
    if isinstance(value, timedelta):
        return {"timedelta": value.total_seconds()}
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    return {"result": None if value is None else encode_result(value)}


def find_spec(task: str, module: str, name: str, path: str | None) -> TaskSpec:
    """The task whose handler has this name in this module, or in the script at `path`."""
    found: Any = import_module(module) if path is None else _import_script(path)
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(spec := getattr(found, "spec", None), TaskSpec):
        if spec.name != task:
            raise LookupError(f"{module}.{name} is task {spec.name!r}, not {task!r}: give the function a name of its own")
        return spec
    # A task under another name than its function's: `nightly = app.task(name="nightly")(run)`.
    payload, wants_context = PayloadSchema.from_handler(found, task)
    return TaskSpec(task, found, payload, wants_context, inspect.iscoroutinefunction(found))


def _import_script(path: str) -> ModuleType:
    if MAIN not in sys.modules:
        loader = SourceFileLoader(MAIN, path)
        spec = spec_from_loader(MAIN, loader)
        assert spec is not None
        sys.modules[MAIN] = module = module_from_spec(spec)
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[MAIN]
            raise
        sys.modules["__main__"] = module
    return sys.modules[MAIN]
