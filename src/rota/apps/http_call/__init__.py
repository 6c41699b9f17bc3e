"""HTTP jobs: calls to other people's servers, made by workers."""

from __future__ import annotations

from functools import wraps
from typing import Any

from rota import Context, Rota
from rota.apps.http_call.caller import Caller
from rota.config import load_settings
from rota.model.http_call import SAFETY, TASK, HttpCall


async def http_call(ctx: Context, call: HttpCall) -> Any:
    """Makes an HTTP call; what is answered with 2xx has succeeded."""
    # Reached in a process of its own only, where a job is tried alone whose worker died: there is no application there.
    return await Caller(load_settings()).call(ctx, call)


def install(app: Rota) -> None:
    """Adds the task to an application."""
    caller = Caller(app.settings)

    @wraps(http_call)  # under this name a process of its own finds it
    async def call_by_settings(ctx: Context, call: HttpCall) -> Any:
        return await caller.call(ctx, call)

    http = app.settings.http
    app.queue(http.queue)
    app.task(name=TASK, queue=http.queue, timeout=SAFETY, tags=["http"], slots=http.concurrency)(call_by_settings)
