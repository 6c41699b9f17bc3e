"""What every part of the control plane stands on: who acts, what they may, a connection, and the record of what was changed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import psycopg

from rota.control.access import Actor, Policy, check
from rota.db.carriers import AsyncPsycopgCarrier
from rota.db.steps import Steps, carry_out_async
from rota.errors import Conflict, Forbidden
from rota.lazy import Lazy
from rota.store import jobs_change

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from rota.config import Settings
    from rota.control import audit
    from rota.db.connection import AsyncConn
    from rota.model.limits import QueueLimits
    from rota.model.task import TaskSpec
    from rota.store.intake import Intake
else:  # each is loaded by the first who asks for it: a command needs one noun of many
    audit = Lazy("rota.control.audit")

Result = TypeVar("Result")

APPLICATION = Actor("application", "admin")  # code that has the application's object at hand has its database, too


class Application(Protocol):
    """What the control plane must know of the code it belongs to."""

    name: str

    @property
    def settings(self) -> Settings:
        """What it is configured with."""

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """Its tasks by name."""

    @property
    def queues(self) -> Mapping[str, int]:
        """Its queues with their weights."""

    @property
    def queue_limits(self) -> Mapping[str, QueueLimits]:
        """What it says of the limits of queues."""

    def definitions(self) -> list[TaskSpec]:
        """Its tasks and Rota's own."""


class Plane:
    """Every method of a part raises Forbidden when the actor may not do it, and then nothing was asked."""

    def __init__(self, app: Application, intake: Intake, policy: Policy, actor: Actor = APPLICATION) -> None:
        self.actor = actor
        self._app = app
        self._intake = intake
        self._policy = policy

    def acting_as(self, actor: Actor) -> Self:
        """The same for somebody else: a user of the dashboard, a holder of a token."""
        return type(self)(self._app, self._intake, self._policy, actor)

    def may(self, operation: str) -> bool:
        """Whether the actor may do this, to show no button that would not work."""
        try:
            self.require(operation)
        except Forbidden:
            return False
        return True

    def require(self, operation: str) -> None:
        """Forbidden unless the actor may do this."""
        check(self._policy, self.actor, operation)

    @asynccontextmanager
    async def _own(self) -> AsyncIterator[AsyncConn]:
        """A connection for what everybody has of their own."""
        async with self._intake.aconnection() as conn:
            yield conn

    @asynccontextmanager
    async def _for(self, operation: str) -> AsyncIterator[AsyncConn]:
        """A connection, if the actor may do this."""
        self.require(operation)
        try:
            async with self._intake.aconnection() as conn:
                if operation.endswith(".read"):
                    async with conn.transaction():
                        await jobs_change.look_briefly(conn)
                        yield conn
                else:
                    yield conn
        except psycopg.errors.InsufficientPrivilege as error:
            message = f"the database's user may not do {operation}: {error}; `rota migrate grant` gives it the right"
            raise Forbidden(message) from error

    @asynccontextmanager
    async def _changing(self, operation: str) -> AsyncIterator[AsyncConn]:
        """A transaction for a change and the record of it, if the actor may do this."""
        try:
            async with self._for(operation) as conn, conn.transaction():
                await jobs_change.wait_a_moment(conn)
                yield conn
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            raise Conflict("another transaction is changing the same thing: try again when that has ended") from error

    async def record(self, conn: AsyncConn, operation: str, target: object, **detail: Any) -> None:
        """Write to the audit what the actor has done in an application's own tables, in the transaction of the change."""
        await self._record(conn, operation, target, **detail)

    async def _record(self, conn: AsyncConn, operation: str, target: object, **detail: Any) -> None:
        """Writes down what the actor has done; what is None is not worth telling."""
        told = {name: value for name, value in detail.items() if value is not None}
        await audit.record(conn, self.actor, operation, str(target), told)

    async def _carry_out(self, conn: AsyncConn, steps: Steps[Result]) -> Result:
        return await carry_out_async(AsyncPsycopgCarrier(conn), steps)
