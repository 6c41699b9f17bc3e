"""A small HTTP server that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def answering(
    status: int | Callable[[str], int], body: bytes = b"{}", kind: str = "application/json", **headers: str
) -> Iterator[tuple[str, list[str]]]:
    """Give an address where everything is answered so, by its path if `status` is a function, and the requests that came."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(f"{self.command} {self.path} {self.headers.get('Authorization')}")
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status if isinstance(status, int) else status(self.path))
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
