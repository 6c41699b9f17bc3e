"""The protocol a measured system speaks, from inside its own interpreter.

The harness starts `python -m bench.systems.<name> VERB` and talks to it by lines on stdin and stdout, so that a
system is a real process of its own whose CPU and memory can be read. Standard library only: peers have their own
virtualenv.

    setup                          create the schema
    bulk --jobs N --due-in S       enqueue N jobs by the system's bulk call           → {"seconds": …}
    single --jobs N --writers W    enqueue N jobs one by one on W connections         → {"seconds": …}
    probe                          enqueue one job per line of stdin                  → "<called ns> <committed ns>"
    claims --jobs N                time N claims that find nothing due                → {"seconds": …}
    polls --jobs N                 fire what is due, then time N looks for more       → {"fired": …, "seconds": …, …}
    work                           "ready", wait for a line, work until killed        → "<handled> <ns>" as it goes
"""

import argparse
import asyncio
import json
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

Enqueue = Callable[[], Awaitable[object]]
Handled = Callable[[], None]

PAYLOAD = {"n": 1}
WARM_UP = 50
REPORT_SECONDS = 0.02


class Agent(ABC):
    """One measured system; `options` are its settings in this measurement."""

    def __init__(self, dsn: str, options: dict[str, Any]) -> None:
        self.dsn = dsn
        self.options = options

    @abstractmethod
    async def setup(self) -> None:
        """Create the schema in an empty database."""

    @abstractmethod
    async def producers(self, count: int) -> list[Enqueue]:
        """Return `count` functions that each enqueue and commit one job, on a connection of their own."""

    @abstractmethod
    async def enqueue_many(self, jobs: int, due_in: float) -> float:
        """Enqueue `jobs` by the bulk call, due in that many seconds, and return the seconds it took."""

    @abstractmethod
    async def work(self, handled: Handled) -> None:
        """Run a worker for ever whose handler calls `handled` and does nothing else."""

    async def claim_nothing(self, claims: int) -> float:
        """Claim that many times with nothing due, and return the seconds it took."""
        raise NotImplementedError(f"{type(self).__name__} has no claim that can be timed by itself")

    async def look_for_due(self, looks: int) -> dict[str, float]:
        """Fire the schedules that are due, then look that many times and find none; say how long both took."""
        raise NotImplementedError(f"{type(self).__name__} has no schedules")


class Tally:
    """Handled jobs, reported to the harness every 20 ms from a thread, so that a job costs one addition."""

    def __init__(self) -> None:
        self.count = 0

    def handled(self) -> None:
        """Count one handled job."""
        self.count += 1

    def report(self) -> None:
        """Write the count whenever it has changed, for ever."""
        reported = 0
        while True:
            time.sleep(REPORT_SECONDS)
            if (count := self.count) != reported:
                write(f"{count} {time.monotonic_ns()}")
                reported = count


class Bell:
    """Handled jobs, reported each at its start, to measure pick-up."""

    def __init__(self) -> None:
        self.count = 0

    def handled(self) -> None:
        """Report one handled job with the time of its start."""
        started = time.monotonic_ns()
        self.count += 1
        write(f"{self.count} {started}")


def write(line: str) -> None:
    """Write a whole line to the harness in one system call."""
    os.write(1, f"{line}\n".encode())


def await_go() -> None:
    """Say that everything is imported, wait for the harness to start all workers at once, and end when it ends."""
    write("ready")
    sys.stdin.readline()
    threading.Thread(target=end_with_harness, daemon=True).start()


def end_with_harness() -> None:
    """End this process when stdin is closed, so that no worker outlives a harness that was killed."""
    sys.stdin.read()
    os._exit(0)


async def enqueue_one_by_one(agent: Agent, jobs: int, writers: int) -> float:
    """Enqueue `jobs` over that many connections and return the seconds it took."""
    producers = await agent.producers(writers)
    for enqueue in producers:
        for _ in range(WARM_UP):
            await enqueue()

    async def produce(enqueue: Enqueue) -> None:
        for _ in range(jobs // writers):
            await enqueue()

    started = time.perf_counter()
    await asyncio.gather(*map(produce, producers))
    return time.perf_counter() - started


async def probe(agent: Agent) -> None:
    """Enqueue one job per line of stdin, and say when the call began and when it had committed."""
    (enqueue,) = await agent.producers(1)
    loop = asyncio.get_running_loop()
    write("ready")
    while await loop.run_in_executor(None, sys.stdin.readline):
        called = time.monotonic_ns()
        await enqueue()
        write(f"{called} {time.monotonic_ns()}")


def serve(kind: type[Agent], run: Callable[[Any], Any] = asyncio.run) -> None:
    """Carry out the verb on the command line; `run` is the event loop's entry."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["setup", "bulk", "single", "probe", "claims", "polls", "work"])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--due-in", type=float, default=0.0)
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--ring", action="store_true", help="report each job at its start")
    arguments = parser.parse_args()
    agent = kind(arguments.dsn, arguments.options)

    match arguments.verb:
        case "setup":
            run(agent.setup())
        case "bulk":
            write(json.dumps({"seconds": run(agent.enqueue_many(arguments.jobs, arguments.due_in))}))
        case "single":
            write(json.dumps({"seconds": run(enqueue_one_by_one(agent, arguments.jobs, arguments.writers))}))
        case "claims":
            write(json.dumps({"seconds": run(agent.claim_nothing(arguments.jobs))}))
        case "polls":
            write(json.dumps(run(agent.look_for_due(arguments.jobs))))
        case "probe":
            run(probe(agent))
        case "work" if arguments.ring:
            await_go()
            run(agent.work(Bell().handled))
        case "work":
            tally = Tally()
            await_go()
            threading.Thread(target=tally.report, daemon=True).start()
            run(agent.work(tally.handled))
