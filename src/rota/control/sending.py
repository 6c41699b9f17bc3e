"""A message to somebody's HTTP server: one POST, with an end to how long it may take and how much may be answered.

The only place where the control plane calls the outside; whatever guards such calls belongs here.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S = 15.0
READ_BYTES = 1024  # of an answer; the rest is nobody's business


class Answer(NamedTuple):
    """What became of a call: a status, or why there is none."""

    status: int | None
    error: str | None
    took_s: float

    @property
    def accepted(self) -> bool:
        """Whether the other side has taken it. A redirect is none: who follows one signs for somebody else."""
        return self.status is not None and 200 <= self.status < 300


async def post(url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> Answer:
    """Sends a body; certificates are checked, redirects are not followed, and after `timeout_s` it is over in any case."""
    return await asyncio.to_thread(_post, url, body, headers, timeout_s)


def _post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Answer:
    started = monotonic()
    parts = urlsplit(url)
    assert parts.hostname is not None
    conn: http.client.HTTPConnection
    if parts.scheme == "https":
        conn = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=ssl.create_default_context())
    else:
        conn = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    # The connection's own timeout starts anew with each byte: a server that sends one now and then would hold us for ever.
    is_late = threading.Event()
    end = threading.Timer(timeout_s, _cut, [conn, is_late])
    end.daemon = True
    end.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        conn.request("POST", target, body, dict(headers))
        response = conn.getresponse()
        response.read(READ_BYTES)
        # What a late answer says counts all the same: the message has arrived.
        return Answer(response.status, None, monotonic() - started)
    except (OSError, http.client.HTTPException, ValueError) as error:
        late = is_late.is_set() or isinstance(error, TimeoutError)
        why = f"no answer within {timeout_s:g} s" if late else f"{type(error).__name__}: {error}"
        return Answer(None, why, monotonic() - started)
    finally:
        end.cancel()
        conn.close()


def _cut(conn: http.client.HTTPConnection, is_late: threading.Event) -> None:
    is_late.set()
    with contextlib.suppress(OSError, AttributeError):
        conn.sock.shutdown(socket.SHUT_RDWR)
