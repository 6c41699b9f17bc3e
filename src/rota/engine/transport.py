"""The seam between the engine and what holds the jobs: nothing else of the engine knows how they are stored.

A worker's parts each open a session and work on it until it breaks. A session says which jobs it hands out (`claim`), takes in how
their runs ended (`complete`, `finish`), takes them back (`release`), and knows what others have left behind (`rescue`). The pulse
is the worker's sign of life, from a thread. The publisher stores new jobs, in the caller's own transaction where there is one.

Every word about a run carries the fence that its claim was given (`Run.token`): what another has taken over meanwhile is not
changed by it. `rota.engine.postgres` is the one implementation; tests/engine/transport_contract.py is what another would have to
pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal, Protocol
from uuid import UUID

from rota.db.connection import AsyncConn
from rota.model.job import Enqueued, NewJob
from rota.model.limits import NO_LIMITS, Limited, QueueLimits
from rota.model.position import START, Position
from rota.model.run import Run
from rota.model.task import TaskSpec

# What an error of a session means: somebody else has the job just now; what was said of the run cannot be stored; this session
# may not do that; or the session is of no more use.
Fault = Literal["locked", "refused", "denied", "lost"]

Rescued = tuple[UUID, str, str, int, UUID, str]  # job, task, queue, attempt, worker, new state

# Jobs that have waited too long for a worker that can run them: queue, task, versions that refused them, set aside until.
Overdue = tuple[str, str, list[str], datetime]


class Session(Protocol):
    """A worker's line to the jobs, for one part of it at a time."""

    @property
    def conn(self) -> AsyncConn:
        """A connection for what the control plane keeps in PostgreSQL, wherever the jobs are; nothing is asked about jobs on it."""

    def answer_within(self, seconds: float) -> AbstractContextManager[None]:
        """Cuts the line unless the block ends in time."""

    def fault_of(self, error: BaseException) -> Fault:
        """What an error that a method has raised means."""

    async def close(self) -> None:
        """Ends the session, without waiting for a peer that may be gone."""

    # Work

    async def claim(self, queue: str, limit: int, *, lease_s: float, after: Position = START, now: float = 0.0) -> list[Run]:
        """Hands out up to `limit` ready jobs of a queue whose tasks the worker knows, in their order, each to one worker only.
        `after` is a hint where in that order to begin, `now` the monotonic time of the call."""

    async def promote(self) -> tuple[int, float | None, Limited]:
        """Makes ready what is due and within its limits; says how many, in how many seconds to look again, and what has limits."""

    async def set_aside(self, queue: str) -> int:
        """Take some jobs that no claim hands out, of disabled tasks and of tasks that no live worker knows, out of the way of
        claims; return how many."""

    async def take_back(self, queues: Collection[str], *, free: int) -> int:
        """Put some jobs back in line that were set aside and that this worker can run; of those that another version has refused up
        to `free`. Return how many."""

    async def overdue_unknown(self, patience_s: float) -> list[Overdue]:
        """Note that the worker's application is live; return the tasks whose jobs that were set aside
        until then have waited for `patience_s` while it was."""

    async def task_names(self) -> list[str]:
        """The names of all tasks that some code has."""

    async def fail_unknown(self, overdue: Overdue, error: Mapping[str, Any]) -> int:
        """Fail some jobs of a task that no live worker knows; return how many."""

    async def hold_back(self, runs: Sequence[Run]) -> None:
        """Takes back unstarted jobs, uncharged, to wait for a place within a limit."""

    async def cancel_requested(self) -> list[tuple[str, int]]:
        """The (id, token) of this worker's jobs that somebody wants to stop."""

    # Wake-ups are hints: they may be lost, or come for nothing.

    async def listen(self) -> bool:
        """Prepares to be woken; False where that cannot be, and one has to look now and then."""

    async def want_wake(self, wants_wake: bool) -> None:
        """Says whether new jobs should wake this worker."""

    async def wait_for_wake(self, seconds: float) -> bool:
        """Waits for a wake-up, no longer than that; says whether there was one."""

    # Endings

    async def complete(self, runs: Sequence[Run], *, scheduled: bool = False) -> set[str]:
        """Records completions, of schedules' jobs or of others; the ids of those that were not recorded, and why not `finish`
        will tell."""

    async def finish(self, runs: Sequence[Run]) -> dict[str, str | None]:
        """Records endings of any kind, by `Run.outcome`: the new state of each job by id, None where the lease was lost. What was
        recorded before, because the answer did not arrive, is said again."""

    async def locked(self, runs: Sequence[Run]) -> set[str]:
        """The ids of those whose jobs somebody has locked now."""

    async def release(self, runs: Sequence[Run]) -> None:
        """Takes back unstarted jobs, uncharged, and wakes who may want them."""

    async def release_unknown(self, known: Collection[str], *, older_than_s: float) -> int:
        """Takes back claims of this worker whose answer never arrived; says how many."""

    # What others have left behind

    async def missing(self, *, restart_grace_s: float) -> set[tuple[UUID, str]]:
        """Workers that should be alive and whose pulse's session is gone, with that session."""

    async def stopped_holding(self) -> list[UUID]:
        """Workers that have ended and still hold jobs."""

    async def rescue(self, dead: Sequence[UUID], *, batch: int) -> list[Rescued]:
        """Takes jobs from dead workers and from others whose lease ran out."""

    async def stop_dead(self, worker: UUID) -> bool:
        """Marks a worker as dead, once its jobs are rescued; False if it was marked already."""

    async def forget_keys(self, *, limit: int) -> int:
        """Removes up to `limit` keys that protect nothing any more; says how many."""

    async def tidy(self) -> None:
        """Makes room for what comes and forgets workers and edits that are long gone."""


