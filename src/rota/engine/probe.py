"""A worker's own port: /metrics for Prometheus, /healthz for whoever restarts it.

It answers from a thread, so that a worker whose event loop is blocked can still say so.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic

import orjson
from prometheus_client import CollectorRegistry, generate_latest

from rota import events as e
from rota.engine.metrics import Metrics

UNHEALTHY_AFTER_S = 60.0  # an outage of the database shorter than this is no reason to restart a worker


class Probe:
    """Knows how the worker is, and says so over HTTP."""

    def __init__(self, events: e.Events) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(Metrics(events))
        self._away: dict[str, tuple[float, str]] = {}
        self._server: ThreadingHTTPServer | None = None
        events.subscribe(e.DatabaseLost, self._on_database_lost)
        events.subscribe(e.DatabaseBack, self._on_database_back)

    def _on_database_lost(self, event: e.DatabaseLost) -> None:
        self._away.setdefault(event.service, (monotonic(), f"{type(event.error).__name__}"))

    def _on_database_back(self, event: e.DatabaseBack) -> None:
        self._away.pop(event.service, None)

    def health(self) -> tuple[int, dict[str, object]]:
        """An HTTP status, and what is wrong."""
        now = monotonic()
        away = {service: {"for_s": round(now - since, 1), "error": error} for service, (since, error) in self._away.copy().items()}
        healthy = all(now - since < UNHEALTHY_AFTER_S for since, _ in self._away.copy().values())
        return (200 if healthy else 503), {"status": "ok" if healthy else "database away", "away": away}

    def start(self, port: int, host: str = "0.0.0.0") -> int:
        """Serves in the background; the port it listens on (0 takes a free one)."""
        probe = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, "text/plain; version=0.0.4; charset=utf-8", generate_latest(probe._registry))
                elif self.path == "/healthz":
                    status, body = probe.health()
                    self._answer(status, "application/json", orjson.dumps(body))
                else:
                    self._answer(404, "application/json", b'{"error":"not found: /metrics and /healthz are here"}')

            def _answer(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not worth a line each."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        threading.Thread(target=self._server.serve_forever, name="rota-probe", daemon=True).start()
        return self._server.server_address[1]

    def close(self) -> None:
        """Stops serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
