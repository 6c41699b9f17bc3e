"""Claims jobs for the slots: as many as can start now, and a little ahead when jobs are quick."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from time import monotonic
from types import MappingProxyType

from rota.engine.completer import Completer
from rota.engine.holdings import Holdings
from rota.engine.options import WorkerOptions
from rota.engine.transport import Session
from rota.events import Events, RunsClaimed
from rota.model.limits import Limited
from rota.model.position import START, Position
from rota.model.run import Run

ANSWER_WITHIN_S = 10.0  # a claim never waits for locks: one that takes longer has lost its server
SWEEP_COST = 20  # a claim from the very beginning may take one part in this of the time
SWEEP_AT_LEAST_EVERY_S = 5.0
POLL_BUSY_S = 0.005  # how often to look while jobs keep coming, at most
LOOK_COST = 5  # such looks, at all queues, may take one part in this of the time
BUSY_FOR_S = 0.25  # no job for this long: ask to be woken instead
BUSY_CLAIMS = 25  # this many claims with work in that time: stop asking to be woken, which is quicker for who comes now and then
FIRST_LOOK_S = 0.02  # after falling asleep, doubled at each further look
LOOK_ASIDE_S = 0.05  # how soon a worker whose own slots are busy looks for jobs that have slots beside them, doubled each time
LOOK_ASIDE_AT_LEAST_EVERY_S = 0.25
PACE_ASIDE_S = 0.005  # further slots become free one by one: a moment later there are some to be filled by one claim
LOOK_FOR_HELD_S = 0.05  # how often a busy worker, which is not woken, looks for jobs that came in held by a limit

NOTHING: Mapping[str, int] = MappingProxyType({})


class Queue:
    """A queue's claim position.

    Claims start where the last one ended, because dead index entries before that point are what makes claims slow when an
    old snapshot keeps them from being vacuumed. What was committed late, or has a higher priority, lies before that point and
    is found by a sweep from the beginning; sweeps are as frequent as they are cheap.
    """

    def __init__(self, name: str, weight: int) -> None:
        self.name = name
        self.weight = weight
        self.sweep_at = 0.0
        self.unswept = False  # the last claim looked only at what lies after the position
        self._after: Position | None = None

    async def claim(self, session: Session, limit: int, lease_s: float) -> list[Run]:
        """Takes up to `limit` jobs."""
        started = monotonic()
        sweep = self._after is None or started >= self.sweep_at
        after = START if sweep or self._after is None else self._after
        with session.answer_within(ANSWER_WITHIN_S):
            runs = await session.claim(self.name, limit, lease_s=lease_s, after=after, now=started)
        self.unswept = not sweep
        if sweep:
            ended = monotonic()
            self.sweep_at = ended + min((ended - started) * SWEEP_COST, SWEEP_AT_LEAST_EVERY_S)
        if runs:
            last = Position(runs[-1].priority, runs[-1].run_at, runs[-1].id)
            # A sweep that comes back full is in the middle of something that was let go late, say of a task that was disabled.
            is_behind = sweep and len(runs) == limit
            self._after = last if self._after is None or self._after < last or is_behind else self._after
        return runs


class Claimer:
    """Keeps the slots supplied from the queues, and rests when there is nothing to do."""

    name = "claimer"

    def __init__(
        self, options: WorkerOptions, holdings: Holdings, completer: Completer, events: Events,
        pace_s: Callable[[], float | None], limited: Collection[str],
    ) -> None:  # fmt: skip
        self.in_flight = False  # a claim has been sent and its answer not been taken in
        self._options = options
        self._holdings = holdings
        self._completer = completer
        self._events = events
        self._pace_s = pace_s
        self._limited = limited  # tasks of ours that have limits
        self._limits = Limited()  # as of the last look, of all
        self._queues = [Queue(name, weight) for name, weight in options.queues.items()]
        self._promote_at = 0.0
        self._wakes = True  # this session can be woken
        self._wants_wake: bool | None = None  # what was said about it
        self._found = deque([0.0], maxlen=BUSY_CLAIMS)  # when the last claims with work were
        self._looked_s = 0.0  # how long the last look at all queues took
        self._looks = 0
        self._looks_aside = 0
        self._woken = False

    async def serve(self, session: Session) -> None:
        """Claims on this session until it breaks."""
        self._wants_wake = None
        # A claim may have been granted on a session that broke before it could say so.
        with session.answer_within(ANSWER_WITHIN_S):
            await session.release_unknown(self._holdings.held.keys(), older_than_s=0)
            self._wakes = await session.listen()
        while True:
            await self._promote(session)
            self._holdings.room.clear()
            want = self._room()
            aside = self._room_aside()
            if want == 0 and not aside:
                await self._wait_for_room()
            elif await self.run_once(session, want, aside):
                await self._stay_awake(session)
                if aside and self._holdings.idle_slots:
                    await asyncio.sleep(PACE_ASIDE_S)
            elif want == 0:
                # The worker's own slots are busy, but for how long?
                await self._wait_for_room(min(LOOK_ASIDE_S * 2.0**self._looks_aside, LOOK_ASIDE_AT_LEAST_EVERY_S))
                self._looks_aside = min(self._looks_aside + 1, 20)
            else:
                await self._rest(session)

    async def run_once(self, session: Session, want: int, aside: Mapping[str, int] = NOTHING) -> bool:
        """Claims up to `want` jobs, and from queues that `aside` names so many more; says whether there may be more still."""
        started = monotonic()
        found = 0
        is_full = found_any = False
        beyond = dict(aside)
        exhausted = set()
        for queue, share in self._shares(want):
            further = beyond.pop(queue.name, 0)
            own = max(min(share, want - found), 0)
            taken = self._holdings.take_from_aside(queue.name, own)
            found += taken
            limit = min(own - taken + further, self._options.claim_batch)
            if limit <= 0 or queue in exhausted:
                continue
            self.in_flight = True
            try:
                runs = await queue.claim(session, limit, self._options.lease_s)
                claimed = len(runs)
                if any(self._limits):
                    runs = await self._hold_back(session, runs)
                found += claimed - self._holdings.add(runs)
            finally:
                self.in_flight = False
            if claimed < limit:
                exhausted.add(queue)
            is_full = is_full or (further > 0 and claimed == limit)
            found_any = found_any or claimed > 0
            if runs:
                self._events.emit(RunsClaimed(queue.name, runs))
                await asyncio.sleep(0)  # they start now, not when the next statement is on its way
        ended = monotonic()
        self._looked_s = ended - started
        if found_any:
            self._found.append(ended)
            self._looks = self._looks_aside = 0
        return is_full or (found >= want and want > 0)

    async def _hold_back(self, session: Session, runs: list[Run]) -> list[Run]:
        """Puts back jobs that were enqueued before their task or queue had its limit: they wait for a place like the others."""
        limits = self._limits
        if limits.tasks.isdisjoint({run.task for run in runs}) and limits.queues.isdisjoint({run.queue for run in runs}):
            return runs
        strays = [run for run in runs if limits.concerns(run.task, run.queue) and not run.limited]
        if not strays:
            return runs
        with session.answer_within(ANSWER_WITHIN_S):
            await session.hold_back(strays)
        self._promote_at = 0.0
        return [run for run in runs if run.limited or not limits.concerns(run.task, run.queue)]

    def _shares(self, want: int) -> list[tuple[Queue, int]]:
        """Which queues to ask for how many: first each for its share by weight, in a random order by weight, then for the rest."""
        if len(self._queues) == 1:
            return [(self._queues[0], want)]
        total = sum(queue.weight for queue in self._queues)
        order = sorted(self._queues, key=lambda queue: random.random() ** (1 / queue.weight), reverse=True)
        return [(queue, max(want * queue.weight // total, 1)) for queue in order] + [(queue, want) for queue in order]

    def _room(self) -> int:
        """How many jobs to claim now: what the slots can start, and what they will have started in a moment."""
        options, holdings = self._options, self._holdings
        if self._is_behind:
            return 0
        pace_s = self._pace_s()
        ahead = 0
        if pace_s is not None and pace_s < options.claim_ahead_s:
            ahead = min(int(options.concurrency * options.claim_ahead_s / max(pace_s, 1e-6)), 2 * options.claim_batch)
        holdings.low_water = ahead // 2
        if len(holdings.unstarted) > holdings.low_water:
            return 0
        return max(min(holdings.idle_slots + ahead - len(holdings.unstarted), options.claim_batch), 0)

    def _room_aside(self) -> Mapping[str, int]:
        if not self._holdings.lanes or self._is_behind:
            return NOTHING
        return self._holdings.room_aside(self._options.claim_ahead_s, self._options.claim_batch)

    @property
    def _is_behind(self) -> bool:
        """Whether more have ended than can be written down."""
        return self._completer.backlog > 4 * self._options.claim_batch

    async def _wait_for_room(self, at_most_s: float = math.inf) -> None:
        # With a limit, because delayed jobs become due for other workers too while this one is full.
        try:
            async with asyncio.timeout(max(min(self._promote_at - monotonic(), at_most_s), 0.001)):
                await self._holdings.room.wait()
        except TimeoutError:
            pass

    async def _promote(self, session: Session) -> None:
        if (now := monotonic()) < self._promote_at:
            return
        with session.answer_within(ANSWER_WITHIN_S):
            promoted, next_s, self._limits = await session.promote()
        interval = self._options.poll_interval_s
        if self._wants_wake is False and self._has_limits:
            interval = min(interval, LOOK_FOR_HELD_S)
        self._promote_at = now if promoted else now + (interval if next_s is None else min(next_s, interval))

    def _is_busy(self) -> bool:
        return len(self._found) == BUSY_CLAIMS and monotonic() - self._found[0] < BUSY_FOR_S

    async def _stay_awake(self, session: Session) -> None:
        """There is more than can be taken: nobody needs to wake us."""
        if self._wants_wake is not False and self._is_busy():
            await self._set_wants_wake(session, False)

    async def _rest(self, session: Session) -> None:
        """There was less than asked for. While jobs keep coming, look again soon; else ask to be woken and wait."""
        if self._woken:
            # It may have been for a job that is due later, or held: find out. Now, and not before the claim, which is urgent.
            self._woken, self._promote_at = False, 0.0
        elif not self._wakes:
            if monotonic() - self._found[-1] < BUSY_FOR_S:
                await self._pause()
            else:
                await asyncio.sleep(self._bounded(self._options.poll_interval_s))
        elif self._is_busy() or (self._wants_wake is False and monotonic() - self._found[-1] < BUSY_FOR_S):
            if self._wants_wake is not False:
                await self._set_wants_wake(session, False)
            await self._pause()
        elif not self._wants_wake:
            # The claim that follows finds what was committed before anybody could know that we wish to be woken.
            await self._set_wants_wake(session, True)
        else:
            # A transaction that looked before we asked may commit any time now: look a few times before trusting the wake-up.
            look_s = min(FIRST_LOOK_S * 2.0**self._looks, self._options.poll_interval_s)
            self._looks = min(self._looks + 1, 20)
            await self._wait_for_wake(session, self._bounded(look_s))
            if not self._woken:
                self._look_for_held()

    def _look_for_held(self) -> None:
        """Jobs that nobody may have told us of are found by the next claim, but for those that are held."""
        if self._has_limits:
            self._promote_at = 0.0

    @property
    def _has_limits(self) -> bool:
        return bool(self._limited) or not self._limits.queues.isdisjoint(self._options.queues)

    async def _set_wants_wake(self, session: Session, wants_wake: bool) -> None:
        with session.answer_within(ANSWER_WITHIN_S):
            await session.want_wake(wants_wake)
        self._wants_wake = wants_wake
        self._look_for_held()

    def _bounded(self, seconds: float) -> float:
        """No longer than until the next delayed job is due or the next sweep is allowed."""
        now = monotonic()
        due = [self._promote_at, *(queue.sweep_at for queue in self._queues if queue.unswept)]
        return max(min(seconds, min(due) - now), 0.001)

    async def _pause(self) -> None:
        """Between looks while jobs keep coming: the longer a look takes, for many queues or a busy server, the fewer there are.

        Sweeps have no say in it: the next look is soon, and sweeps where that is allowed by then.
        """
        pause_s = min(max(self._looked_s * (LOOK_COST - 1), POLL_BUSY_S), BUSY_FOR_S)
        await asyncio.sleep(max(min(pause_s, self._promote_at - monotonic()), 0.001))

    async def _wait_for_wake(self, session: Session, seconds: float) -> None:
        if await session.wait_for_wake(seconds):
            self._woken = True
