"""Which connections a server keeps: how many in all and from one peer, and how long a request may take to arrive.

A client that sends its request slowly costs a connection, and a process has few: it ends at a deadline, and sooner where others
need its place. Connections whose request is complete are never cut: live streams and slow routes stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
from collections import OrderedDict
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rota.config import ServerSettings, Settings
from rota.server.headers import DEFAULTS, encode
from rota.server.listening import BACKLOG
from rota.server.problem import CODES, MEDIA_TYPE
from rota.server.proxies import Proxies, peer_of

STALLED_S = 30.0  # a client that takes nothing of its answer for so long is cut
LINGER_S = 2.0  # for the last words to a client that is being cut
OTHER_FILES = 64  # descriptors for the log, modules, sockets of the event loop
OTHER_CONNECTIONS = 16  # to the database, beside the pools: the stream's, a worker's

log = logging.getLogger("rota.server")


class Gate:
    """The connections of one server.

    At a limit the oldest connection without a complete request gives way to the new one: an idle one, or one of a slow client.
    Where all of them are being answered, the new one is refused.
    """

    def __init__(self, settings: ServerSettings, most: int | None = None) -> None:
        self.header_s = settings.header_timeout_s
        self.body_s = settings.body_timeout_s
        self._most = settings.max_connections if most is None else most
        self._most_per_peer = settings.max_connections_per_peer
        self._proxies = Proxies(settings.trusted_proxies)
        self.open = 0
        self._peers: dict[str, _Peer] = {}
        self._incomplete: OrderedDict[Protocol, None] = OrderedDict()  # the longest waited for first

    def peer(self, address: str | None) -> str:
        """Name whom a connection counts against; a proxy stands for many, and has no limit of its own."""
        return "" if address is None or self._proxies.trust(address) else peer_of(address)

    def enter(self, connection: Protocol) -> tuple[int, str] | None:
        """Count a new connection, or return the status and the words to refuse it with."""
        name = connection.peer
        peer = self._peers.get(name) or self._peers.setdefault(name, _Peer())
        if name and peer.open >= self._most_per_peer and not self._cut_oldest(peer.incomplete):
            words = f"more than {self._most_per_peer:,} connections from {name}: server.max_connections_per_peer allows no more"
            return 429, words
        if self.open >= self._most and not self._cut_oldest(self._incomplete):
            self._forget(name)
            return 503, f"{self.open:,} connections are open, which is as many as this server takes: try again in a moment"
        self._peers.setdefault(name, peer).open += 1
        self.open += 1
        return None

    def leave(self, connection: Protocol) -> None:
        """Stop counting a connection."""
        self.complete(connection)
        self.open -= 1
        self._peers[connection.peer].open -= 1
        self._forget(connection.peer)

    def wait_for(self, connection: Protocol) -> None:
        """Note that a connection has no complete request from now on."""
        if connection not in self._incomplete:
            self._incomplete[connection] = self._peers[connection.peer].incomplete[connection] = None

    def complete(self, connection: Protocol) -> None:
        """Note that a connection's request is complete."""
        if connection in self._incomplete:
            del self._incomplete[connection], self._peers[connection.peer].incomplete[connection]

    def _cut_oldest(self, incomplete: OrderedDict[Protocol, None]) -> bool:
        if not incomplete:
            return False
        next(iter(incomplete)).give_way()
        return True

    def _forget(self, name: str) -> None:
        if (peer := self._peers.get(name)) is not None and not peer.open:
            del self._peers[name]


class _Peer:
    """The connections of one peer."""

    __slots__ = ("incomplete", "open")

    def __init__(self) -> None:
        self.open = 0
        self.incomplete: OrderedDict[Protocol, None] = OrderedDict()