class Pulse(Protocol):
    """A worker's sign of life, and the renewal of its leases; used from a thread."""

    def beat(self) -> Literal["alive", "called dead"] | None:
        """Says that the worker lives, and what was thought of it so far; None if it is not known."""

    def register(
        self,
        specs: Sequence[TaskSpec],
        *,
        app: str,
        queues: Sequence[str],
        slots: int,
        limits: Mapping[str, QueueLimits] = NO_LIMITS,
    ) -> None:
        """Makes the worker known, and what it can run, of which application; again is harmless."""

    def renew(self, runs: Sequence[Run], *, lease_s: float) -> tuple[set[str], set[str]]:
        """Extends the leases of these runs; the ids of those that were, and of those that are no longer ours."""

    def stop(self, reason: str) -> None:
        """Writes down that the worker has ended."""

    def fileno(self) -> int:
        """What becomes readable when the other side has something to say unasked: as a rule, good-bye."""

    def probe(self) -> None:
        """Asks whether the other side is there."""

    def cut(self) -> None:
        """Ends what waits for an answer, from another thread: it fails at once."""


class Transport(Protocol):
    """Where a worker's sessions come from."""

    async def open(self, name: str) -> Session:
        """A session for the part of the worker with this name."""

    def open_pulse(self) -> AbstractContextManager[Pulse]:
        """The worker's pulse."""


class Publisher(Protocol):
    """Stores new jobs: `conn` is a connection of the caller's, whose transaction they become part of."""

    def insert(self, job: NewJob, conn: Any = None) -> Enqueued:
        """Stores one job, or finds the one that has its key."""

    async def ainsert(self, job: NewJob, conn: Any = None) -> Enqueued:
        """Like `insert`, from an event loop."""

    def insert_many(self, new: Iterable[NewJob], conn: Any = None) -> list[Enqueued]:
        """Stores all or none."""

    async def ainsert_many(self, new: Iterable[NewJob], conn: Any = None) -> list[Enqueued]:
        """Like `insert_many`, from an event loop."""
