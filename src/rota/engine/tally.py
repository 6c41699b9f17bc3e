"""What has become of this worker's runs, added up by task until it is written down.

Tens of thousands of runs a second pass here. Each is counted; of a big batch only some are timed, as many of each task as are
enough for its percentiles.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta

from rota.db.connection import AsyncConn
from rota.events import Events, RunRescued, RunsFinished
from rota.model.histogram import bucket
from rota.model.run import Run
from rota.store import stats
from rota.store.stats import Addition

FLUSH_EVERY_S = 10.0
MERGE_EVERY_S = 60.0
MERGE_BATCH = 2000
MERGE_BATCHES = 5  # at a time: what is too much is for the next one, or for another worker
# Minutes for as long as somebody may ask for the last hour or two, hours for as long as for the last month.
MERGES = (("flush", "minute", timedelta(minutes=2)), ("minute", "hour", timedelta(hours=3)))
KEPT = timedelta(days=36)
SAMPLE = 64  # runs of one task that are timed of one batch, evenly; the others are taken to be like them
RAN = ("completed", "failed", "crashed")  # outcomes of runs that came to their own end: their durations mean something

Timing = tuple[str, int, int]  # task, bucket of the duration, -1 where it means nothing, and of the wait


class Tally:
    """Counts runs as they end."""

    def __init__(self, events: Events) -> None:
        self._outcomes: Counter[tuple[str, str | None]] = Counter()  # by task
        self._timings: Counter[Timing] = Counter()
        self._writing = asyncio.Lock()
        events.subscribe(RunsFinished, self._add)
        events.subscribe(RunRescued, self._add_rescued)

    @property
    def pending(self) -> bool:
        """Whether there is something that is not written down yet."""
        return bool(self._outcomes) or self._writing.locked()

    def _add(self, event: RunsFinished) -> None:
        runs = event.runs
        self._outcomes.update([(run.task, run.outcome) for run in runs])
        if len(runs) <= SAMPLE:
            self._time(runs, 1)
        elif len({run.task for run in runs}) == 1:
            self._time_some(runs)
        else:
            by_task: defaultdict[str, list[Run]] = defaultdict(list)
            for run in runs:
                by_task[run.task].append(run)
            for own in by_task.values():
                self._time_some(own)

    def _time_some(self, runs: Sequence[Run]) -> None:
        step = -(-len(runs) // SAMPLE)
        self._time(runs[::step], step)

    def _time(self, runs: Sequence[Run], weight: int) -> None:
        timings = self._timings
        for run in runs:
            took = bucket(run.took_s) if run.outcome in RAN else -1
            timings[run.task, took, bucket(run.wait_s)] += weight

    def _add_rescued(self, event: RunRescued) -> None:
        # How long it ran nobody knows, nor, by now, how long it had waited.
        self._outcomes[event.task, "lost" if event.state == "queued" else event.state] += 1

    async def flush(self, conn: AsyncConn) -> None:
        """Writes down what has been counted since the last time; what could not be written is for the next one."""
        async with self._writing:  # who flushes last, as a worker stops, writes also what another could not
            if not self._outcomes:
                return
            outcomes, self._outcomes = self._outcomes, Counter()
            timings, self._timings = self._timings, Counter()
            try:
                await stats.add(conn, _additions(outcomes, timings))
            except BaseException:
                self._outcomes.update(outcomes)
                self._timings.update(timings)
                raise


async def merge_stats(conn: AsyncConn) -> None:
    """Makes minutes of what workers have written down, then hours, and forgets what nobody asks for any more."""
    for grain, into, older_than in MERGES:
        for _ in range(MERGE_BATCHES):
            if await stats.merge(conn, grain=grain, into=into, older_than=older_than, limit=MERGE_BATCH) < MERGE_BATCH:
                break
    await stats.forget(conn, older_than=KEPT, limit=MERGE_BATCH)


def _additions(outcomes: Counter[tuple[str, str | None]], timings: Counter[Timing]) -> list[Addition]:
    by_task: dict[str, Addition] = {}
    for (task, outcome), count in outcomes.items():
        addition = by_task.get(task) or by_task.setdefault(task, Addition(task))
        addition.outcomes["failed" if outcome == "crashed" else outcome or ""] += count
    for (task, took, waited), count in timings.items():
        addition = by_task[task]
        if took >= 0:
            addition.durations[took] += count
        addition.waits[waited] += count
    return list(by_task.values())
