"""HTTP jobs: calls to other people's servers, made by workers."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from rota import Context, Rota
from rota.config import Settings, load_settings
from rota.model.http_call import SAFETY, TASK, HttpCall

if TYPE_CHECKING:
    from rota.apps.http_call.caller import Caller


async def http_call(ctx: Context, call: HttpCall) -> Any:
    """Makes an HTTP call; what is answered with 2xx has succeeded."""
    # Reached in a process of its own only, where a job is tried alone whose worker died: there is no application there.
    return await _caller(load_settings()).call(ctx, call)


def install(app: Rota) -> None:
    """Adds the task to an application."""
    caller = lru_cache(1)(lambda: _caller(app.settings))

    @wraps(http_call)  # under this name a process of its own finds it
    async def call_by_settings(ctx: Context, call: HttpCall) -> Any:
        return await caller().call(ctx, call)

    http = app.settings.http
    app.queue(http.queue)
    app.task(name=TASK, queue=http.queue, timeout=SAFETY, tags=["http"], slots=http.concurrency)(call_by_settings)


def _caller(settings: Settings) -> Caller:
    from rota.apps.http_call.caller import Caller  # with the first call: aiohttp is not small

    return Caller(settings)
