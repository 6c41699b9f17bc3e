"""What requests to the admin API say: filters of lists, and bodies."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, StrictStr, model_validator

from rota.control.service import MAX_OFFSET
from rota.errors import UsageError
from rota.model.filters import JobFilter
from rota.model.job_query import parse_query
from rota.model.schedule import Misfire, Overlap, Timing, cron, every
from rota.server.fields import Body, Count, Flag, LongText, Moment, Name, Object, Span, Text, Time, Whole
from rota.server.paging import CursorText, Limit
from rota.server.problem import CODES, MEDIA_TYPE

JobState = Literal["waiting", "queued", "running", "completed", "failed", "canceled"]
ON_PARENT_FAILURE = Literal["cancel", "fail", "ignore"]
Fingerprint = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{4,16}$", examples=["3f9a0c1d2e4b5a67"])]
Priority = Annotated[
    Annotated[Whole, Field(ge=-32768, le=32767)] | None, Field(description="Smaller numbers run first. Null: the task's.")
]
MaxAttempts = Annotated[Whole, Field(ge=1, le=1000)]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What an operation may answer beside what every operation may."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": f"`{CODES[status][0]}`: {CODES[status][1]}.", "content": content} for status in statuses}


class JobMatch(Body):
    """Which jobs are meant: everything that is given holds. `q` says the same in one line, with conditions on payloads."""

    state: list[JobState] = Field(default=[], max_length=6, description="In one of these states.")
    task: Text | None = Field(default=None, description="Of this task; a pattern with * and ?.", examples=["send_*"])
    queue: Text | None = Field(default=None, description="In this queue.")
    key: Text | None = Field(default=None, description="With this idempotency key.")
    owner: Text | None = Field(default=None, description="Of this account.")
    text: Text | None = Field(default=None, description="With this in the error, in small or capital letters.")
    error: Fingerprint | None = Field(default=None, description="Of this group of errors.")
    id: list[UUID] = Field(default=[], max_length=1000, description="One of these jobs.")
    since: Moment | None = Field(default=None, description="Created then or later.")
    until: Moment | None = Field(default=None, description="Created before.")
    q: LongText | None = Field(
        default=None,
        description="A search in one line; words without a name are text of the error.",
        examples=["state:failed task:send_* payload.user_id:42 since:1h"],
    )

    def filter(self) -> JobFilter:
        """The filter that is meant."""
        found = JobFilter() if self.q is None else parse_query(self.q)
        given: dict[str, Any] = {"states": tuple(self.state), "fingerprint": self.error, "ids": tuple(self.id)}
        given |= {name: getattr(self, name) for name in ("task", "queue", "key", "owner", "text", "since", "until")}
        given = {name: value for name, value in given.items() if value}
        for name in given:
            if getattr(found, name):
                raise UsageError(f"{name} is given twice, in q and beside it: once is enough")
        return replace(found, **given)


class JobQuery(JobMatch):
    """A page of the jobs that match."""

    count: bool = Field(default=False, description="Whether to count them, too, as far as that is cheap.")
    cursor: CursorText = None
    offset: int = Field(
        default=0, ge=0, le=MAX_OFFSET, description="Jobs to skip. Prefer `cursor`: new jobs move what an offset points to."
    )
    limit: Limit = 50


class EnqueueBody(Body):
    """A new job."""

    task: Text = Field(examples=["send_invoice"])
    payload: Object = Field(default={}, examples=[{"user_id": 42}])
    queue: Text | None = Field(default=None, description="Null: the task's.")
    priority: Priority = None
    run_at: Time | None = Field(default=None, description="Not before then; or give `delay`.")
    delay: Span | None = Field(default=None, description="Not before so long from now.")
    key: Text | None = Field(default=None, description="Idempotency key: a second job with it is not made, and the first one told.")
    strict: Flag = Field(default=False, description="Whether a second job with the key is an error (409).")
    max_attempts: MaxAttempts | None = None
    timeout: Span | None = None
    parents: list[UUID] = Field(default=[], max_length=1000, description="Jobs that must complete first.")
    on_parent_failure: ON_PARENT_FAILURE = "cancel"

    def options(self) -> dict[str, Any]:
        """What `enqueue` takes beside task and payload."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in ("task", "payload")}