class Protocol(H11Protocol):
    """HTTP/1.1 with deadlines. What is not HTTP is refused in the form, and with the headers, of every other answer."""

    def __init__(self, *args: Any, gate: Gate, **named: Any) -> None:
        super().__init__(*args, **named)
        self.peer = ""
        self._gate = gate
        self._entered = False
        self._deadline: asyncio.TimerHandle | None = None  # for the rest of a request
        self._deadline_of: Any = None  # the state of the client that it is for
        self._cut_at: asyncio.TimerHandle | None = None  # for a client that takes nothing of its answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it."""
        super().connection_made(transport)
        self.peer = self._gate.peer(self.client[0] if self.client else None)
        refused = self._gate.enter(self)
        if refused is not None:
            self._refuse(*refused)
            return
        self._entered = True
        self._gate.wait_for(self)
        self._await(h11.IDLE, self._gate.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._await_nothing()
        if self._cut_at is not None:
            self._cut_at.cancel()
        self._leave()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has arrived, and wait for the rest of it no longer than the deadline."""
        super().handle_events()
        if not self._entered or self.transport.is_closing():
            return
        state = self.conn.their_state
        if state is h11.IDLE:
            self._gate.wait_for(self)
            if self.conn.trailing_data[0]:
                self._await(state, self._gate.header_s)
            elif self.cycle is not None:  # between two requests; the time for that is uvicorn's to keep
                self._await_nothing()
        elif state is h11.SEND_BODY:
            self._gate.wait_for(self)
            self._await(state, self._gate.body_s)
        else:
            self._await_nothing()
            self._gate.complete(self)

    def give_way(self) -> None:
        """End at once, to make room for another connection."""
        self._await_nothing()
        self._leave()
        self._disconnect_route()
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, and close the connection."""
        self._refuse(400, msg)

    def on_response_complete(self) -> None:
        """End the answer; if the connection is to close, it does so also where the client does not read."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_in(STALLED_S)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which no other request has come."""
        super().timeout_keep_alive_handler()
        self._cut_in(LINGER_S)

    def pause_writing(self) -> None:
        """Wait for the client to take something of its answer, for a while."""
        super().pause_writing()
        self._cut_in(STALLED_S)

    def resume_writing(self) -> None:
        """Go on with the answer."""
        if self._cut_at is not None and not self.transport.is_closing():
            self._cut_at.cancel()
            self._cut_at = None
        super().resume_writing()

    def _await(self, state: Any, seconds: float) -> None:
        """Set the deadline for a part of a request, unless it has one."""
        if self._deadline is not None:
            if self._deadline_of is state:
                return
            self._deadline.cancel()
        self._deadline_of = state
        self._deadline = self.loop.call_later(seconds, self._end_slow)

    def _await_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_slow(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        in_body = self.conn.their_state is h11.SEND_BODY
        if not in_body and not self.conn.trailing_data[0]:
            self.transport.abort()  # nothing came at all
            return
        part, seconds = ("body", self._gate.body_s) if in_body else ("header", self._gate.header_s)
        self._refuse(408, f"the request did not arrive in time: server.{part}_timeout_s allows {seconds:g} s for its {part}")

    def _refuse(self, status: int, words: str) -> None:
        """Answer by ourselves, if no answer is on its way already, and close."""
        code, _ = CODES[status]
        title = HTTPStatus(status).phrase
        body = {"type": f"urn:rota:problem:{code}", "title": title, "status": status, "code": code}
        text = json.dumps({**body, "detail": words, "request_id": None}).encode()
        own = {"content-type": MEDIA_TYPE, "content-length": str(len(text)), "connection": "close"}
        if status in (429, 503):
            own["retry-after"] = "1"
        answer: Sequence[h11.Event] = (
            h11.Response(status_code=status, headers=encode({**own, **DEFAULTS}), reason=title.encode()),
            h11.Data(data=text),
            h11.EndOfMessage(),
        )
        with contextlib.suppress(h11.LocalProtocolError):
            for event in answer:
                self.transport.write(self.conn.send(event) or b"")
        self._disconnect_route()
        self.transport.close()
        self._cut_in(LINGER_S)

    def _disconnect_route(self) -> None:
        """Tell a route that waits for the rest of its request that there will be none, and drop what it answers."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _cut_in(self, seconds: float) -> None:
        if self._cut_at is not None:
            self._cut_at.cancel()
        self._cut_at = self.loop.call_later(seconds, self.transport.abort)

    def _leave(self) -> None:
        if self._entered:
            self._entered = False
            self._gate.leave(self)


def reserve_descriptors(settings: Settings) -> int:
    """Return how many connections fit into this process's limit of open files, which is raised if it may be.

    Descriptors for everything else are kept back, so that a flood of connections costs neither the database nor the log.
    """
    pools = 2 * settings.database.pool_max + OTHER_CONNECTIONS
    calls = settings.http.concurrency if settings.jobs.enabled and settings.http.enabled else 0
    kept = OTHER_FILES + BACKLOG + pools + calls  # accepting does not stop at the limit, but when the backlog is empty
    most = settings.server.max_connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < most + kept:
        soft_now = most + kept if hard == resource.RLIM_INFINITY else min(hard, most + kept)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft_now, hard))
            soft = soft_now
        fit = max(soft - kept, soft // 4)
        if fit < most:
            log.warning(
                "this process may open %d files, which leaves %d connections instead of server.max_connections=%d: "
                "raise the limit (`ulimit -n %d`, or LimitNOFILE= of its unit)", soft, fit, most, most + kept,
            )  # fmt: skip
            return fit
    return most
