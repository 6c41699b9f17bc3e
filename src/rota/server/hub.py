"""The live stream's one source in a process: one connection that listens and looks, whatever the number of clients.

A look is a few small statements, at most once a second, and only while there are clients. NOTIFY is a hint: it makes an idle hub
look at once. Between hints it looks every other second, so that nothing depends on them; behind a transaction pooler, where nobody
can listen, every second. A look that took long is followed by a rest twenty times as long, so that a database at its limits spends
no more than a twentieth of itself on being watched.

Clients have no buffers: each knows the number of the last message it was sent, and the hub keeps the newest ones. Who falls behind
further than that is told to fetch everything anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import Any
from uuid import UUID

import orjson

from rota.config import DatabaseSettings
from rota.db.connection import AsyncConn
from rota.engine.service import keep_serving
from rota.errors import TooManyStreams
from rota.events import DatabaseBack, DatabaseLost, Events
from rota.model.ids import new_id
from rota.server.looks import Look, changes, look

BUSY_S = 1.0
IDLE_S = 2.0
REST = 20.0
KEPT = 256  # messages
LINGER_S = 15.0  # after the last client: one that comes back meanwhile goes on where it was
ALL = "all"  # messages of this kind are for everybody


class Client:
    """Somebody who is told."""

    __slots__ = ("account", "wake")

    def __init__(self, account: UUID | None) -> None:
        self.account = account
        self.wake = asyncio.Event()


class Hub:
    """Looks at the database for all clients together, and keeps the newest messages for them."""

    name = "stream"

    def __init__(self, database: DatabaseSettings, events: Events, *, most_clients: int, most_per_account: int) -> None:
        self._database = database
        self._events = Events(within=events)  # what befalls its own connection
        self._most_clients = most_clients
        self._most_per_account = most_per_account
        self._clients: set[Client] = set()
        self._looking: asyncio.Task[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._before: Look | None = None
        self._boot = _mark(new_id())
        self._messages: deque[tuple[int, str, bytes]] = deque(maxlen=KEPT)  # number, kind, as it is sent
        self._joined: dict[tuple[int, frozenset[str]], bytes] = {}  # most clients are at the same number: what comes after it
        self._number = 0
        self.looks = 0
        self.closed = False
        self._away = False
        self._events.subscribe(DatabaseLost, lambda _event: self._tell_of_database(True))
        self._events.subscribe(DatabaseBack, lambda _event: self._tell_of_database(False))

    def __len__(self) -> int:
        return len(self._clients)

    def enter(self, account: UUID | None) -> Client:
        """A place for another client; the first one starts the looking."""
        own = sum(client.account == account for client in self._clients)
        if own >= self._most_per_account:
            raise TooManyStreams(
                f"this account has {own} streams open already, which is what server.stream_clients_per_account allows"
            )
        if len(self._clients) >= self._most_clients:
            raise TooManyStreams(f"{len(self._clients)} streams are open already, which is what server.stream_clients allows")
        client = Client(account)
        self._clients.add(client)
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._looking is None and not self.closed:
            keep = keep_serving(self, self._database.dsn, self._events, pooled=self._database.pooled)
            self._looking = asyncio.create_task(keep, name="rota-stream")
        return client

    def leave(self, client: Client) -> None:
        """Gives the place back; a while after the last one nobody looks any more."""
        self._clients.discard(client)
        if not self._clients and not self.closed:
            self._lingering = asyncio.get_running_loop().call_later(LINGER_S, self._rest)

    async def aclose(self) -> None:
        """Ends the looking, and wakes the clients, who end by themselves."""
        self.end_streams()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    def end_streams(self) -> None:
        """Lets every client go, and takes no more looks for them."""
        self.closed = True
        if self._lingering is not None:
            self._lingering.cancel()
        self._wake()

    @property
    def last_id(self) -> str:
        """What a client that has seen everything names when it comes back."""
        return f"{self._boot}-{self._number}"

    def position(self, last_id: str | None) -> int | None:
        """Where a client that saw this message last goes on; None if what came after it is no longer known."""
        boot, _, number = (last_id or "").rpartition("-")
        oldest = self._messages[0][0] if self._messages else self._number + 1
        if boot != self._boot or not number.isdecimal() or len(number) > 18 or not oldest - 1 <= int(number) <= self._number:
            return None
        return int(number)

    def after(self, number: int, kinds: frozenset[str]) -> tuple[bytes, int] | None:
        """The messages of these kinds after that number, and the number of the last; None if some are no longer known."""
        if number == self._number:
            return b"", number
        if self._messages and number < self._messages[0][0] - 1:
            return None
        text = self._joined.get((number, kinds))
        if text is None:
            text = b"".join(text for n, kind, text in self._messages if n > number and (kind == ALL or kind in kinds))
            self._joined[number, kinds] = text
        return text, self._number

    async def serve(self, conn: AsyncConn) -> None:
        """Listens and looks on this connection until it breaks."""
        listening = not self._database.pooled
        if listening:
            await conn.execute("LISTEN rota_wake")
            await conn.execute("LISTEN rota_change")
        while True:
            started = monotonic()
            changed = await self._look(conn)
            took_s = monotonic() - started
            rest_s = max(BUSY_S, REST * took_s)
            await asyncio.sleep(rest_s)
            if listening:
                # What came meanwhile is taken in any case: it would pile up.
                idle_s = 0.0 if changed else max(0.0, IDLE_S - rest_s)
                async for _ in conn.notifies(timeout=idle_s, stop_after=1 if idle_s else None):
                    pass

    async def _look(self, conn: AsyncConn) -> bool:
        before = self._before  # kept when the connection breaks now: the next one tells what changed meanwhile
        after = self._before = await look(conn, before)
        self.looks += 1
        told = changes(before, after) if before is not None else {}
        for kind, data in told.items():
            self._tell(kind, data)
        if told:
            self._wake()
        return bool(told)

    def _tell(self, kind: str, data: dict[str, Any], *, to: str | None = None) -> None:
        self._number += 1
        text = b"id: %s\nevent: %s\ndata: %s\n\n" % (self.last_id.encode(), kind.encode(), orjson.dumps(data))
        self._messages.append((self._number, to or kind, text))
        self._joined.clear()

    def _tell_of_database(self, away: bool) -> None:
        if away != self._away:
            self._away = away
            self._tell("database", {"away": away}, to=ALL)
            self._wake()

    def _wake(self) -> None:
        for client in self._clients:
            client.wake.set()

    def _rest(self) -> None:
        self._lingering = None
        if self._looking is not None and not self._clients:
            self._looking.cancel()
            self._looking = self._before = None
            self._messages.clear()
            self._joined.clear()
            self._boot = _mark(new_id())


def _mark(id: UUID) -> str:
    return id.hex[-12:]
