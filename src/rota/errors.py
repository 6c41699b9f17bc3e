"""Every error Rota raises on purpose.

    RotaError
    ├── ConfigError            a setting, an option or the set-up is wrong
    ├── UsageError             the call itself is wrong
    │   ├── PayloadError       the arguments cannot be stored, or do not fit the task
    │   ├── UnknownOption      no option of that name (a TypeError too)
    │   ├── UnknownTask        no task of that name
    │   ├── UnknownQueue       no queue of that name
    │   ├── InvalidSchedule    a cron expression or a time zone that means nothing
    │   ├── InvalidQuery       a search that cannot be read
    │   ├── InvalidCursor      a place in a list that no list gave
    │   └── CycleError         jobs that wait for each other
    ├── NotFound               no such job, worker or queue
    │   └── ParentNotFound     a parent that does not exist
    ├── Conflict               what is there already forbids it
    │   ├── DuplicateKey       strict mode: a job with this key exists
    │   ├── HttpJobsOff        HTTP jobs are not switched on
    │   ├── KeyReused          the key belongs to a job with another payload
    │   ├── ParentFailed       a parent has already failed or was canceled
    │   ├── OwnedElsewhere     another application has this task with other parameters, or this queue with other limits
    │   ├── Stale              it is no longer what the caller has seen
    │   └── InvalidTransition  the job is in a state that does not allow this
    ├── AuthError              not signed in, or not allowed
    │   └── Forbidden          this actor may not do that
    │       └── CrossOrigin    another site's page asks for it
    ├── RateLimited            somebody asks more often than they may
    ├── TooManyStreams         as many live streams as this server has are open
    ├── DatabaseError          PostgreSQL is away, too old, or not migrated
    │   ├── MigrationError     a migration cannot be applied
    │   └── NotMigrated        tables that the code needs are missing
    ├── Unreachable            a server of Rota cannot be reached, or is none
    └── RunError               what ends a run (seen in `run.error`, rarely caught)
        ├── CallFailed         an HTTP call was not answered, or not with 2xx
        ├── DeliveryFailed     a webhook did not take a message
        ├── HousekeepingFailed rules of housekeeping could not be followed
        ├── HandlerFailed      a handler in a process of its own raised something
        ├── JobTimeout         the handler exceeded its timeout
        ├── LeaseLost          this worker no longer holds the job
        └── WorkerCrashed      the process that ran the handler died

`exit_code`, `http_status` and `code` on each class are the one table that maps errors to the command line and to HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

DISTRIBUTION = "rota-jobs"  # the name `rota` belongs to another project on the package index


class RotaError(Exception):
    """The root of every error that Rota raises on purpose."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    field: str | None = None  # of a request, where the error is about one


class ConfigError(RotaError):
    """A setting, an option or the set-up is wrong."""

    code = "config"
    exit_code = 2


class UsageError(RotaError, ValueError):
    """The call itself is wrong; nothing was changed."""

    code = "usage"
    exit_code = 2
    http_status = 422


class PayloadError(UsageError):
    """The arguments cannot be stored, or do not fit the task."""

    code = "payload"


class UnknownOption(UsageError, TypeError):
    """No option of that name exists."""

    code = "unknown_option"


class UnknownTask(UsageError):
    """No task of that name is defined."""

    code = "unknown_task"


class UnknownQueue(UsageError):
    """No queue of that name is declared."""

    code = "unknown_queue"


class InvalidSchedule(UsageError):
    """A cron expression or a time zone that means nothing, or never comes."""

    code = "invalid_schedule"


class InvalidQuery(UsageError):
    """A search that cannot be read; `position` is where in its text, counted from 0."""

    code = "query"
    field = "q"

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class InvalidCursor(UsageError):
    """A place in a list that no list gave, or another list."""

    code = "cursor"


class CycleError(UsageError):
    """Jobs that wait for each other could never run."""

    code = "cycle"


class NotFound(RotaError, LookupError):
    """No such job, worker or queue."""

    code = "not_found"
    exit_code = 3
    http_status = 404