class TriggerBody(Body):
    """How a job made by hand differs from what the task says."""

    payload: Object | None = Field(default=None, description="Over the task's default payload.", examples=[{"user_id": 42}])
    queue: Text | None = None
    priority: Priority = None
    run_at: Time | None = None
    delay: Span | None = None
    key: Text | None = None
    max_attempts: MaxAttempts | None = None
    timeout: Span | None = None

    def options(self) -> dict[str, Any]:
        """What `trigger` takes beside the payload."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "payload"}


class ReasonBody(Body):
    """Why."""

    reason: Text | None = Field(default=None, description="For whoever wonders later.", examples=["the mail server is down"])


class EditBody(Body):
    """Another payload: all of it, or the members that change."""

    payload: Object | None = Field(default=None, description="The whole new payload.")
    changes: Object | None = Field(default=None, description="Members that change; the others stay.", examples=[{"user_id": 43}])

    @model_validator(mode="after")
    def _one(self) -> EditBody:
        if (self.payload is None) == (self.changes is None):
            raise ValueError("give payload or changes, and not both")
        return self


class RescheduleBody(Body):
    """Another time."""

    run_at: Time


class BulkBody(Body):
    """An operation on every job that matches. At least one condition must be given."""

    action: Literal["retry", "cancel"]
    filter: JobMatch = Field(examples=[{"state": ["failed"], "task": "send_*"}])
    dry_run: Flag = Field(default=False, description="Only count them.")
    reason: Text | None = Field(default=None, description="Why they are canceled.")
    cursor: CursorText = Field(default=None, description="`next` of the answer before, to go on from there.")


class TimingBody(Body):
    """When a schedule fires."""

    cron: Text | None = Field(default=None, examples=["0 3 * * *"], description="Five fields.")
    every: Span | None = Field(default=None, description="Or an interval.")
    tz: Text | None = Field(default=None, description="Of the cron.", examples=["Europe/Berlin"])


class ScheduleSettings(TimingBody):
    """What can be set of a schedule."""

    payload: Object | None = None
    enabled: Flag | None = None
    queue: Text | None = None
    priority: Priority = None
    max_attempts: MaxAttempts | None = None
    misfire: Misfire | None = None
    catch_up: Annotated[Whole, Field(ge=1, le=10_000)] | None = None
    overlap: Overlap | None = None
    jitter: Span | None = None
    starts_at: Time | None = None
    ends_at: Time | None = None
    start_within: Span | None = None
    finish_within: Span | None = None


class ScheduleBody(ScheduleSettings):
    """A new schedule; it has a cron expression or an interval."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "nightly", "task": "send_invoice", "cron": "0 3 * * *", "tz": "Europe/Berlin"}]},
    )

    name: Name
    task: Text

    def timing(self) -> Timing:
        """When it fires."""
        names = ("misfire", "catch_up", "overlap", "jitter", "starts_at", "ends_at", "start_within", "finish_within")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.cron is not None and self.every is None:
            return cron(self.cron, tz=self.tz or "UTC", **given)
        if self.every is not None and self.cron is None and self.tz in (None, "UTC"):
            return every(self.every, **given)
        if self.every is not None and self.cron is None:
            raise UsageError("tz has no meaning without a cron expression: intervals are the same everywhere")
        raise UsageError("give cron or every, and not both")

    def options(self) -> dict[str, Any]:
        """What `create_schedule` takes beside the timing."""
        given = {name: getattr(self, name) for name in ("payload", "queue", "priority", "max_attempts", "enabled")}
        return {name: value for name, value in given.items() if value is not None}


class ScheduleChange(ScheduleSettings):
    """What changes of a schedule: members that are not given stay; null takes a setting away."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"cron": "0 4 * * *", "enabled": True}]})

    task: Text | None = None

    def changes(self) -> tuple[dict[str, Any], list[str]]:
        """The members with a value, and those that are taken away."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if not given:
            raise UsageError("nothing to change: name at least one setting, such as cron or enabled")
        return {name: value for name, value in given.items() if value is not None}, [
            name for name, value in given.items() if value is None
        ]


class PreviewBody(TimingBody):
    """A timing to look at before it is used."""

    count: Annotated[Whole, Field(ge=1, le=100)] = 5


class RetrySettings(Body):
    """How the pause before another attempt grows."""

    base: Span | None = None
    cap: Span | None = None
    jitter: Span | None = None


class TaskSettings(Body):
    """What operators say of a task instead of its code; null is no limit, or what holds for all tasks."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"max_concurrency": 5, "retry": {"base": "30s"}}]})

    max_concurrency: Count | None = None
    rate: Text | None = Field(default=None, examples=["100/m"])
    key_concurrency: Count | None = None
    key_rate: Text | None = None
    max_attempts: MaxAttempts | None = None
    timeout: Span | None = None
    retry: RetrySettings | None = None
    retention_days: Count | None = None
    retention_count: Count | None = None
    default_payload: Object | None = None

    def settings(self) -> dict[str, Any]:
        """As `update` takes them."""
        given = {name: getattr(self, name) for name in self.model_fields_set if name != "retry"}
        if self.retry is not None:
            given |= {f"retry.{name}": getattr(self.retry, name) for name in self.retry.model_fields_set}
        return given


class QueueLimits(Body):
    """What operators say of a queue's limits instead of code; null is no limit, and what is not given stays."""

    max_concurrency: Count | None = None
    rate: Text | None = Field(default=None, examples=["50/s"])


class NoteBody(Body):
    """A note with an acknowledgement."""

    note: Text | None = Field(default=None, examples=["Bo looks into it"])


class WebhookBody(Body):
    """Who is to be told of alerts."""

    url: LongText = Field(examples=["https://example.org/hooks/rota"])
    kinds: list[Text] = Field(default=[], max_length=50, description="Of alerts; none named: all.", examples=[["job_failed"]])


class SyncBody(Body):
    """Which tasks are to be as the code says, whatever operators have changed."""

    force: Flag | list[Text] = Field(default=False, description="All of them, or these.")
