"""The server as an ASGI application, to be run by `rota server` or mounted in another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Depends, FastAPI, Request, Response

import rota
from rota.config import Settings
from rota.server import openapi, problem
from rota.server.bodies import BodyLimit
from rota.server.guard import public
from rota.server.headers import SecurityHeaders
from rota.server.proxies import Proxied
from rota.server.rates import RateLimit
from rota.server.refusals import Refused
from rota.server.routes import (
    alerts,
    audit,
    auth,
    calendar,
    calendar_jobs,
    dashboard,
    errors,
    health,
    http_jobs,
    jobs,
    logs,
    overview,
    queues,
    runs,
    schedules,
    stats,
    stream,
    tasks,
    tokens,
    users,
    webhooks,
    workers,
)
from rota.server.state import State, with_secret
from rota.server.tracing import Traced

if TYPE_CHECKING:
    from rota.app import Rota

NOUNS = (  # the busiest first: routes are tried one after the other
    calendar_jobs,
    http_jobs,
    auth,
    users,
    tokens,
    audit,
    overview,
    jobs,
    schedules,
    calendar,
    tasks,
    runs,
    logs,
    errors,
    queues,
    workers,
    alerts,
    webhooks,
    stats,
    stream,
    dashboard,
)


def make_asgi(app: Rota, *, settings: Settings | None = None) -> FastAPI:
    """The server of an application: every route, with its own connections to the application's database.

    Mounted in another application, its requests work as they are; what goes on beside them (the worker inside, the timer, the
    end of streams) begins and ends with `running`, which that application's lifespan must enter.
    """
    app.import_modules()
    state = State(app, with_secret(settings or app.settings))
    server = state.settings.server
    asgi = FastAPI(
        title="Rota",
        version=rota.__version__,
        description=openapi.DESCRIPTION,
        openapi_url=None,  # it has a route of its own; pages that show it come from other hosts, which our headers forbid
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=running,
    )
    asgi.state.rota = state
    problem.install(asgi)
    metrics = health.open_metrics if server.metrics_public else health.guarded_metrics
    brought: list[APIRouter] = [resolve_name(each) for each in app.routers]  # by applications, see `Rota.routers`
    routers = [*(noun.router for noun in NOUNS), *brought, health.router, metrics, _document_router(asgi)]
    asgi.state.routers = routers
    openapi.rules(routers)  # each has one, or we do not start
    openapi.name_operations(routers)
    for router in routers:
        asgi.router.routes.extend(router.routes)  # as they are: `include_router` makes each anew, which takes a quarter of a second
    # The last one added is the first to see a request.
    asgi.add_middleware(BodyLimit, most=server.max_body_bytes)
    asgi.add_middleware(Refused, refusals=state.refusals)
    asgi.add_middleware(RateLimit, per_minute=server.requests_per_minute)
    asgi.add_middleware(Traced, requests=state.requests)
    asgi.add_middleware(SecurityHeaders)
    asgi.add_middleware(Proxied, settings=server)
    return asgi


@asynccontextmanager
async def running(asgi: FastAPI) -> AsyncIterator[None]:
    """What goes on beside the requests, for the length of a block."""
    state: State = asgi.state.rota
    state.start()
    try:
        yield
    finally:
        await state.aclose()


def _document_router(asgi: FastAPI) -> APIRouter:
    router = APIRouter(tags=["health"])
    made: dict[str, Any] = {}

    @router.get("/openapi.json", dependencies=[Depends(public())])
    async def openapi_document(request: Request) -> dict[str, Any]:
        """This document."""
        if not made:  # which takes most of a second: others go on meanwhile
            made.update(await asyncio.to_thread(openapi.document, asgi, asgi.state.routers))
        answer = {**made, "servers": [{"url": request.scope.get("root_path") or "/"}]}
        return Response(orjson.dumps(answer), media_type="application/json")  # type: ignore[return-value]

    return router
