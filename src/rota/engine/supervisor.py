"""Keeps several processes alive, workers or servers, and none of them longer than itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Self

VARIABLE = "ROTA_LIFELINE"  # set for a child whose standard input is the pipe
RESTART_FIRST_S = 0.2
RESTART_CAP_S = 10.0
SETTLED_AFTER_S = 30.0  # a process that lived this long did not die of the same thing as the one before it
HOPELESS = 2  # the exit code of a wrong setting or call, which no restart will mend

log = logging.getLogger("rota.supervisor")


class Lifeline:
    """Starts children that end when we do, even if we are killed.

    Every child reads the same pipe, and only we hold its other end: when we are gone, however, they read its end.
    """

    def __enter__(self) -> Self:
        self._read, self._held = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read)
        os.close(self._held)

    async def start(
        self, command: Sequence[str], output: IO[bytes] | None = None, pass_fds: Sequence[int] = ()
    ) -> asyncio.subprocess.Process:
        """Starts a program that calls `end_with_parent`; its output goes to a file, or where ours goes."""
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=self._read,
            stdout=output,
            stderr=output,
            env={**os.environ, VARIABLE: "1"},
            pass_fds=pass_fds,
            start_new_session=True,  # Ctrl-C in our terminal is for us: a child must be told once, not twice
        )


class Supervisor:
    """Runs `processes` children, replaces those that die, and stops them all in the end."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        processes: int,
        *,
        kill_after_s: float,
        output: IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._command = command  # of the child with this number, from 0
        self._processes = processes
        self._output = output
        self._pass_fds = pass_fds
        self._kill_after_s = kill_after_s  # from the first stop
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._stops = 0
        self._patience: asyncio.TimerHandle | None = None
        self._exit_code = 0

    @property
    def pids(self) -> list[int]:
        """The process ids of the children that are alive."""
        return [child.pid for child in self._children.values() if child.returncode is None]

    async def run(self) -> int:
        """Keeps the children running until a stop, and gives the exit code to end with."""
        with Lifeline() as lifeline:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for number in range(self._processes):
                        tasks.create_task(self._keep(number, lifeline))
            finally:
                if self._patience is not None:
                    self._patience.cancel()
                self._signal(signal.SIGKILL)
        return self._exit_code

    def stop(self) -> None:
        """Asks the children to stop; the second time at once, the third time kills them."""
        self._stops += 1
        self._stopping.set()
        if self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(self._kill_after_s, self._kill_late)
        self._signal(signal.SIGTERM if self._stops < 3 else signal.SIGKILL)

    async def _keep(self, number: int, lifeline: Lifeline) -> None:
        deaths = 0
        while not self._stopping.is_set():
            started = time.monotonic()
            child = self._children[number] = await lifeline.start(self._command(number), self._output, self._pass_fds)
            if self._stopping.is_set():
                child.terminate()
            code = await child.wait()
            if self._stopping.is_set():
                self._judge(code)
                return
            if code == HOPELESS:
                self._exit_code = HOPELESS
                self.stop()
                return
            deaths = 0 if time.monotonic() - started > SETTLED_AFTER_S else deaths + 1
            wait = min(RESTART_FIRST_S * 2.0**deaths, RESTART_CAP_S) * random.uniform(0.5, 1.0)
            log.warning("process %d %s; it is started again in %.1f s", child.pid, describe_exit(code), wait)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    def _judge(self, code: int) -> None:
        # One that was told before it had begun to listen is ended by the signal itself, with nothing lost.
        if code not in (0, -signal.SIGTERM) and self._exit_code == 0:
            self._exit_code = 1

    def _kill_late(self) -> None:
        for pid in self.pids:
            log.error("process %d did not stop within %g s and is killed", pid, self._kill_after_s)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                if number == signal.SIGKILL:
                    os.killpg(pid, number)  # what it started for its own jobs must not outlive it
                else:
                    os.kill(pid, number)


def end_with_parent() -> None:
    """Called in a child of a lifeline: makes it receive SIGTERM when its parent is gone."""
    if os.environ.pop(VARIABLE, None):
        threading.Thread(target=_await_end_of_input, name="rota-lifeline", daemon=True).start()


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _await_end_of_input() -> None:
    while os.read(sys.__stdin__.fileno(), 1):  # type: ignore[union-attr]
        pass
    os.kill(os.getpid(), signal.SIGTERM)
