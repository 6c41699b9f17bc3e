"""`POST /jobs/schedule`: synchronisations of calendars, asked for by an admin in a browser."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header
from pydantic import Field

from rota.control.plane import ControlPlane
from rota.errors import Forbidden
from rota.model.calendar_job import MOST, CalendarJob, ScheduledJobs
from rota.server.fields import Body
from rota.server.guard import allow
from rota.server.schemas import problems

router = APIRouter(tags=["calendars"])


class CalendarJobBody(Body, CalendarJob):
    """One synchronisation: which pair of calendars, by which connector, and what part of their time."""


class CalendarJobs(Body):
    """Synchronisations that are stored all or none."""

    jobs: list[CalendarJobBody] = Field(min_length=1, max_length=MOST, description="What is to be done.")


NEEDS_SESSION = "calendar jobs are scheduled by an admin who is signed in with a session cookie: a token will not do"


@router.post(
    "/jobs/schedule",
    operation_id="calendar_jobs_schedule",
    summary="Schedule synchronisations of calendars",
    status_code=202,
    responses=problems(409),
)
async def schedule_calendar_jobs(
    control: Annotated[ControlPlane, Depends(allow("jobs.schedule"))],
    body: CalendarJobs,
    idempotency_key: Annotated[
        str | None,
        Header(description="A repeated request with the same key and body makes no second jobs, and is answered as the first was."),
    ] = None,
) -> ScheduledJobs:
    """Stores one job for each synchronisation, all or none; they run when a worker has the calendar application.

    A failed one is tried again after 1, 2, 4, 8 and 16 minutes. The same key with another body is refused (409).
    """
    if control.actor.via != "session":
        raise Forbidden(NEEDS_SESSION)
    return await control.schedule_calendar_jobs(body.jobs, key=idempotency_key)
