"""What strangers do, in the audit: refused requests, failed sign-ins, sign-in links that were mailed.

Anybody can send as many of these as they like. So they are counted here, and written once a minute: at most `ROWS` rows, each
with a count, and one for all the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.control import audit
from rota.control.audit import Entry
from rota.server.proxies import peer_of
from rota.server.scope import PRINCIPAL

if TYPE_CHECKING:
    from rota.server.state import State

EVERY_S = 60.0
ROWS = 20  # written at a time, by each process
KINDS = 1000  # told apart until then

SIGN_IN = frozenset({"/auth/verify", "/auth/sign-in"})

log = logging.getLogger("rota.server")


class Refusal(NamedTuple):
    """Requests that were answered alike. The path is the route's, without what stands in for its parameters."""

    account_id: UUID | None
    actor: str
    role: str
    via: str | None
    operation: str
    target: str
    status: int
    peer: str


class Refusals:
    """Counts refused requests until they are written."""

    def __init__(self) -> None:
        self._counts: Counter[Refusal] = Counter()
        self._others = 0

    def note(self, refusal: Refusal) -> None:
        """Count a request."""
        if refusal in self._counts or len(self._counts) < KINDS:
            self._counts[refusal] += 1
        else:
            self._others += 1

    def take(self) -> list[Entry]:
        """Return what to write and begin again: accounts before strangers, the most frequent first."""
        counts, others = self._counts, self._others
        self._counts, self._others = Counter(), 0
        found = sorted(counts.items(), key=lambda each: (each[0].account_id is None, -each[1]))
        entries = [_entry(refusal, count) for refusal, count in found[:ROWS]]
        others += sum(count for _, count in found[ROWS:])
        if others:
            entries.append(Entry(None, "others", "none", None, "access.refused", "other requests", {"count": others}))
        return entries


class Refused:
    """Notes every answer with the status 401 or 403."""

    def __init__(self, app: ASGIApp, refusals: Refusals) -> None:
        self._app = app
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, and look at the status of its answer."""

        async def look(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in (401, 403):
                self._refusals.note(_refusal(scope, message["status"]))
            await send(message)

        await self._app(scope, receive, look if scope["type"] == "http" else send)


class RefusalWriter:
    """Writes what was refused, once a minute and at the end."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._task = asyncio.create_task(self._keep_writing(), name="rota-refusals")

    async def aclose(self) -> None:
        """Stop, and write what is left."""
        self._task.cancel()
        await asyncio.wait({self._task})
        await write_refusals(self._state)

    async def _keep_writing(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await write_refusals(self._state)


async def write_refusals(state: State) -> None:
    """Write what was refused since the last time. It is lost if the database is away, which the log says."""
    if entries := state.refusals.take():
        try:
            async with state.connection() as conn:
                await audit.record_many(conn, entries)
        except Exception as error:
            log.warning("%d kinds of refused requests could not be recorded: %s", len(entries), error)


def _entry(refusal: Refusal, count: int) -> Entry:
    detail = {"status": refusal.status, "count": count, "peer": refusal.peer}
    return Entry(refusal.account_id, refusal.actor, refusal.role, refusal.via, refusal.operation, refusal.target, detail)


def _refusal(scope: Scope, status: int) -> Refusal:
    path = getattr(scope.get("route"), "path", None) or "another path"
    peer = peer_of(scope["client"][0]) if scope.get("client") else "nowhere"
    operation = "sign_in.refused" if path in SIGN_IN else "access.refused"
    target = f"{scope['method'][:10]} {path}"
    if (principal := scope.get(PRINCIPAL)) is None:
        return Refusal(None, "anonymous", "none", None, operation, target, status, peer)
    actor = principal.actor
    return Refusal(actor.account, actor.name, actor.role, actor.via, operation, target, status, peer)
