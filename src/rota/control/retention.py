"""Retention: how long history is kept, and the turns that remove the rest: small pieces, with rests between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from time import monotonic
from uuid import UUID

from psycopg.errors import DeadlockDetected, LockNotAvailable

from rota.config import RetentionSettings
from rota.db.connection import AsyncConn
from rota.model.ids import new_id
from rota.store import alerts, audit, schedules, webhooks
from rota.store import retention as store
from rota.store.retention import NO_ID, Partition, Rule, Step

BATCH = 1000  # runs or lines that one transaction looks at
LOOKED_THROUGH = 20_000  # runs that one statement reads of a week that may go
PART_S = 60.0  # that a turn gives to each of its parts; the next turn goes on
HOLD_S = 60.0  # of the lock
REST = 4.0  # as many times as long as a piece took nothing is done
DROP_TRIES = 5
WEEK, DAY = 7, 1
DELIVERIES_HOURS = 168
LONG_ENOUGH = 4  # partitions' worth of days from which on whole partitions are waited for


class Turn:
    """One turn of pruning, for so long as its parts may take."""

    def __init__(
        self, conn: AsyncConn, settings: RetentionSettings, *, part_s: float = PART_S, batch: int = BATCH, rest: float = REST
    ) -> None:
        self._conn = conn
        self._settings = settings
        self._part_s = part_s
        self._batch = batch
        self._rest = rest
        self._owner = str(new_id())
        self._deadline = 0.0
        self._rules: Mapping[str, Rule] = {}
        self.pruned: Counter[str] = Counter()

    async def run(self) -> dict[str, int]:
        """Removes what is old, as far as the time goes; how much of what. Nothing when somebody else is at it."""
        self._rules = await store.rules(self._conn)
        for part in (
            self.drop_run_partitions,
            self.drop_log_partitions,
            self.prune_runs,
            self.prune_surplus,
            self.prune_lines,
            self.prune_orphans,
            self.prune_the_rest,
        ):
            if not await store.take_lock(self._conn, owner=self._owner, hold_s=HOLD_S + self._part_s):
                break
            self._deadline = monotonic() + self._part_s
            with contextlib.suppress(LockNotAvailable, DeadlockDetected):  # what somebody has locked is for the next turn
                await part()
        await store.give_lock(self._conn, owner=self._owner)
        return dict(self.pruned)

    def days_of(self, task: str) -> int:
        """How many days a task's runs are kept."""
        return self._rule(task).days or self._settings.runs_days

    def log_days_of(self, task: str) -> int:
        """How many days the lines of a task's logs are kept."""
        return self._rule(task).days or self._settings.logs_days

    @property
    def longest_days(self) -> int:
        """The days that every run is kept at most."""
        return max([self._settings.runs_days, *(rule.days for rule in self._rules.values() if rule.days)])

    @property
    def longest_log_days(self) -> int:
        """The same of lines."""
        return max([self._settings.logs_days, *(rule.days for rule in self._rules.values() if rule.days)])

    async def drop_run_partitions(self) -> None:
        """Drops whole weeks in which nothing is young enough, or needed, to be kept."""
        for partition in await store.partitions(self._conn, table="run", days=self.longest_days):
            if partition.attached:
                if await self._has_young(partition):
                    continue
                if not await self._briefly(lambda partition=partition: store.detach_runs(self._conn, partition)):  # type: ignore[misc]
                    continue
            await store.drop_detached(self._conn, partition, days=self.longest_days)
            self.pruned["weeks of runs"] += 1

    async def drop_log_partitions(self) -> None:
        """Drops whole days of logs."""
        for partition in await store.partitions(self._conn, table="log", days=self.longest_log_days):
            if await self._briefly(lambda partition=partition: store.drop_logs(self._conn, partition)):  # type: ignore[misc]
                self.pruned["days of logs"] += 1

    async def prune_runs(self) -> None:
        """Removes runs by their age, where no whole partition will go soon."""
        for task in await store.run_tasks(self._conn):
            days = self.days_of(task)
            # Runs that are older than all lines need no look for theirs.
            with_logs = days <= self.longest_log_days + DAY
            days = waiting_days(days, WEEK)
            await self._walk(
                "runs",
                lambda after, task=task, days=days, with_logs=with_logs: store.prune_runs(  # type: ignore[misc]
                    self._conn, task=task, after=after, days=days, with_logs=with_logs, batch=self._batch
                ),
            )

    async def prune_surplus(self) -> None:
        """Removes the runs of a task's older jobs beyond the number that is kept."""
        for task in await store.run_tasks(self._conn):
            count = self._rule(task).count or self._settings.runs_count
            upto = await store.surplus(self._conn, task=task, count=count) if count else None
            if upto is not None:
                await self._walk(
                    "runs",
                    lambda after, task=task, upto=upto: store.prune_surplus(  # type: ignore[misc]
                        self._conn, task=task, after=after, upto=upto, batch=self._batch
                    ),
                )

    async def prune_lines(self) -> None:
        """Removes lines of logs by their age, where no whole partition will go soon."""
        for task in await store.log_tasks(self._conn):
            days = waiting_days(self.log_days_of(task), DAY)
            for _ in self._pieces():
                started = monotonic()
                count = await store.prune_lines(self._conn, task=task, days=days, batch=self._batch)
                self.pruned["lines"] += count
                if count < self._batch:
                    break
                await self._pause(started)

    async def prune_orphans(self) -> None:
        """Removes lines of jobs of which nothing else is left."""
        await self._walk("lines", lambda after: store.prune_orphans(self._conn, after=after, batch=self._batch))

    async def prune_the_rest(self) -> None:
        """Edges, the ledgers of schedules, alerts, and who has changed what."""
        settings = self._settings
        limit = self._batch
        parts: list[tuple[str, Callable[[], Awaitable[int]]]] = [
            ("edges", lambda: store.prune_edges(self._conn, days=self.longest_days, batch=limit)),
            ("occurrences", lambda: schedules.prune(self._conn, days=settings.occurrences_days, limit=limit)),
            ("alerts", lambda: alerts.prune(self._conn, days=settings.alerts_days, limit=limit)),
            ("audit", lambda: audit.prune(self._conn, days=settings.audit_days, limit=limit)),
        ]
        for what, prune in parts:
            for _ in self._pieces():
                started = monotonic()
                count = await prune()
                self.pruned[what] += count
                if count < limit:
                    break
                await self._pause(started)

    async def _walk(self, what: str, piece: Callable[[UUID], Awaitable[Step]]) -> None:
        after = NO_ID
        for _ in self._pieces():
            started = monotonic()
            try:
                step = await piece(after)
            except (LockNotAvailable, DeadlockDetected):
                return  # the next turn comes by again
            self.pruned[what] += step.pruned
            if step.reached is None:
                return
            after = step.reached
            await self._pause(started)

    async def _has_young(self, partition: Partition) -> bool:
        after: tuple[UUID, int] | None = (NO_ID, 0)
        while after is not None:
            started = monotonic()
            young, after = await store.look_through(
                self._conn, partition, after=after, days=self.longest_days, batch=LOOKED_THROUGH
            )
            if young:
                return True
            await self._pause(started)
        return False

    async def _briefly(self, change: Callable[[], Awaitable[bool]]) -> bool:
        """Tries a change that nobody may be in the way of, and that must not be in the way of others for long, a few times."""
        for _ in range(DROP_TRIES):
            try:
                return await change()
            except (LockNotAvailable, DeadlockDetected):
                await asyncio.sleep(0.2)
        return False

    def _pieces(self) -> Iterator[None]:
        yield  # at least one, however late it is: every turn gets somewhere
        while monotonic() < self._deadline:
            yield

    async def _pause(self, started: float) -> None:
        await asyncio.sleep(self._rest * (monotonic() - started))

    def _rule(self, task: str) -> Rule:
        return self._rules.get(task) or Rule()


def waiting_days(days: int, partition_days: int) -> int:
    """The age at which single rows go. Where history is kept long, it waits for its whole partition to go, which costs nothing."""
    return days + partition_days if days >= LONG_ENOUGH * partition_days else days


async def prune(conn: AsyncConn, settings: RetentionSettings | None = None) -> dict[str, int]:
    """One turn: removes old history for a bounded time, and says how much of what."""
    return await Turn(conn, settings or RetentionSettings()).run()


async def prune_deliveries(conn: AsyncConn, *, hours: int = DELIVERIES_HOURS) -> int:
    """Removes the records of messages to webhooks that are older than so many hours, for a bounded time; how many.

    The one who calls it is the task `webhook_delivery_prune`, or the server where nobody runs tasks. Any number at once are safe.
    """
    pruned, deadline = 0, monotonic() + PART_S
    while True:
        started = monotonic()
        async with conn.transaction():  # a piece each, also on a connection that does not commit by itself
            count = await webhooks.prune(conn, hours=hours, limit=BATCH)
        pruned += count
        if count < BATCH or monotonic() >= deadline:
            return pruned
        await asyncio.sleep(REST * (monotonic() - started))
