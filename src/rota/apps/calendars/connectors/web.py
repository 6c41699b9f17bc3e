"""Requests to servers of calendars, by the guarded client: what an answer means, in our own errors."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rota.apps.calendars.connectors import Place
from rota.apps.calendars.errors import Busy, NotACalendar, SignInFailed, Unavailable
from rota.config import Settings
from rota.outbound.retry_after import read_retry_after

if TYPE_CHECKING:
    from rota.outbound.client import Answer

MAX_BYTES = 32 * 1024 * 1024  # of an answer
TIMEOUT_S = 60.0

_QUOTA = re.compile(rb"quotaExceeded|rateLimitExceeded|userRateLimitExceeded|number-of-matches-within-limits", re.IGNORECASE)


class Web:
    """One server, with how we sign in there."""

    def __init__(self, place: Place, settings: Settings, shown: str) -> None:
        self._settings = settings
        self._shown = shown
        self._headers: dict[str, str] = {}
        if place.password is not None:
            word = place.password.get_secret_value()
            if place.user is None:
                self._headers["Authorization"] = f"Bearer {word}"
            else:
                self._headers["Authorization"] = f"Basic {base64.b64encode(f'{place.user}:{word}'.encode()).decode()}"

    async def ask(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None, redirects: int = 0
    ) -> Answer:
        """An answer that means something to the caller; what means the same for all of them is raised."""
        from rota.outbound.client import (  # aiohttp is not small, and most processes need none
            Bounds,
            NotCalled,
            Request,
            client_for,
        )

        sent = {**self._headers, **(headers or {})}
        bounds = Bounds(TIMEOUT_S, redirects=redirects, head_bytes=MAX_BYTES, max_bytes=MAX_BYTES)
        try:
            answer = await client_for(self._settings).call(Request.to(url, method, sent, body), bounds)
        except NotCalled as error:
            raise Unavailable(f"{self._shown}: {method}: {error}") from None
        self._judge(method, answer)
        return answer

    def _judge(self, method: str, answer: Answer) -> None:
        status = answer.status
        wait_s = read_retry_after(answer.headers.get("retry-after"))
        if status == 429 or (status == 403 and _QUOTA.search(answer.head)) or (status == 503 and wait_s is not None):
            raise Busy(f"{self._shown}: it answered {status}: we ask too often, or a quota is used up", wait_s)
        if status == 401:
            raise SignInFailed(
                f"{self._shown}: it answered 401: name or password is not taken; `rota calendars pairs sign-in` sets them"
            )
        if 300 <= status < 400 and status != 304:
            raise NotACalendar(f"{self._shown}: it answered {status}: the calendar has moved; add the pair with its new address")
        # So servers answer a report that they do not know, or that is too long for them: there is another way to ask.
        if status >= 500 and not (method == "REPORT" and status in (501, 507)):
            raise Unavailable(f"{self._shown}: {method}: it answered {status}")
        if answer.cut:
            raise NotACalendar(f"{self._shown}: {method}: its answer has more than {MAX_BYTES // 1024 // 1024} MiB")
