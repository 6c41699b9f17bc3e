"""Runs one claimed job: resolve the task → perform the handler → normalise what it gave → report by the run's fields."""

from __future__ import annotations

import asyncio
import random
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextvars import Context as ContextVars
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import Any

from rota.engine import django_connections
from rota.engine.context import Context
from rota.engine.desk import Desk
from rota.errors import JobTimeout, PayloadError, WorkerCrashed
from rota.events import Events, RunInterrupted, RunRaised
from rota.model.outcome import Cancel, RetryAfter, Snooze
from rota.model.recurrence import read_next
from rota.model.redact import know_secrets, redact_text, secrets_known
from rota.model.retry import Retry
from rota.model.run import Book, Run, current_run
from rota.model.sanitize import clean_text, describe_error, encode_result
from rota.model.secret import SecretsOf
from rota.model.task import TaskSpec

FINAL = ("timeout", "lost")  # reasons that end a run even if its handler, told to stop for another one, goes on

# Performs a run in a process of its own; written in `isolate`.
Isolated = Callable[["Slot", Run, TaskSpec], Awaitable[Any]]


class Slot:
    """A place for one running job, and the handle by which it is told to stop."""

    __slots__ = ("closing", "deadline", "run", "task", "thread")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.run: Run | None = None
        self.closing = False  # the worker ends this slot: a cancellation is its own, not the handler's
        self.deadline = 0.0  # 0: none
        self.thread: asyncio.Future[Any] | None = None  # of a synchronous handler

    def interrupt(self, reason: str) -> None:
        """Tells the handler to stop. Called in the event loop, so the slot is suspended inside its handler."""
        if self.run is not None and self.task is not None:
            self.run.interrupted = reason
            # A handler in a thread cannot be stopped, only told (`ctx.canceled`). At its timeout, or when somebody else has the
            # job, its run ends all the same.
            if self.thread is None or reason in FINAL:
                self.run.heard = True
                self.task.cancel()


class PayloadRefused(Exception):
    """The payload does not fit this version of the task; the handler has not been called."""

    def __init__(self, error: PayloadError) -> None:
        super().__init__(str(error))
        self.error = error


