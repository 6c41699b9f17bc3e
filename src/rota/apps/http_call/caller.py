"""Makes the call of a job and says what became of it, as it is kept with the attempt."""

from __future__ import annotations

import asyncio
import random
import re
from time import monotonic, time
from typing import Any
from urllib.parse import parse_qsl

from rota import Context, Snooze
from rota.apps.http_call.hosts import Host, Hosts, Place
from rota.config import Settings
from rota.errors import CallFailed
from rota.model.http_call import HARMLESS, HttpCall, Target
from rota.model.redact import HIDDEN, MIN_CHARS, redact_text, secrets_known
from rota.outbound.client import Answer, Bounds, Client, NotCalled, Request, client_for, took_ms
from rota.outbound.retry_after import STATUSES, read_retry_after
from rota.outbound.signature import sign

SLACK_BYTES = 4096  # read beyond the head, so that a secret at its end is known as one and not cut in half
ECHO_CHARS = 64
_KIND = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}(; ?[\w-]{1,20}=[\w.\"-]{1,60})?", re.ASCII)  # text/html; charset=utf-8
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Caller:
    """Makes calls by the settings of an application."""

    def __init__(self, settings: Settings) -> None:
        http = settings.http
        self._settings = settings
        self._hosts = Hosts(per_host=http.per_host, failures=http.breaker_failures, rest_s=http.breaker_s)
        self._kept_bytes = http.response_bytes
        self._max_bytes = http.max_response_bytes
        self._client: tuple[asyncio.AbstractEventLoop, Client] | None = None

    async def call(self, ctx: Context, call: HttpCall) -> Any:
        """What is kept of the answer; Snooze when the host has no place or is left alone; CallFailed when it did not succeed."""
        target = call.target
        host = self._hosts.get(target.host, target.port)
        if (rest_s := self._hosts.rest_s(host)) is not None:
            return Snooze(rest_s)
        if self._hosts.is_full(host):
            if not await self._hosts.wait(host):
                return Snooze(random.uniform(1, 3))
            if (rest_s := self._hosts.rest_s(host)) is not None:  # it may have broken meanwhile
                return Snooze(rest_s)
        with Place(host):
            return await self._make(ctx, call, target, host)

    def _client_here(self) -> Client:
        """The client of this event loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            self._client = loop, client_for(self._settings)
        return self._client[1]

    async def _make(self, ctx: Context, call: HttpCall, target: Target, host: Host) -> dict[str, Any]:
        body = call.content
        headers = {name: value.get_secret_value() for name, value in call.headers.items()}
        job_id = ctx.run_id.partition("/")[0]  # as text: a UUID would be made only to be written
        headers |= sign([each.get_secret_value() for each in call.secrets], job_id, int(time()), body or b"")
        bounds = Bounds(call.timeout_s, head_bytes=self._kept_bytes and self._kept_bytes + SLACK_BYTES, max_bytes=self._max_bytes)
        started = monotonic()
        try:
            answer = await self._client_here().call(Request(target, call.method, headers, body), bounds)
        except NotCalled as error:
            if error.kind in ("timeout", "dns", "tls", "protocol", "connection"):
                self._hosts.failed(host)
            kept = {"reason": error.kind, "took_ms": took_ms(started), "redirects": error.redirects}
            if error.status is not None:
                kept["status"] = error.status
            raise CallFailed(f"{call.method} {call.url}: {error}", kept) from None
        kept = {"status": answer.status, "took_ms": took_ms(started), "redirects": answer.redirects}
        kept |= self._head(call, body or b"", answer)
        if answer.status >= 500:
            self._hosts.failed(host)
        else:
            self._hosts.succeeded(host)
        if 200 <= answer.status < 300:
            return kept
        wait_s = read_retry_after(answer.headers.get("retry-after")) if answer.status in STATUSES else None
        message = f"{call.method} {call.url}: it answered {answer.status}"
        raise CallFailed(message, {"reason": "status", **kept}, retry_after_s=wait_s)

    def _head(self, call: HttpCall, content: bytes, answer: Answer) -> dict[str, Any]:
        """The beginning of an answer, as text that may be shown: an answer may say again what it was sent."""
        limit = self._kept_bytes
        query = call.target.query
        known = [query, *(value or name for name, value in parse_qsl(query, keep_blank_values=True))]  # `?token` has a name only
        known += [value.get_secret_value() for name, value in call.headers.items() if name.lower() not in HARMLESS]
        known += [secret.get_secret_value() for secret in call.secrets]
        body = content.decode("utf-8", "replace")
        text = answer.head.decode("utf-8", "replace")
        if len(text) >= MIN_CHARS:  # in less there is no secret
            with secrets_known(_fitting([*known, body], text)):
                text = redact_text(text)
            with secrets_known(_fitting([body[:ECHO_CHARS]], text)):
                # Of a long body that is said again there may be more than a head has room for: nothing is shown from there on.
                if (told := redact_text(text)) != text:
                    text = told[: told.index(HIDDEN) + len(HIDDEN)]
        text = _plain(text).encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
        kind = answer.headers.get("content-type", "")
        return {
            "content_type": kind
            if _KIND.fullmatch(kind) and not any(value in kind for value in (*known, body) if len(value) >= MIN_CHARS)
            else "",
            "head": text,
            "bytes": answer.size,
            "cut": answer.cut or answer.size > limit,
        }


def _fitting(values: list[str], text: str) -> list[str]:
    """Those that a text has room for: there are many ways to write a secret, and none is shorter than it."""
    return [value for value in values if len(value) <= len(text)]


def _plain(text: str) -> str:
    """Text without control characters, which would move somebody's cursor."""
    return text if text.isprintable() else _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
