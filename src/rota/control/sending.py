"""A message to somebody's HTTP server: one POST, guarded and bounded like every call that goes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

from rota.config import Settings
from rota.model.http_call import read_url

TIMEOUT_S = 15.0
READ_BYTES = 1024  # of an answer; the rest is nobody's business


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a call: a status, or why there is none."""

    status: int | None
    error: str | None
    took_s: float

    @property
    def accepted(self) -> bool:
        """Whether the other side has taken it. A redirect is none: who follows one signs for somebody else."""
        return self.status is not None and 200 <= self.status < 300


async def post(url: str, body: bytes, headers: Mapping[str, str], settings: Settings, *, timeout_s: float = TIMEOUT_S) -> Answer:
    """Sends a body; certificates are checked, redirects are not followed, and after `timeout_s` it is over in any case."""
    from rota.outbound.client import Bounds, NotCalled, Request, client_for  # here, since most workers send nothing

    started = monotonic()
    bounds = Bounds(timeout_s, redirects=0, head_bytes=0, max_bytes=READ_BYTES)
    try:
        answer = await client_for(settings).call(Request(read_url(url), "POST", headers, body), bounds)
    except NotCalled as error:
        # What an answer says counts also when it does not end: the message has arrived.
        return Answer(error.status, None if error.status is not None else str(error), monotonic() - started)
    return Answer(answer.status, None, monotonic() - started)
