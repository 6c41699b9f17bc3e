"""Enqueues the jobs of schedules when they are due; any number of schedulers may do so at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from uuid import UUID

from psycopg import DataError, IntegrityError
from psycopg.errors import RaiseException

from rota.db.connection import AsyncConn, answer_within
from rota.errors import UsageError
from rota.events import DeadlineMissed, Events, ScheduleFailing, ScheduleRefused, SchedulesFired
from rota.model.firing import Firing, plan
from rota.model.ids import new_id
from rota.model.task import DEFAULT_APP
from rota.store import schedules as store
from rota.store.schedules import Due, Fired

ANSWER_WITHIN_S = 30.0
BATCH = 100  # schedules that are fired in one transaction
INSTANTS = 1000  # the same of instants, about: after an outage a schedule may have many
RECURRING_BATCH = 500
LOCKED_AGAIN_S = 0.1  # until rows that somebody's transaction has locked are looked at again
HEAL_BATCH = 5000
SHORTEST_HOLD_S = 10.0  # of the lock: when its owner dies, that long nobody is at work
NO_ID = UUID(int=0)

NOT_STORABLE = (DataError, IntegrityError, RaiseException)  # what the database says to a job that it does not take


class Scheduler:
    """Sleeps until the next schedule is due, fires it, and now and then looks at everything else (the tick)."""

    name = "scheduler"

    def __init__(
        self, events: Events, *, apps: Sequence[str] = (DEFAULT_APP,), tick_s: float = 15.0, look_s: float = 1.0, lock: bool = False
    ) -> None:
        self._events = events
        self._apps = list(apps)  # whose schedules it fires, beside those of tasks that belong to no application
        self._tick_s = tick_s
        self._look_s = look_s  # schedules made meanwhile by others are found at the next look
        self._lock = lock
        self._owner = str(new_id())
        self._tick_at = 0.0
        self._healed = NO_ID

    async def serve(self, conn: AsyncConn) -> None:
        """Schedules on this connection until it breaks."""
        while True:
            with answer_within(conn, ANSWER_WITHIN_S):
                if not await self._may_work(conn):
                    rest_s = self._look_s
                elif monotonic() >= self._tick_at:
                    self._tick_at = monotonic() + self._tick_s  # whatever comes of it: what is due must not wait for it
                    await self.look_around(conn)
                    continue
                # Asked before, not after: what becomes due between the two would look as if somebody had it locked.
                elif (next_s := await store.next_s(conn, apps=self._apps)) is None or next_s > 0:
                    rest_s = self._rest_s(next_s)
                elif (await self.run_once(conn)).schedules:
                    continue
                else:
                    rest_s = LOCKED_AGAIN_S
            await asyncio.sleep(rest_s)

    def _rest_s(self, next_s: float | None) -> float:
        limit_s = min(self._look_s, max(self._tick_at - monotonic(), 0.0))
        return limit_s if next_s is None else min(next_s, limit_s)

    async def tick(self, conn: AsyncConn) -> int:
        """Does all there is to do now, once, for those who drive scheduling from outside; how many jobs that made."""
        made = 0
        if await self._may_work(conn):
            await self.look_around(conn)
            while (fired := await self.run_once(conn)).schedules:
                made += fired.jobs
        return made

    async def run_once(self, conn: AsyncConn) -> Fired:
        """Fires some of what is due."""
        done = await self._fire_due(conn)
        # In turn, so that a million recurring rows do not make the others late.
        recurring, made = await store.fire_recurring(conn, apps=self._apps, limit=RECURRING_BATCH)
        done = Fired(done.schedules + recurring, done.jobs + made, done.skipped + recurring - made)
        if done.schedules:
            self._events.emit(SchedulesFired(*done))
        return done

    async def look_around(self, conn: AsyncConn) -> None:
        """The rest of a tick: next times that are to be computed, deadlines, what was left behind."""
        await self._plan_unplanned(conn)
        for missed in await store.missed_deadlines(conn):
            self._events.emit(DeadlineMissed(missed.name, missed.task, missed.instant, missed.job_id, missed.deadline, missed.due))
        for row in await store.newly_failing(conn):
            self._events.emit(ScheduleFailing(*row))
        reached, _ = await store.heal(conn, after=self._healed, limit=HEAL_BATCH)
        self._healed = reached or NO_ID

    async def _may_work(self, conn: AsyncConn) -> bool:
        hold_s = max(SHORTEST_HOLD_S, 3 * self._look_s)
        return not self._lock or await store.take_lock(conn, owner=self._owner, hold_s=hold_s)

    async def _fire_due(self, conn: AsyncConn) -> Fired:
        async with conn.transaction():
            due = await store.due(conn, apps=self._apps, limit=BATCH)
            if not due:
                return Fired(0, 0, 0)
            planned, refused = await self._planned(conn, due)
            try:
                async with conn.transaction():
                    fired = [await store.fire(conn, planned)]
            except NOT_STORABLE:
                fired = [await self._fire_one(conn, each) for each in planned]
            return Fired(*map(sum, zip((refused, 0, 0), *fired, strict=True)))

    async def _fire_one(self, conn: AsyncConn, planned: tuple[Due, Firing]) -> Fired:
        """Fires one of several that could not be fired together: what is to blame is switched off, the others go on."""
        try:
            async with conn.transaction():
                return await store.fire(conn, [planned])
        except NOT_STORABLE as error:
            await self._refuse(conn, planned[0].id, str(error).partition("\n")[0])
            return Fired(1, 0, 0)

    async def _planned(self, conn: AsyncConn, due: Sequence[Due]) -> tuple[list[tuple[Due, Firing]], int]:
        """What to do about these, or as many of them as one transaction should do; and how many make no sense."""
        planned: list[tuple[Due, Firing]] = []
        instants = refused = 0
        for each in due:
            if instants >= INSTANTS:
                break
            try:
                firing = plan(each.timing, each.due, each.now)
            except UsageError as error:
                await self._refuse(conn, each.id, str(error))
                refused += 1
            else:
                planned.append((each, firing))
                instants += len(firing.fire)
        return planned, refused

    async def _plan_unplanned(self, conn: AsyncConn) -> None:
        last = NO_ID
        while True:
            async with conn.transaction():
                found = await store.unplanned(conn, after=last, limit=BATCH)
                for id, since, timing in found:
                    try:
                        next = since if timing.strategy == "recurring" else timing.first(since)
                    except UsageError as error:
                        await self._refuse(conn, id, str(error))
                    else:
                        if next is not None:
                            await store.plan(conn, id=id, next=next)
            if len(found) < BATCH:
                return
            last = found[-1][0]

    async def _refuse(self, conn: AsyncConn, id: UUID, why: str) -> None:
        self._events.emit(ScheduleRefused(await store.refuse(conn, id=id, why=why), why))
