"""`/jobs`: jobs of whoever is signed in: HTTP jobs, and others that were made for them. Another's is like one that is not there."""

from __future__ import annotations

import base64
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query
from pydantic import ConfigDict, Field, SecretStr, StrictInt, StrictStr, model_validator

from rota.control import http_jobs
from rota.control.audit import record
from rota.control.http_jobs import MAX_LIMIT, Attempt, OwnJob, get_line, shown_new
from rota.errors import KeyReused, UsageError
from rota.model.http_call import MAX_BODY_BYTES, MAX_HEADERS, MAX_SECRETS, MAX_URL_BYTES, CallOptions, Method
from rota.model.retry import Retry
from rota.model.secret import origin_of
from rota.server.fields import Body, Text, Time
from rota.server.guard import Principal, signed_in
from rota.server.paging import CursorText, Limit, Page, decode_cursor, decode_id, encode_cursor, next_cursor
from rota.server.schemas import JobState, problems
from rota.server.state import CREATED, Arrival, Server

router = APIRouter(tags=["own jobs"])

Seconds = Annotated[float, Field(ge=0, le=86_400, strict=True)]
Me = Annotated[Principal, Depends(signed_in())]


class RetryPolicy(Body):
    """How often a call is tried, and how long after a failure: `base_s`, twice that, four times that, at most `cap_s`."""

    max_attempts: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    base_s: Seconds = 5
    cap_s: Seconds = 300
    jitter_s: Seconds = 1


class NewHttpJob(Body):
    """A call to be made. Header values, query, body and signing secret are never shown again."""

    model_config = ConfigDict(
        hide_input_in_errors=True,
        json_schema_extra={"examples": [{"url": "https://api.example.org/hooks", "json": {"order": 7}, "timeout_s": 10}]},
    )

    url: Annotated[StrictStr, Field(min_length=1, max_length=MAX_URL_BYTES)]
    method: Method = "POST"
    headers: dict[StrictStr, StrictStr] = Field(default={}, max_length=MAX_HEADERS)
    body: StrictStr | None = Field(default=None, max_length=MAX_BODY_BYTES)
    body_base64: StrictStr | None = Field(
        default=None, max_length=2 * MAX_BODY_BYTES, description="A body that is not text.", examples=["AP8="]
    )
    json_body: Any = Field(default=None, alias="json", description="A body that is sent as JSON.")
    run_at: Time | None = Field(default=None, description="When to call; at once if left out.")
    timeout_s: Annotated[float, Field(gt=0, le=3600, strict=True)] = 30
    retry: RetryPolicy | None = None
    max_retries: Annotated[StrictInt, Field(ge=0, le=99)] | None = Field(
        default=None, deprecated=True, description="Attempts after the first one: `retry.max_attempts` less one."
    )
    idempotency_key: Text | None = Field(default=None, max_length=255)
    signing_secret: SecretStr | Annotated[list[SecretStr], Field(max_length=MAX_SECRETS)] | None = None

    @model_validator(mode="after")
    def _read_max_retries(self) -> NewHttpJob:
        if (retries := self.__dict__["max_retries"]) is not None:  # as an attribute it would warn that it is deprecated
            policy = self.retry or RetryPolicy()
            if policy.max_attempts not in (None, retries + 1):
                raise ValueError(
                    f"max_retries={retries} and retry.max_attempts={policy.max_attempts} differ: "
                    f"give only one of them, {retries} retries are {retries + 1} attempts"
                )
            self.retry = policy.model_copy(update={"max_attempts": retries + 1})
        return self

    def options(self) -> CallOptions:
        """What it asks for, as the application takes it."""
        bodies = [each for each in (self.body, self.body_base64, self.json_body) if each is not None]
        if len(bodies) > 1:
            raise UsageError("give one of body, body_base64 and json")
        secrets = [self.signing_secret] if isinstance(self.signing_secret, SecretStr) else self.signing_secret or []
        options: CallOptions = {
            "method": self.method,
            "json": self.json_body,
            "body": self.body if self.body_base64 is None else _read_base64(self.body_base64),
            "headers": self.headers,
            "timeout": self.timeout_s,
            "secret": [secret.get_secret_value() for secret in secrets],
            "run_at": self.run_at,
        }
        if self.retry is not None:
            asked = self.retry
            options["retry"] = Retry(asked.max_attempts, base=asked.base_s, cap=asked.cap_s, jitter=asked.jitter_s)
        return options

    @property
    def timing(self) -> dict[str, Any]:
        """What it asks for beside the call: kept with the job, to know a repetition of the same request."""
        return {
            "run_at": None if self.run_at is None else self.run_at.isoformat(),
            "retry": None if self.retry is None else self.retry.model_dump(),
        }


