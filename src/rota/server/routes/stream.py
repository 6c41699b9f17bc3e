"""`/api/admin/stream`: what changes, as server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from rota.control.plane import ControlPlane
from rota.server.events import EventStream
from rota.server.guard import allow
from rota.server.looks import KINDS
from rota.server.state import Server

router = APIRouter(prefix="/api/admin", tags=["stream"])

may_look = allow("jobs.read")

EXAMPLE = (
    'retry: 2113\n\nid: 5f0c1b7a9e42-17\nevent: hello\ndata: {"kinds":["alerts","jobs","queues"]}\n\n'
    'id: 5f0c1b7a9e42-18\nevent: queues\ndata: {"changed":[{"name":"mail","paused":false,"ready":12,"delayed":0,'
    '"held":0,"waiting":0,"running":4,"cap":1000}],"gone":[],"more":false}\n\n'
)


@router.get(
    "/stream",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"example": EXAMPLE}}, "description": "Events, until somebody ends it."}},
)
async def stream(
    request: Request,
    state: Server,
    control: Annotated[ControlPlane, Depends(may_look)],
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """What changes, as it changes: queues, jobs, runs, workers, alerts, schedules, tasks, as far as one may see them.

    Each event is a hint of what to fetch: `changed` are rows as they are now, `gone` the keys of those that are no more, and
    `more` says that not all are named. After a pause, `Last-Event-ID` gets what came meanwhile, or an event `reset`: fetch
    everything anew.
    """

    async def look_again() -> frozenset[str]:
        return _kinds(await may_look(request))

    return EventStream(state.hub, state.hub.enter(control.actor.account), last_event_id, _kinds(control), look_again)


def _kinds(control: ControlPlane) -> frozenset[str]:
    return frozenset(kind for kind, operation in KINDS.items() if control.may(operation))