class ParentNotFound(NotFound):
    """A parent named for a job does not exist."""

    code = "parent_not_found"
    http_status = 422


class Conflict(RotaError):
    """What is there already forbids it."""

    code = "conflict"
    exit_code = 4
    http_status = 409


class DuplicateKey(Conflict):
    """Strict mode: a job with this key exists already."""

    code = "duplicate_key"


class HttpJobsOff(Conflict):
    """HTTP jobs are not switched on here."""

    code = "http_jobs_off"


class KeyReused(Conflict):
    """The key belongs to a job with another payload."""

    code = "key_reused"


class ParentFailed(Conflict):
    """A parent named for a job has already failed or was canceled."""

    code = "parent_failed"


class OwnedElsewhere(Conflict):
    """Another application on the same database has a task of this name with other parameters, or a queue with other limits."""

    code = "owned_elsewhere"


class Stale(Conflict):
    """It is no longer what the caller has seen; nothing was changed."""

    code = "stale"
    http_status = 412


class InvalidTransition(Conflict):
    """The job is in a state that does not allow this."""

    code = "invalid_transition"


class AuthError(RotaError):
    """Not signed in, or not allowed."""

    code = "auth"
    exit_code = 5
    http_status = 401


class Forbidden(AuthError):
    """This actor may not do that; nothing was changed."""

    code = "forbidden"
    http_status = 403


class CrossOrigin(Forbidden):
    """A page of another site asks for a change in the name of who is signed in here; nothing was changed."""

    code = "cross_origin"


class RateLimited(RotaError):
    """Somebody asks more often than they may; nothing was done."""

    code = "rate_limited"
    http_status = 429

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooManyStreams(RotaError):
    """As many live streams as this server has are open already."""

    code = "too_many_streams"
    http_status = 503


class DatabaseError(RotaError):
    """PostgreSQL is away, too old, or not migrated."""

    code = "database"
    exit_code = 6
    http_status = 503


class MigrationError(DatabaseError):
    """A migration cannot be applied."""

    code = "migration"


class NotMigrated(DatabaseError):
    """Tables that the code needs are missing: `rota migrate up` creates them."""

    code = "not_migrated"


class Unreachable(RotaError):
    """A server of Rota cannot be reached, or what answers there is none."""

    code = "unreachable"
    exit_code = 6
    http_status = 502


class RunError(RotaError):
    """What ends a run."""

    code = "run"


class CallFailed(RunError):
    """An HTTP call was not answered, or not with 2xx; `call` says what there is to say, as it is kept with the run."""

    code = "call_failed"

    def __init__(self, message: str, call: dict[str, Any] | None = None, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.call = call or {}
        self.retry_after_s = retry_after_s  # when the other side wants to be asked again


class DeliveryFailed(RunError):
    """A webhook did not take a message; the job that brings it tries again."""

    code = "delivery_failed"


class HousekeepingFailed(RunError):
    """Rules of housekeeping could not be followed; the others were."""

    code = "housekeeping_failed"


class HandlerFailed(RunError):
    """A handler in a process of its own raised something: `described` says what, in the words of that process."""

    code = "handler_failed"

    def __init__(self, described: dict[str, Any]) -> None:
        super().__init__(f"{described['type']}: {described['message']}")
        self.described = described


class JobTimeout(RunError):
    """The handler exceeded its timeout."""

    code = "timeout"


class LeaseLost(RunError):
    """This worker no longer holds the job: whatever it says about it changes nothing."""

    code = "lease_lost"


class WorkerCrashed(RunError):
    """The process that ran the handler died."""

    code = "worker_crashed"


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The end of an error about a name that is not known: the one that was probably meant, or else what `otherwise` says."""
    from difflib import get_close_matches  # here, since most processes never misspell anything

    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise


def how_to_install(extra: str) -> str:
    """Return the end of an error about a library that is missing: the command that installs it."""
    return f"install it with `pip install '{DISTRIBUTION}[{extra}]'`"
