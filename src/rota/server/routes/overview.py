"""`/api/admin/overview`: everything at a glance."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

import rota
from rota.control.calendar import NextRun
from rota.control.overview import AlertCounts, Health, OldestWait, Trouble, WorkerCounts
from rota.control.plane import ControlPlane
from rota.model.capped import Capped
from rota.server.etag import TaggedRoute
from rota.server.guard import allow
from rota.server.state import state_of

router = APIRouter(prefix="/api/admin", tags=["overview"], route_class=TaggedRoute)


class OverviewAnswer(BaseModel):
    """How it goes. What one may not see is null, and is not spoken of."""

    at: datetime = Field(description="By the database's clock.")
    app: str = Field(description="What the application is called.", examples=["shop"])
    environment: str = Field(description="Where it runs: local, staging or production.", examples=["production"])
    version: str = Field(description="Rota's.")
    health: Health = Field(description="`empty`: nothing has run yet, and nothing waits.", examples=["warning"])
    sentence: str = Field(examples=["mail is 4 min behind; 1 schedule is late"])
    problems: list[Trouble] = Field(description="One entry per kind of problem: open alerts, then the worst first.")
    queued: Capped = Field(description="Due or not, and those that limits hold back.")
    delayed: Capped = Field(description="Of these: not due yet.")
    running: Capped
    waiting: Capped = Field(description="For their parents.")
    oldest: OldestWait | None = Field(description="The job that has been due for longest; null: none is due.")
    failed_1h: Capped = Field(description="Jobs that failed for good within the last hour; counted to 1,000.")
    workers: WorkerCounts | None = Field(description="By state, the dead ones of the last day; slots of those that live.")
    alerts: AlertCounts | None = Field(description="Those that nobody has acknowledged.")
    next_run: NextRun | None = Field(description="The schedule or recurring row that runs next.")


@router.get("/overview", operation_id="overview_get", summary="Show how it goes")
async def overview(request: Request, control: Annotated[ControlPlane, Depends(allow("jobs.read"))]) -> OverviewAnswer:
    """How it goes in a sentence, what is wrong, and how much there is of everything: what a first page shows."""
    found = await control.overview()
    members = {each.name: getattr(found, each.name) for each in dataclasses.fields(found)}
    state = state_of(request)
    return OverviewAnswer(app=state.app.name, environment=state.settings.app.env, version=rota.__version__, **members)
