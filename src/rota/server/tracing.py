"""Each request has an id, a line in the log and a place in the metrics, and an answer even if its route fails."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.engine.metrics import Histogram, counter, gauge, histogram
from rota.lean import structlog
from rota.model.ids import new_id
from rota.server.problem import unexpected
from rota.server.scope import PRINCIPAL, REQUEST_ID, own_path

if TYPE_CHECKING:
    from prometheus_client.core import Metric

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})  # asked for every few seconds: no line of the log each
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_GONE = 499  # in log and metrics, for want of an answer
_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}\Z")


class Requests:
    """What requests have come and how long they took: a Prometheus collector."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._durations: dict[tuple[str, ...], Histogram] = {}
        self.open = 0

    def add(self, route: str, method: str, status: int, took_s: float) -> None:
        """Counts a request that has been answered."""
        method = method if method in METHODS else "other"  # anybody can make up a method
        with self._lock:
            self._counts[route, method, str(status)] += 1
            key = (route, method)
            (self._durations.get(key) or self._durations.setdefault(key, Histogram())).add(took_s)

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now."""
        with self._lock:
            yield counter("rota_http_requests", "Requests answered.", ["route", "method", "status"], dict(self._counts))
            yield histogram("rota_http_request_duration_seconds", "How long they took.", ["route", "method"], self._durations)
            yield gauge("rota_http_requests_open", "Requests that are being answered, streams included.", [], {(): self.open})


class Traced:
    """Names every request, answers those whose route fails, and writes down what became of each."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._requests = requests
        self._log: Any = structlog.get_logger().bind(component="server")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sees a request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope[REQUEST_ID] = _id_of(scope)
        status = 0

        async def send_traced(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        started = perf_counter()
        self._requests.open += 1
        with structlog.contextvars.bound_contextvars(correlation_id=request_id):
            try:
                await self._app(scope, receive, send_traced)
            except ClientDisconnect:
                status = CLIENT_GONE
            except Exception as error:
                if status:  # half an answer is out: only the end of the connection can say that the rest will not come
                    raise
                await unexpected(error, request_id)(scope, receive, send_traced)
            finally:
                self._requests.open -= 1
                self._write_down(scope, status or CLIENT_GONE, perf_counter() - started)

    def _write_down(self, scope: Scope, status: int, took_s: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "none"  # the template: addresses themselves are endless
        self._requests.add(route, scope["method"], status, took_s)
        if own_path(scope) in QUIET and status < 500:
            return
        # The path as it came, without what was asked: links to sign in carry their secret there.
        path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")[:500]
        principal = scope.get(PRINCIPAL)
        (self._log.warning if status >= 500 else self._log.info)(
            "request",
            method=scope["method"],
            path=path,
            status=status,
            ms=round(took_s * 1000, 1),
            client=scope["client"][0] if scope.get("client") else None,
            who=principal.email if principal is not None else None,
        )


def _id_of(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SANE_ID.match(value):
            return str(value.decode())
    return str(new_id())