class Executor:
    """Performs runs by the tasks' handlers and writes on each run what became of it."""

    def __init__(
        self, tasks: Mapping[str, TaskSpec], desk: Desk, events: Events, isolated: Isolated, lease_s: float,
        book: Book | None = None,
    ) -> None:  # fmt: skip
        self._tasks = tasks
        self._desk = desk
        self._events = events
        self._isolated = isolated
        self._lease_s = lease_s
        self._book = book
        self._random = random.Random()

    async def execute(self, slot: Slot, run: Run) -> None:
        """Runs the handler and sets outcome, error, result and delay on `run`. Raises only when the slot itself is cancelled."""
        run.started = monotonic()
        if run.started - run.leased > self._lease_s:
            run.state = "lost"  # the process was stopped for so long that somebody else has the job by now
            return
        spec = self._tasks[run.task]  # a claim takes only tasks that the worker knows
        run.book = self._book
        try:
            slot.deadline = self._deadline(run, spec)
            value = await self._perform(slot, run, spec)
            self._normalise(run, value, spec)
            if run.interrupted is not None:
                self._settle_interrupted(run, spec, finished=value is not None or not run.heard)
        except asyncio.CancelledError as error:
            if run.interrupted is None:
                if slot.closing:
                    raise
                self._fail(run, error, spec)  # the handler cancelled itself
            else:
                self._settle_interrupted(run, spec, finished=False)
        except GeneratorExit:
            raise
        except PayloadRefused as refused:
            self._fail(run, refused.error, spec)
            assert run.error is not None
            run.outcome, run.error["schema"] = "refused", spec.payload.version
        except BaseException as error:  # SystemExit and KeyboardInterrupt from a handler end its run, not the worker
            if run.interrupted is not None and run.interrupted != "cancel":
                self._settle_interrupted(run, spec, finished=False)
            else:
                self._fail(run, error, spec)
        while slot.task is not None and slot.task.cancelling():
            slot.task.uncancel()  # also what the handler swallowed, or a task group of its left behind: the next job begins anew
        slot.deadline = 0.0
        if run.said is not None and run.book is not None:
            run.book.close(run)
        run.took_s = monotonic() - run.started

    async def _perform(self, slot: Slot, run: Run, spec: TaskSpec) -> Any:
        records = run.records if spec.payload.has_secrets else None
        arguments: dict[str, Any] = {}
        if run.payload != "{}" or not spec.payload.accepts_nothing:
            try:
                arguments = spec.payload.decode(run.payload, records)
            except PayloadError as error:
                raise PayloadRefused(error) from error
        if spec.isolate or run.crashes:
            return await self._isolated(slot, run, spec)
        # A copy per job: what one handler leaves in context variables, the next one does not find there.
        variables = copy_context()
        variables.run(current_run.set, run)
        if records is not None:
            run.secrets = SecretsOf(partial(spec.payload.decode, run.payload, records))
            variables.run(know_secrets, run.secrets)
        call: Callable[..., Any] = spec.handler
        if spec.is_async:
            if django_connections.is_loaded():
                await django_connections.renew_for_async()
            if spec.wants_context:
                return await _step_in(variables, variables.run(call, Context(run, self._desk), **arguments))
            return await _step_in(variables, variables.run(call, **arguments))
        call = partial(call, Context(run, self._desk), **arguments) if spec.wants_context else partial(call, **arguments)
        slot.thread = self._desk.threads.run(variables, call)
        # Shielded: a thread cannot be cancelled, and the slot waits for it before it takes another job.
        return await asyncio.shield(slot.thread)

    def _deadline(self, run: Run, spec: TaskSpec) -> float:
        timeout_s = _timeout(run, spec)
        return run.started + timeout_s if timeout_s else 0.0

    def _normalise(self, run: Run, value: Any, spec: TaskSpec) -> None:
        if run.state is not None:  # the handler's own transaction has ended the run
            return
        if value is None and not spec.recurring:
            run.outcome = "completed"
        elif isinstance(value, Snooze):
            run.outcome, run.delay_s = "snoozed", value.interval.total_seconds()
        elif isinstance(value, Cancel):
            run.outcome, run.error = "canceled", {"type": "Canceled", "message": self._reason(run, value.reason)}
        elif isinstance(value, RetryAfter):
            run.outcome, run.delay_s = "failed", value.interval.total_seconds()
            run.error = {"type": "RetryAfter", "message": self._reason(run, value.reason)}
        elif spec.recurring:
            next = read_next(value)
            run.outcome, run.next_at = "completed", next.at
            run.delay_s = None if next.delay is None else next.delay.total_seconds()
        else:
            run.outcome, run.result = "completed", encode_result(value)

    def _reason(self, run: Run, reason: str) -> str:
        with secrets_known(run.secrets):
            return redact_text(clean_text(reason))

    def _settle_interrupted(self, run: Run, spec: TaskSpec, *, finished: bool) -> None:
        if run.state is not None:
            return
        match run.interrupted:
            case "timeout":
                timeout_s = _timeout(run, spec)
                self._fail(run, JobTimeout(f"Job exceeded timeout of {timeout_s:g}s"), spec)
            case "lost":
                run.state = "lost"
            case "cancel" if not finished:
                run.outcome, run.error = "canceled", {"type": "Canceled", "message": "canceled while it was running"}
            case "shutdown" if not finished:
                run.outcome, run.error = (
                    "released",
                    {"type": "Shutdown", "message": "its worker stopped before it ended"},
                )

    def _fail(self, run: Run, error: BaseException, spec: TaskSpec) -> None:
        if run.state is not None:
            return
        run.outcome = "failed"
        if isinstance(error, WorkerCrashed):
            run.outcome, error.__traceback__ = "crashed", None  # ours: it says nothing about the handler
        if run.secrets:
            with secrets_known(run.secrets):
                run.error = describe_error(error)
        else:
            run.error = describe_error(error)
        # The end of a scheduled job is for its recurring row to judge, which knows how often it has failed.
        if not run.is_scheduled or run.charged < run.max_attempts:
            own = run.details and run.details["retry"]
            policy = Retry.from_json(own) if own else spec.retry
            run.delay_s = policy.delay(max(run.charged, 1), self._random).total_seconds()
            if (asked_s := run.error.get("retry_after_s")) is not None:  # by the server that a call was made to
                run.delay_s = max(float(asked_s), run.delay_s)
        self._events.emit(RunRaised(run, error))

    def settle_unstarted(self, run: Run) -> None:
        """Ends a run that was told to stop before its handler had begun."""
        run.started = monotonic()
        self._settle_interrupted(run, self._tasks[run.task], finished=False)

    def interrupt(self, slot: Slot, reason: str) -> None:
        """Tells a slot's handler to stop, and the world that it was told."""
        run = slot.run
        if run is not None and (run.interrupted is None or (reason in FINAL and run.interrupted not in FINAL)):
            self._events.emit(RunInterrupted(run, reason))
            slot.interrupt(reason)


def _timeout(run: Run, spec: TaskSpec) -> float | None:
    own: float | None = run.details["timeout_s"] if run.details else None
    return own if own is not None else spec.timeout_s


@types.coroutine
def _step_in(variables: ContextVars, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Awaits `coroutine` with each of its steps inside `variables`, without the cost of a task of its own."""
    step: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            waiting_for = variables.run(step, value)
        except StopIteration as stop:
            return stop.value
        except GeneratorExit as error:  # its own: for us it would mean that the slot is being closed
            raise RuntimeError("the handler raised GeneratorExit") from error
        try:
            value = yield waiting_for
            step = coroutine.send
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            value, step = error, coroutine.throw
