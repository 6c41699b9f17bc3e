"""What every route of a server has at hand: the application, its settings, the control plane, connections."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import Depends
from starlette.requests import Request

from rota.config import Settings
from rota.control.access import Access, Actor
from rota.control.audit import Entry, record_many
from rota.control.plane import ControlPlane
from rota.db.connection import AsyncConn
from rota.db.failures import explained
from rota.db.pool import Haste, Pools
from rota.errors import ConfigError
from rota.model.job import Enqueued, NewJob
from rota.server.background import Background
from rota.server.holders import Holders
from rota.server.hub import Hub
from rota.server.jwts import Signer
from rota.server.mail import Outbox, transport_of
from rota.server.readiness import Readiness
from rota.server.refusals import Refusals
from rota.server.scraping import Gauges
from rota.server.together import Together
from rota.server.tracing import Requests
from rota.store.intake import Intake
from rota.store.servers import RunningServer

if TYPE_CHECKING:
    from rota.app import Rota

CREATED = "http_jobs.create"
SYSTEM = Actor("server", "system")
POOLED_S = 30.0
SLACK_S = 3.0
WAIT_S = 3.0  # for a free connection: whoever asks is told to come back, rather than kept waiting


class Arrival(NamedTuple):
    """A user's new HTTP job, and what the audit says of it."""

    job: NewJob
    actor: Actor
    detail: dict[str, Any]


class State:
    """What belongs to one server; `state_of(request)`, or a route's parameter of the type `Server`."""

    def __init__(self, app: Rota, settings: Settings) -> None:
        self.app = app
        self.settings = settings  # with an auth.secret, whatever the application's own say
        self.address: RunningServer | None = None  # unknown where another program listens for us
        self.inherited = False  # whether the socket there belongs to another process
        self.draining = False  # told to stop: /readyz says so
        self.connections = Pools(settings.database, name="server", haste=_haste(settings))
        intake = Intake(self.connections, app.queues, app.queue_limits)
        self.control = ControlPlane(app, intake, app.access or Access.of(settings), SYSTEM)
        server = settings.server
        self.hub = Hub(
            settings.database, app.events, most_clients=server.stream_clients, most_per_account=server.stream_clients_per_account
        )
        self.requests = Requests()
        self.gauges = Gauges(self)
        self.readiness = Readiness(self)
        self.background: Background | None = None  # from the start on
        self.on_broken: Callable[[], None] = self.stop  # what to do when the worker inside has ended by itself
        self.signer = Signer(settings.auth.secret or "", app.name)
        self.outbox = Outbox(transport_of(settings))
        self.holders = Holders(self.connection)
        self.arrivals: Together[Arrival, Enqueued] = Together(self._store)
        self.refusals = Refusals()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConn]:
        """A connection that commits each statement, and gives up a statement after server.statement_timeout_ms."""
        with explained:
            async with self.connections.async_connection() as conn:
                yield conn

    async def _store(self, arrivals: Sequence[Arrival]) -> list[Enqueued]:
        async with self.connection() as conn, conn.transaction():
            stored = await self.app.aenqueue_many([each.job for each in arrivals], conn=conn)
            rows = zip(stored, arrivals, strict=True)
            await record_many(conn, [Entry.of(each.actor, CREATED, str(job.id), each.detail) for job, each in rows])
            return stored

    def start(self) -> None:
        """Begins what goes on beside the requests."""
        self.background = Background(self, lambda: self.on_broken())

    def drain(self) -> None:
        """Report not ready and let the worker inside drain; requests and streams go on. Called again, it gives up its jobs."""
        self.draining = True
        if self.background is not None:
            self.background.stop()

    async def drained(self) -> None:
        """Wait until the worker inside has ended; return at once if there is none."""
        if self.background is not None and self.background.worker is not None:
            await self.background.worker.wait()

    def stop(self) -> None:
        """Drain, and end the streams, which would not end by themselves."""
        self.drain()
        self.hub.end_streams()

    async def aclose(self) -> None:
        """Waits for the worker inside, lets mails that are on their way go out, and closes the connections."""
        self.draining = True
        await self.hub.aclose()
        if self.background is not None:
            await self.background.aclose()
        await self.outbox.aclose()
        await self.connections.aclose()


def _haste(settings: Settings) -> Haste:
    # Lists have a limit of their own where a session cannot have one.
    longest_s = POOLED_S if settings.database.pooled else settings.server.statement_timeout_ms / 1000
    return Haste(WAIT_S, settings.server.statement_timeout_ms, longest_s + SLACK_S)


def state_of(request: Request) -> State:
    """The state of the server that a request came to."""
    state: State = request.app.state.rota
    return state


async def given_state(request: Request) -> State:
    """The same as a dependency: one that is not async would be called in a thread, which takes longer than all the rest."""
    return state_of(request)


Server = Annotated[State, Depends(given_state)]


def with_secret(settings: Settings) -> Settings:
    """The settings with something to sign tokens with; where app.env is `local` it is made up, for this process only."""
    if settings.auth.secret is not None:
        return settings
    if settings.app.env != "local":
        raise ConfigError(
            "auth.secret is not set, and nobody could sign in safely: put at least 32 random characters there, or into "
            "ROTA_AUTH_SECRET; `python -c 'import secrets; print(secrets.token_urlsafe(48))'` makes some"
        )
    auth = settings.auth.model_copy(update={"secret": secrets.token_urlsafe(48)})
    return settings.model_copy(update={"auth": auth})
