"""One HTTP call: guarded at the socket, with an end to how long it may take, how far it may be sent on and how much is read.

The only place from which Rota calls the outside. Imported when the first call is made: aiohttp is not small.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import zlib
from collections.abc import Mapping
from contextvars import Context, ContextVar
from functools import lru_cache
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from rota.config import Settings
from rota.errors import UsageError
from rota.model.http_call import HARMLESS, Target, read_url
from rota.outbound.address import Rules, read_address
from rota.outbound.deadlines import Deadlines

MAX_REDIRECTS = 10
MAX_LINE_BYTES = 8190  # of a status line, a header's name or its value
MAX_HEADERS = 100
MAX_PASSED = 10_000  # hosts of which is remembered that they may be looked up
DNS_TTL_S = 5
KEEP_ALIVE_S = 4.0  # less than most servers': one that hangs up while we write would cost the call an attempt

_REDIRECTS = (301, 302, 303, 307, 308)
_LASTING = (301, 308)
_OF_BODY = ("content-type", "content-encoding", "content-language", "content-location")


class NotCalled(Exception):
    """There was no answer; `kind` says why in one word: refused, timeout, dns, tls, redirect, protocol or connection."""

    def __init__(self, kind: str, message: str, *, status: int | None = None, redirects: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status  # of an answer that did not end
        self.redirects = redirects


class Request(NamedTuple):
    """What is sent where."""

    target: Target
    method: str = "POST"
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes | None = None

    @classmethod
    def to(cls, url: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Self:
        """A request to a URL as somebody has written it; UsageError if it is none that may be called."""
        return cls(read_url(url), method, headers or {}, body)


class Bounds(NamedTuple):
    """How much a call may take."""

    timeout_s: float = 30.0  # from the first look for the name to the last byte of the last answer
    redirects: int = MAX_REDIRECTS
    head_bytes: int = 4096  # of the answer, that are kept
    max_bytes: int = 10_485_760  # of the answer, that are read


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]  # by small names
    head: bytes  # the beginning of the body, unpacked
    size: int  # of the body as it came, as far as it was read
    cut: bool  # there was more of it
    redirects: int
    url: str = ""  # from where it came in the end
    moved_to: str | None = None  # where redirects lead that are to be remembered (301, 308), up to the first other one


class _Hop:
    """Where the call of this context goes just now, and why it was not let through."""

    __slots__ = ("host", "refused")

    def __init__(self, host: str) -> None:
        self.host = host
        self.refused: str | None = None


_hop: ContextVar[_Hop | None] = ContextVar("rota_hop", default=None)


class Client:
    """Calls by one set of rules. Connections are kept for a while and used again, for the host they were checked for only."""

    def __init__(self, rules: Rules, *, resolver: AbstractResolver | None = None) -> None:
        self._rules = rules
        self._deadlines = Deadlines(asyncio.get_running_loop())
        self._passed: set[tuple[str, int]] = set()  # hosts against whose names there is nothing
        connector = aiohttp.TCPConnector(
            limit=0,
            ssl=_tls(),
            resolver=resolver,
            ttl_dns_cache=DNS_TTL_S,
            keepalive_timeout=KEEP_ALIVE_S,
            socket_factory=self._open_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),  # one call's cookies are not another's
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # there is one end to it all, see `call`
            auto_decompress=False,  # what is small on the way can be endless when unpacked
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            trust_env=False,
        )

    async def call(self, request: Request, bounds: Bounds = Bounds()) -> Answer:  # noqa: B008
        """Makes a call and reads the answer; NotCalled when there is none, or none that ends in time."""
        progress = _Progress()
        try:
            with self._deadlines.within(bounds.timeout_s):
                return await self._follow(request, bounds, progress)
        except TimeoutError:
            what = "no answer" if progress.status is None else f"it answered {progress.status}, and the answer did not end"
            raise progress.failed("timeout", f"{what} within {bounds.timeout_s:g} s") from None

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()

    async def _follow(self, request: Request, bounds: Bounds, progress: _Progress) -> Answer:
        moved_to, lasting = None, True
        while True:
            hop = _Hop(request.target.host)
            token = _hop.set(hop)
            try:
                answer = await self._send(request, bounds, progress, moved_to)
            except (aiohttp.ClientError, OSError, ValueError, UsageError) as error:
                raise progress.failed(*_explain(error, hop)) from None
            finally:
                _hop.reset(token)
            if not isinstance(answer, Request):
                return answer
            request = answer
            lasting = lasting and progress.status in _LASTING
            moved_to = request.target.whole if lasting else moved_to
            progress.redirects += 1
            progress.status = None

    async def _send(self, request: Request, bounds: Bounds, progress: _Progress, moved_to: str | None) -> Answer | Request:
        """The answer, or the call that it asks for instead."""
        target = request.target
        self._check_host(target)
        async with self._session.request(
            request.method,
            URL(target.whole, encoded=True),
            headers=_sent(request.headers),
            data=None if request.body is None else aiohttp.BytesPayload(request.body),
            allow_redirects=False,
        ) as response:
            progress.status = response.status
            location = response.headers.get("Location")
            if bounds.redirects and response.status in _REDIRECTS and location is not None:
                if progress.redirects >= bounds.redirects:
                    raise _Redirect(f"it was redirected more than {bounds.redirects} times")
                return _sent_on(request, response.status, location)
            head, size, cut = await _read(response, bounds)
            headers = {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
            return Answer(response.status, headers, head, size, cut, progress.redirects, target.whole, moved_to)

    def _check_host(self, target: Target) -> None:
        """Refuses hosts that may not even be looked up. What was let through once need not be looked at again: see below."""
        host = target.host, target.port
        if host in self._passed:
            return
        if (why := self._rules.refuse_host(*host)) is not None:
            raise _Refused(why)
        if len(self._passed) >= MAX_PASSED:
            self._passed.clear()
        self._passed.add(host)

    def _open_socket(self, info: Any) -> socket.socket:
        """Opens a socket to an address that a name has led to, whoever looked it up and when; or does not."""
        family, kind, protocol, _, place = info
        hop = _hop.get()
        address = read_address(place[0])
        if hop is None or address is None:
            raise _Refused("an address that nobody asked for")
        if (why := self._rules.refuse(hop.host, address, place[1])) is not None:
            hop.refused = why
            raise _Refused(why)
        return socket.socket(family, kind, protocol)


class _Progress:
    """How far a call has come."""

    __slots__ = ("redirects", "status")

    def __init__(self) -> None:
        self.status: int | None = None
        self.redirects = 0

    def failed(self, kind: str, message: str) -> NotCalled:
        return NotCalled(kind, message, status=self.status, redirects=self.redirects)


class _Refused(OSError):
    """The rules are against it."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EACCES, why)


