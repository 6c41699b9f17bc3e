"""Who may do what: roles, and a policy that an application can replace.

Strict by default: tasks, runs and logs are for admins. Nobody writes runs and logs but the system; no operation does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args
from uuid import UUID

from rota.errors import Forbidden, UsageError
from rota.model.filters import check_text

if TYPE_CHECKING:
    from rota.config import Settings

Role = Literal["admin", "operator", "read_only", "user", "system"]  # a user has HTTP jobs of their own, and nothing else here

MAX_NAME = 254  # an address of mail is a name too

_ADMINS = frozenset({"admin"})
_OPERATORS = frozenset({"admin", "operator"})
_READERS = frozenset({"admin", "operator", "read_only"})
_NOBODY: frozenset[str] = frozenset()  # but the system

# The one rule for every way to run a task: whoever decides what runs, with which payload or when, needs this operation. Jobs and
# schedules that exist may be retried, rescheduled, enabled and stopped as they are with `jobs.change` and `schedules.change`.
RUN = "tasks.trigger"

DEFAULT: Mapping[str, frozenset[str]] = {
    "tasks.read": _ADMINS,
    "tasks.change": _ADMINS,  # sync, enable, disable, schedule, limits, retry, retention
    RUN: _ADMINS,  # trigger, enqueue, edit and retry, create a schedule or change what it runs and when, run one now
    "runs.read": _ADMINS,  # and what is made of them: error groups, statistics
    "runs.write": _NOBODY,
    "logs.read": _ADMINS,
    "logs.write": _NOBODY,
    "jobs.read": _READERS,
    "jobs.change": _OPERATORS,  # retry as they are, cancel, reschedule
    "jobs.schedule": _ADMINS,  # synchronisations of calendars
    "queues.read": _READERS,
    "queues.change": _OPERATORS,
    "schedules.read": _READERS,
    "schedules.change": _OPERATORS,  # enable, disable, delete, queue, priority
    "workers.read": _READERS,
    "alerts.read": _READERS,
    "alerts.change": _OPERATORS,
    "webhooks.read": _ADMINS,
    "webhooks.change": _ADMINS,
    "users.read": _ADMINS,
    "users.change": _ADMINS,  # create, set the role, disable
    "tokens.change": _ADMINS,  # those of others: everybody has their own
    "audit.read": _ADMINS,
    "metrics.read": _READERS,
}
# Scopes of a token for what everybody has of their own, such as HTTP jobs: nobody is refused these.
OWN = ("own.read", "own.change")


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody, or something, that acts: the name is written down with what was done."""

    name: str
    role: Role
    account: UUID | None = None  # theirs, where somebody has signed in
    via: str | None = None  # how they did: session, jwt, or token and its number; cli: on the database itself
    scopes: frozenset[str] | None = None  # of a token: it does these operations only; None: all of the role's
    token: int | None = None  # the number of the API token that they use

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise UsageError(f"role={self.role!r} is unknown: one of {', '.join(get_args(Role))}")
        if not isinstance(self.name, str) or not 1 <= len(self.name) <= MAX_NAME:
            raise UsageError(f"name={self.name!r} of an actor is not text of 1 to {MAX_NAME} characters")
        check_text("name", self.name)

    def as_trigger(self) -> dict[str, Any]:
        """How the records name who did it."""
        return {"kind": "cli" if self.via == "cli" else "manual", "user": self.name}


class Policy(Protocol):
    """What decides; an application may have its own, by the actor's name or by anything it knows."""

    def allows(self, actor: Actor, operation: str) -> bool:
        """Whether this actor may do this."""


class Access:
    """The policy by roles: the default, with what the application grants instead. The system may do everything."""

    def __init__(self, grants: Mapping[str, Collection[Role]] | None = None) -> None:
        self._roles = dict(DEFAULT)
        for operation, roles in (grants or {}).items():
            if operation not in DEFAULT:
                raise UsageError(f"{operation!r} is not an operation: one of {', '.join(DEFAULT)}")
            if DEFAULT[operation] is _NOBODY:
                raise UsageError(f"{operation!r} cannot be granted: only the system writes {operation.partition('.')[0]}")
            if isinstance(roles, str) or not set(roles) <= set(get_args(Role)):
                raise UsageError(f"{operation}={roles!r} are not roles: a list of some of {', '.join(get_args(Role))}")
            self._roles[operation] = frozenset(roles)

    @classmethod
    def operators_see_runs(cls, grants: Mapping[str, Collection[Role]] | None = None) -> Access:
        """Let operators read runs, errors, statistics and logs too, plus other `grants`.

        The default is for admins only, because arguments, results and log lines can contain personal data. Operators who are on
        call need them to find out why a job failed.
        """
        return cls({operation: sorted(_OPERATORS) for operation in ("runs.read", "logs.read")} | dict(grants or {}))  # type: ignore[arg-type]

    @classmethod
    def of(cls, settings: Settings) -> Access:
        """Return the policy for an application that has none of its own: the default, or `auth.operators_see_runs`."""
        return cls.operators_see_runs() if settings.auth.operators_see_runs else cls()

    def allows(self, actor: Actor, operation: str) -> bool:
        """Whether the actor's role has the operation."""
        return actor.role == "system" or actor.role in self._roles.get(operation, _NOBODY)


def check(policy: Policy, actor: Actor, operation: str) -> None:
    """Forbidden unless the policy allows it. What only the system does is nobody's to allow."""
    written_by_system = DEFAULT.get(operation) is _NOBODY
    if actor.scopes is not None and operation not in actor.scopes:
        raise Forbidden(f"this token of {actor.name} may not do {operation}: make one with that scope")
    if actor.role == "system" or (not written_by_system and policy.allows(actor, operation)):
        return
    if written_by_system:
        raise Forbidden(f"{actor.name} may not do {operation}: {operation.partition('.')[0]} are written by the system only")
    raise Forbidden(
        f"{actor.name}, who is {actor.role}, may not do {operation}: ask an admin, "
        "or let the application grant it with Rota(access=Access(...))"
    )
