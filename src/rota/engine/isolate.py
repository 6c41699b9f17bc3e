"""Handlers in processes of their own: killed at their timeout, and alone when they die."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

from rota import log
from rota.config.dsn import Dsn
from rota.engine import isolated_child
from rota.engine.desk import Desk
from rota.engine.executor import Slot
from rota.engine.frames import Message
from rota.engine.isolated_book import hear
from rota.engine.isolated_process import IsolatedProcess
from rota.engine.options import LogOptions
from rota.errors import ConfigError, HandlerFailed, RotaError, WorkerCrashed
from rota.model.outcome import Cancel, RetryAfter, Snooze
from rota.model.run import Run
from rota.model.task import TaskSpec, check_importable

READY_WITHIN_S = 60.0  # for the start of a process and the import of the handler's module
GRACE_S = 1.0  # for a handler that was told to stop
IDLE_S = 60.0  # a process that nobody has needed for this long is ended
CLOSE_S = 1.0
SUSPECTS_AT_A_TIME = 4
STARTS_AT_A_TIME = max(1, (os.cpu_count() or 1) // 2)  # more would only slow each other down, and the worker


class Quarantine:
    """The processes of isolated handlers, and of suspects: jobs whose worker died while it held them.

    Processes are started when needed and used again. Each suspect has one to itself, so that whichever kills its process is alone
    and known; a few are tried at a time, because starting a process costs more than most jobs.
    """

    def __init__(self, desk: Desk, dsn: str, logs: LogOptions) -> None:
        if isolated_child.loading:
            raise ConfigError(
                "a worker is started while the module with its handlers is being imported: "
                "put the start under `if __name__ == '__main__':`"
            )
        self._welcome: Message = {
            "dsn": dsn.to_json() if isinstance(dsn, Dsn) else [dsn],
            "worker_id": str(desk.worker_id),
            "pooled": desk.pooled,
            "argv": sys.argv,
            "log": log.configured and log.configured.model_dump(),
            "logs": dataclasses.asdict(logs),
        }
        self._processes: set[IsolatedProcess] = set()
        self._idle: list[IsolatedProcess] = []
        self._retiring: asyncio.TimerHandle | None = None
        self._suspects = asyncio.Semaphore(SUSPECTS_AT_A_TIME)
        self._starting = 0
        self._change = asyncio.Event()  # a process is free, or has started

    async def perform(self, slot: Slot, run: Run, spec: TaskSpec) -> Any:
        """Performs a run in a process of its own and gives what the handler gave.

        Raises HandlerFailed for what the handler raised and WorkerCrashed when its process died. Cancelled, the process is
        told to stop, or killed.
        """
        # A handler's time begins when it does, not while it waits for its turn or its process starts.
        timeout_s, slot.deadline = slot.deadline and slot.deadline - run.started, 0.0
        if not run.crashes:
            return await self._perform(slot, run, await self._prepare(spec), timeout_s)
        async with self._suspects:
            try:
                process = await self._prepare(spec)
            except WorkerCrashed:
                raise
            except (RotaError, OSError) as error:
                # Not in the worker either: it may be the one that killed the last worker.
                raise WorkerCrashed(
                    f"a worker died while it held this job, and {run.task} could not be tried in a process of its own: {error}"
                ) from error
            return await self._perform(slot, run, process, timeout_s)

    async def _prepare(self, spec: TaskSpec) -> IsolatedProcess:
        """A process that has imported the handler."""
        reference = _refer_to(spec)
        process, is_new = await self._take_or_start()
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                await process.connect(self._welcome)
                if spec.name in process.loaded:
                    return process
                answer = await process.ask({"load": reference})
        except TimeoutError:
            await process.kill()
            raise WorkerCrashed(f"its process had not imported {reference['module']} after {READY_WITHIN_S:g} s") from None
        except BaseException:
            await process.kill()
            raise
        finally:
            if is_new:
                self._starting -= 1
                self._tell_of_change()
        if answer is None:
            raise WorkerCrashed(f"its process {await process.end()} while it imported {reference['module']}")
        if "error" in answer:
            self._put_back(process)
            raise HandlerFailed(answer["error"])
        process.loaded.add(spec.name)
        return process

    async def _perform(self, slot: Slot, run: Run, process: IsolatedProcess, timeout_s: float) -> Any:
        run.started = monotonic()
        slot.deadline = timeout_s and run.started + timeout_s
        process.on_said = partial(hear, run)
        try:
            answer = await process.ask({"run": _write_run(run)})
        except asyncio.CancelledError:
            answer = None
            try:
                if run.interrupted in ("cancel", "shutdown"):
                    process.tell({"stop": run.interrupted, "id": run.id, "token": run.token})
                    answer = await process.answer_within(GRACE_S)
            finally:
                if answer is None:
                    await process.kill()
            if answer is None:
                raise
        if answer is None:
            raise WorkerCrashed(f"its process {await process.end()} while running {run.task}, attempt {run.attempt}")
        self._put_back(process)
        return _read_answer(run, answer)

    async def _take_or_start(self) -> tuple[IsolatedProcess, bool]:
        """A process that is free, or a new one: while as many start as should, whichever is there first."""
        while (process := self._take()) is None:
            if self._starting < STARTS_AT_A_TIME:
                process = IsolatedProcess()
                self._starting += 1
                self._processes.add(process)
                process.exited.add_done_callback(partial(self._forget, process))
                return process, True
            await self._change.wait()
        return process, False

    def _forget(self, process: IsolatedProcess, _: object) -> None:
        self._processes.discard(process)

    def _tell_of_change(self) -> None:
        self._change.set()
        self._change.clear()

    def _take(self) -> IsolatedProcess | None:
        while self._idle:
            process = self._idle.pop()  # the one used last, so that those too many come of age
            if process.alive:
                return process
        return None

    def _put_back(self, process: IsolatedProcess) -> None:
        process.idle_since = monotonic()
        self._idle.append(process)
        self._tell_of_change()
        if self._retiring is None:
            self._retiring = asyncio.get_running_loop().call_later(IDLE_S, self._retire)

    def _retire(self) -> None:
        oldest = monotonic() - IDLE_S
        for process in self._idle:
            if process.idle_since <= oldest:
                process.close()
        self._idle = [process for process in self._idle if process.alive]
        waiting = [process.idle_since + IDLE_S - monotonic() for process in self._idle]
        self._retiring = asyncio.get_running_loop().call_later(min(waiting), self._retire) if waiting else None

    async def close(self) -> None:
        """Ends the processes."""
        if self._retiring is not None:
            self._retiring.cancel()
        processes = list(self._processes)
        for process in processes:
            process.close()
        if processes:
            await asyncio.wait([process.exited for process in processes], timeout=CLOSE_S)
        for process in list(self._processes):
            await process.kill()


def _refer_to(spec: TaskSpec) -> Message:
    """By what another process finds the handler."""
    handler: Callable[..., Any] = spec.handler
    check_importable(handler)
    module, path = handler.__module__, None
    if module == "__main__":
        main = sys.modules["__main__"]
        if main.__spec__ is not None and main.__spec__.name != "__main__":
            module = main.__spec__.name  # it was run with -m
        else:
            path = main.__file__
    return {"task": spec.name, "module": module, "name": handler.__qualname__, "path": path}


def _write_run(run: Run) -> Message:
    return {
        "id": run.id,
        "token": run.token,
        "task": run.task,
        "queue": run.queue,
        "priority": run.priority,
        "run_at": run.run_at.isoformat(),
        "payload": run.payload,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "details": run.details,
        "wait_s": run.wait_s,
        "waited_s": run.started - run.arrived,
    }


def _read_answer(run: Run, answer: Message) -> Any:
    run.heard = answer.get("heard", run.heard)  # whether the handler itself has, not only its process
    match answer:
        case {"state": state, "result": result}:  # the handler's own transaction has ended the run
            run.outcome, run.state, run.result = "completed", state, result
            return None
        case {"result": None}:
            return None
        case {"result": result}:
            return json.loads(result)
        case {"error": described}:
            raise HandlerFailed(described)
        case {"stopped": True}:
            raise asyncio.CancelledError
        case {"snooze": seconds}:
            return Snooze(timedelta(seconds=seconds))
        case {"timedelta": seconds}:
            return timedelta(seconds=seconds)
        case {"datetime": text}:
            return datetime.fromisoformat(text)
        case {"cancel": reason}:
            return Cancel(reason)
        case {"retry_after": seconds, "reason": reason}:
            return RetryAfter(timedelta(seconds=seconds), reason)
    raise RuntimeError(f"an answer that nobody understands: {answer}")