class _Redirect(ValueError):
    """It is sent on to where it does not go."""


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Any, ...], Client]] = WeakKeyDictionary()
_closing: set[asyncio.Task[None]] = set()  # so that nobody collects them


def client_for(settings: Settings) -> Client:
    """The client of this event loop for these settings; it is closed when the loop ends."""
    loop = asyncio.get_running_loop()
    clients = _clients.setdefault(loop, {})
    key = (settings.http.allow, settings.http.deny, settings.server.port)
    if key not in clients:
        client = clients[key] = Client(Rules.of(settings))
        # Outside of the context of the call that happens to be the first.
        task = loop.create_task(_close_at_end(client), name="rota-outbound", context=Context())
        _closing.add(task)
        task.add_done_callback(_closing.discard)
    return clients[key]


async def _close_at_end(client: Client) -> None:
    # A loop that ends cancels what still runs, and waits for it.
    try:
        await asyncio.Event().wait()
    finally:
        await client.close()


@lru_cache(1)  # to read the certificates of those who sign others takes a while
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _sent(headers: Mapping[str, str]) -> dict[str, str]:
    # Not asked for packed, an answer seldom is, and nothing has to be unpacked to show how it begins.
    return {"User-Agent": "rota", "Accept-Encoding": "identity", **headers}


def _sent_on(request: Request, status: int, location: str) -> Request:
    """The call that a redirect asks for: other servers are not told what was for the first one."""
    was = request.target
    try:
        # What a header says is Latin-1 or UTF-8; joined as a browser would, then read like any URL that somebody gives us.
        joined = str(URL(was.url, encoded=True).join(URL(location)))
        target = read_url(joined)
    except (ValueError, UsageError):
        raise _Redirect("it was redirected to something that is not a URL that can be called") from None
    if was.url.startswith("https:") and not target.url.startswith("https:"):
        raise _Redirect("it was redirected from https to http, where everybody could read it")
    method, headers, body = request.method, dict(request.headers), request.body
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if name.lower() not in _OF_BODY}
    if _origin(target) != _origin(was):
        headers = {name: value for name, value in headers.items() if name.lower() in HARMLESS}
    return Request(target, method, headers, body)


def _origin(target: Target) -> tuple[str, str, int]:
    return target.url.partition(":")[0], target.host, target.port


async def _read(response: aiohttp.ClientResponse, bounds: Bounds) -> tuple[bytes, int, bool]:
    """Reads the body to its end or to the bound, and keeps its beginning."""
    kept = bytearray()
    size = 0
    content = response.content
    while not content.at_eof():
        chunk = await content.readany()
        size += len(chunk)
        if len(kept) < bounds.head_bytes:
            kept += chunk[: bounds.head_bytes - len(kept)]
        if size > bounds.max_bytes:
            response.close()
            return _unpack(bytes(kept), response, bounds.head_bytes), size, True
    return _unpack(bytes(kept), response, bounds.head_bytes), size, False


def _unpack(kept: bytes, response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The beginning of a body that came packed although nobody asked for it; never more of it than is kept."""
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if not kept or coding not in ("gzip", "x-gzip", "deflate"):
        return kept
    for bits in (31,) if coding != "deflate" else (15, -15):
        with contextlib.suppress(zlib.error):
            return zlib.decompressobj(bits).decompress(kept, limit)
    return kept


def _explain(error: Exception, hop: _Hop) -> tuple[str, str]:
    """What kept a call from being answered, without a word of what was sent."""
    if isinstance(error, _Refused):
        return "refused", f"it may not be called: {error.strerror}"
    if hop.refused is not None:
        return "refused", f"it may not be called: {hop.refused}"
    if isinstance(error, _Redirect):
        return "redirect", str(error)
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "dns", f"the name {hop.host} was not found"
        case aiohttp.ClientConnectorCertificateError():
            return "tls", f"the certificate is not one for {hop.host}, or nobody we trust has signed it"
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return "tls", "no encrypted connection was agreed on: TLS 1.2 or later is needed"
        case aiohttp.ClientConnectorError():
            return "connection", f"no connection: {error.os_error.strerror or type(error.os_error).__name__}"
        case aiohttp.ClientPayloadError():
            return "protocol", "the answer broke off"
        case aiohttp.ServerDisconnectedError() | ConnectionError():
            return "connection", "the connection was closed before an answer had come"
        case aiohttp.ClientResponseError():
            return "protocol", "the answer is not HTTP, or has too many or too long headers"
    return "protocol", f"{type(error).__name__}"


def took_ms(started: float) -> float:
    """Milliseconds since then, to a tenth."""
    return round((monotonic() - started) * 1000, 1)
