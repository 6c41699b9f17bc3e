"""`/healthz`, `/readyz` and `/metrics`: for whoever restarts the process, sends it requests, and watches it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from rota.control.plane import ControlPlane
from rota.server.guard import allow, public
from rota.server.scraping import scrape
from rota.server.state import Server

router = APIRouter(tags=["health"])
open_metrics = APIRouter(tags=["health"])  # one of these two, by server.metrics_public
guarded_metrics = APIRouter(tags=["health"])

SAMPLE = '# TYPE rota_http_requests_total counter\nrota_http_requests_total{method="GET",route="/jobs",status="200"} 7.0\n'


class Health(BaseModel):
    """The process lives."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """Whether requests can be answered, and if not, why."""

    status: Literal["ready", "not ready"]
    wrong: str | None = None


@router.get("/healthz", dependencies=[Depends(public())])
async def healthz() -> Health:
    """Says that the process lives, whatever the database does: for who would restart it."""
    return Health()


@router.get("/readyz", dependencies=[Depends(public())], responses={503: {"model": Ready, "description": "It is not ready."}})
async def readyz(state: Server, response: Response) -> Ready:
    """Says whether the database is there, with this version's schema, and the server is not stopping: for who sends requests."""
    wrong = await state.readiness.check()
    if wrong is None:
        return Ready(status="ready")
    response.status_code = 503
    response.headers["retry-after"] = "2"
    return Ready(status="not ready", wrong=wrong)


_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"example": SAMPLE}}, "description": "In the text format of Prometheus."}
}


@open_metrics.get("/metrics", dependencies=[Depends(public())], response_class=Response, responses=_ANSWER)
async def metrics_for_all(state: Server) -> Response:
    """Requests by route, status and duration; jobs by queue; and what the worker inside counts, if there is one."""
    return Response(await scrape(state), media_type=CONTENT_TYPE_LATEST)


@guarded_metrics.get("/metrics", response_class=Response, responses=_ANSWER)
async def metrics(state: Server, _control: Annotated[ControlPlane, Depends(allow("metrics.read"))]) -> Response:
    """Requests by route, status and duration; jobs by queue; and what the worker inside counts, if there is one."""
    return Response(await scrape(state), media_type=CONTENT_TYPE_LATEST)