@router.post("/jobs", status_code=202, operation_id="http_jobs_create", summary="Make an HTTP job", responses=problems(409))
async def create_http_job(
    who: Me,
    server: Server,
    body: NewHttpJob,
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=255, description="The same key with the same request is the same job, for a day."),
    ] = None,
) -> OwnJob:
    """Stores a job that makes a call; a worker makes it, at its time."""
    if idempotency_key is not None and body.idempotency_key not in (None, idempotency_key):
        raise UsageError("the header Idempotency-Key and the field idempotency_key differ: give one of them")
    owner = str(who.account_id)
    origin = {"kind": "api", "user": who.email, "asked": body.timing}
    options = body.options() | {"key": body.idempotency_key or idempotency_key, "owner": owner, "triggered_by": origin}
    job = server.app.call(body.url, **options)
    detail = {"method": body.method, "origin": origin_of(body.url)}
    if job.settings.key is None:
        return shown_new((await server.arrivals.ask(Arrival(job, who.actor, detail))).id, job)
    async with server.connection() as conn, conn.transaction():  # by itself: it may have to wait for another with its key
        [stored] = await server.app.aenqueue_many([job], conn=conn)
        if stored.created:
            await record(conn, who.actor, CREATED, str(stored.id), detail)
            return shown_new(stored.id, job)
        line = await get_line(conn, owner, stored.id)
    if (line.triggered_by or {}).get("asked") != body.timing:
        raise KeyReused(f"the key belongs to job {stored.id}, which was asked for with another run_at or retry")
    return http_jobs.shown(line)


class OwnJobQuery(Body):
    """Which of one's own jobs are meant."""

    state: list[JobState] = Field(default=[], max_length=6, description="Only jobs in one of these states.")
    cursor: CursorText = None
    limit: Limit = 50


class AttemptQuery(Body):
    """Which attempts are meant."""

    cursor: CursorText = None
    limit: Limit = 50


@router.get("/jobs", operation_id="own_jobs_list", summary="List your own jobs", responses=problems())
async def list_own_jobs(who: Me, server: Server, query: Annotated[OwnJobQuery, Query()]) -> Page[OwnJob]:
    """Your own jobs, newest first; at most 100 of them on a page."""
    before = decode_id("own_jobs", query.cursor)
    async with server.connection() as conn:
        page = await http_jobs.list_jobs(
            conn, str(who.account_id), states=query.state, before=before, limit=min(query.limit, MAX_LIMIT)
        )
    return Page(items=page.jobs, next=next_cursor("own_jobs", page.next))


@router.get("/jobs/{id}", operation_id="own_jobs_get", summary="Show one of your jobs", responses=problems(404))
async def get_own_job(who: Me, server: Server, id: UUID) -> OwnJob:
    """One of your jobs."""
    async with server.connection() as conn:
        return await http_jobs.get_job(conn, str(who.account_id), id)


@router.get(
    "/jobs/{id}/attempts", operation_id="own_jobs_attempts", summary="List attempts at one of your jobs", responses=problems(404)
)
async def list_own_attempts(who: Me, server: Server, id: UUID, query: Annotated[AttemptQuery, Query()]) -> Page[Attempt]:
    """What became of each attempt, newest first; one without an end is being made, or was when its worker died."""
    place = decode_cursor("attempts", query.cursor, int)
    limit = min(query.limit, MAX_LIMIT)
    async with server.connection() as conn:
        found = await http_jobs.list_attempts(conn, str(who.account_id), id, before=place[0] if place else None, limit=limit + 1)
    more = len(found) > limit
    return Page(items=found[:limit], next=encode_cursor("attempts", found[limit - 1].attempt) if more else None)


@router.post("/jobs/{id}/cancel", operation_id="own_jobs_cancel", summary="Cancel one of your jobs", responses=problems(404, 409))
async def cancel_own_job(who: Me, server: Server, id: UUID) -> OwnJob:
    """Ends a job that does not run; one that does is asked to stop."""
    async with server.connection() as conn, conn.transaction():
        job = await http_jobs.cancel_job(conn, str(who.account_id), id)
        await record(conn, who.actor, "own_jobs.cancel", str(id))
        return job


@router.post("/jobs/{id}/retry", operation_id="own_jobs_retry", summary="Retry one of your jobs", responses=problems(404, 409))
async def retry_own_job(who: Me, server: Server, id: UUID) -> OwnJob:
    """Runs a failed or canceled job again, with its history; one that waits runs at once."""
    async with server.connection() as conn, conn.transaction():
        job = await http_jobs.retry_job(conn, str(who.account_id), id)
        await record(conn, who.actor, "own_jobs.retry", str(id))
        return job


def _read_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        error = UsageError("body_base64 is not base64: letters, digits, + and /, with = at its end")
        error.field = "body_base64"
        raise error from None
