"""Recurring tasks as their callers see them: one row per key, made and switched in the caller's own transaction."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from string import Formatter
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, Protocol, TypeVar, overload

from rota.db.steps import Steps
from rota.errors import NotFound, UsageError
from rota.model.duration import Duration, parse_duration
from rota.model.job import MAX_KEY_BYTES
from rota.model.options import RECURRING_METHODS, no_attribute
from rota.model.secret import is_secret
from rota.model.task import AlwaysRow, TaskSpec
from rota.store import schedule_changes as store
from rota.store.intake import Intake
from rota.store.schedule_changes import Recurrence

if TYPE_CHECKING:
    from rota.engine.context import Context

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

_NAMED = re.compile(r"%\((\w+)\)s")


class KeyTemplate:
    """How a row's key is made from the arguments: `feed:{feed_id}`."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            parts = list(Formatter().parse(text))
        except (ValueError, TypeError) as error:
            raise UsageError(f'key={text!r} is not a template: {error}; write it like "feed:{{feed_id}}"') from None
        if not text.isprintable():
            raise UsageError(f"key={text!r} is not allowed: only printable characters")
        self.names = [name for _, name, _, _ in parts if name is not None]
        if any(not name.isidentifier() or spec or conversion for _, name, spec, conversion in parts if name is not None):
            raise UsageError(f"key={text!r} is not allowed: only plain names of parameters in its braces")

    def apply(self, spec: TaskSpec, every: timedelta, history: bool, *, always: bool) -> TaskSpec:
        """Return the spec of a recurring task whose rows have such keys; UsageError if it lacks their parameters."""
        known = spec.payload.json_schema.get("properties", {})
        if missing := [name for name in self.names if name not in known]:
            has = ", ".join(known) or "none"
            raise UsageError(f"key={self.text!r} of task {spec.name!r} names {', '.join(missing)}: its parameters are {has}")
        if secret := [name for name in self.names if is_secret(known[name])]:
            raise UsageError(f"key={self.text!r} of task {spec.name!r} names {', '.join(secret)}, a secret: keys are shown")
        if not always:
            return replace(spec, recurring=True)
        if self.names:
            raise UsageError(f"key={self.text!r} of task {spec.name!r} names parameters: with always=True there is one row")
        return replace(spec, recurring=True, always=AlwaysRow(self.render(spec.payload.encode((), {})), every, history))

    def render(self, payload: str) -> str:
        """The key of the row with this payload."""
        key = self.text.format_map(json.loads(payload))
        if not 1 <= len(key.encode()) <= MAX_KEY_BYTES:
            raise UsageError(f"key={key[:80]!r}… has {len(key.encode())} bytes: from 1 to {MAX_KEY_BYTES} are allowed")
        return key


class BoundRecurring(Generic[P, R]):
    """A recurring task, with the connection and first run for the rows to be made."""

    def __init__(
        self, spec: TaskSpec, intake: Intake, template: KeyTemplate, every: timedelta, history: bool, conn: Any = None,
        first_run_at: datetime | None = None,
    ) -> None:  # fmt: skip
        self.spec = spec
        self._intake = intake
        self._template = template
        self._every = every
        self._history = history
        self._conn = conn
        self._first_run_at = first_run_at

    if not TYPE_CHECKING:  # to a type checker every attribute would exist

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to call here for a method that other libraries have, such as `delay`."""
            no_attribute(self, name, RECURRING_METHODS)

    def using(
        self, *, conn: Any = None, every: Duration | None = None, first_run_at: datetime | None = None
    ) -> BoundRecurring[P, R]:
        """The same task with other settings: `conn` makes changes part of that connection's transaction; `every` is the first
        interval of new rows, `first_run_at` when they run first (else at once)."""
        if first_run_at is not None and (not isinstance(first_run_at, datetime) or first_run_at.utcoffset() is None):
            raise UsageError(f"first_run_at={first_run_at!r} is not a time with a zone: write datetime(..., tzinfo=UTC)")
        interval = self._every if every is None else parse_duration(every, name="every", positive=True)
        return BoundRecurring(
            self.spec, self._intake, self._template, interval, self._history, self._conn if conn is None else conn,
            first_run_at or self._first_run_at,
        )  # fmt: skip

    def ensure(self, *args: P.args, **kwargs: P.kwargs) -> Recurrence:
        """Makes sure that there is a row for these arguments and that it is enabled; again is harmless."""
        return self._intake.carry_out(self._ensure(args, kwargs), self._conn, call="ensure")

    async def aensure(self, *args: P.args, **kwargs: P.kwargs) -> Recurrence:
        """Like `ensure`, from an event loop."""
        return await self._intake.acarry_out(self._ensure(args, kwargs), self._conn)

    def ensure_many(self, arguments: Iterable[Mapping[str, Any]]) -> list[Recurrence]:
        """Like `ensure` for the arguments of many rows, by name: all or none, in one statement, and in their order."""
        return self._intake.carry_out(self._ensure_many(arguments), self._conn, call="ensure_many")

    async def aensure_many(self, arguments: Iterable[Mapping[str, Any]]) -> list[Recurrence]:
        """Like `ensure_many`, from an event loop."""
        return await self._intake.acarry_out(self._ensure_many(arguments), self._conn)

    def enable(self, *args: P.args, **kwargs: P.kwargs) -> Recurrence:
        """Lets the row run again: when it would have, or at once if that time has passed."""
        return self._intake.transact(self._set(True, args, kwargs), self._conn, call="enable")

    async def aenable(self, *args: P.args, **kwargs: P.kwargs) -> Recurrence:
        """Like `enable`, from an event loop."""
        return await self._intake.atransact(self._set(True, args, kwargs), self._conn)

    def disable(self, *args: P.args, **kwargs: P.kwargs) -> Recurrence:
        """Let no further run of the row begin; one that has begun ends normally. Conflict for a row that is always on."""
        return self._intake.transact(self._set(False, args, kwargs), self._conn, call="disable")

    async def adisable(self, *args: P.args, **kwargs: P.kwargs) -> Recurrence:
        """Like `disable`, from an event loop."""
        return await self._intake.atransact(self._set(False, args, kwargs), self._conn)

    def sync_enabled(self, condition: str, *args: P.args, **kwargs: P.kwargs) -> Recurrence:
        """Enables or disables the row as an SQL condition says, without a race between two who look at once.

        The condition may name the task's arguments: `EXISTS (SELECT FROM subscription WHERE feed_id = %(feed_id)s)`.
        """
        return self._intake.transact(self._sync(condition, args, kwargs), self._conn, call="sync_enabled")

    async def async_enabled(self, condition: str, *args: P.args, **kwargs: P.kwargs) -> Recurrence:
        """Like `sync_enabled`, from an event loop."""
        return await self._intake.atransact(self._sync(condition, args, kwargs), self._conn)

    def _payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
        payload = self.spec.payload.encode(args, kwargs)
        return payload, self._template.render(payload)

    def _ensure(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Recurrence]:
        payload, key = self._payload(args, kwargs)
        rows = yield from self._ensure_rows({key: payload})
        return rows[key]

    def _ensure_many(self, arguments: Iterable[Mapping[str, Any]]) -> Steps[list[Recurrence]]:
        given = [self._payload((), dict(each)) for each in arguments]
        rows = yield from self._ensure_rows({key: payload for payload, key in given})
        return [rows[key] for _, key in given]

    def _ensure_rows(self, payloads: Mapping[str, str]) -> Steps[dict[str, Recurrence]]:
        return store.ensure_recurring(
            self.spec.name, payloads, every=self._every, first_run_at=self._first_run_at,
            retry=json.dumps(self.spec.retry.to_json()), keep_successes=self._history, always=self.spec.always is not None,
        )  # fmt: skip

    def _set(self, enabled: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Recurrence]:
        _, key = self._payload(args, kwargs)
        return self._found(key, store.set_recurring(self.spec.name, key, enabled))

    def _sync(self, condition: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Recurrence]:
        payload, key = self._payload(args, kwargs)
        values = json.loads(payload)
        names = _NAMED.findall(condition)
        fields = self.spec.payload.json_schema.get("properties", {})
        if secret := [name for name in names if name in fields and is_secret(fields[name])]:
            raise UsageError(f"condition={condition!r} names {', '.join(secret)}: a secret cannot be compared")
        if "%" in _NAMED.sub("", condition):
            raise UsageError(
                f"condition={condition!r} has a % that names no argument, which drivers read differently: for LIKE write ~"
            )
        if missing := [name for name in names if not isinstance(values.get(name), str | int)]:
            raise UsageError(
                f"condition={condition!r} names {', '.join(missing)}: only arguments that are text or numbers can be named"
            )
        parameters = tuple(values[name] for name in names)
        return self._found(key, store.sync_recurring(self.spec.name, key, _NAMED.sub("%s", condition), parameters))

    def _found(self, key: str, steps: Steps[Recurrence | None]) -> Steps[Recurrence]:
        recurrence = yield from steps
        if recurrence is None:
            raise NotFound(f"task {self.spec.name!r} has no row with key {key!r}: make it with ensure(...)")
        return recurrence


class Recurring(BoundRecurring[P, R]):
    """A handler that runs again and again, once per row; calling it calls the handler itself."""

    def __init__(self, spec: TaskSpec, intake: Intake, template: KeyTemplate, every: timedelta, history: bool) -> None:
        super().__init__(spec, intake, template, every, history)
        functools.update_wrapper(self, spec.handler)

    @property
    def name(self) -> str:
        """The name under which workers know the task."""
        return self.spec.name

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        result: R = self.spec.handler(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<Recurring {self.spec.name}>"


class RecurringDefinition(Protocol):
    """What `@app.recurring(...)` gives: it makes a recurring task of the handler below it."""

    @overload
    def __call__(self, handler: Callable[Concatenate[Context, P], R], /) -> Recurring[P, R]: ...
    @overload
    def __call__(self, handler: Callable[P, R], /) -> Recurring[P, R]: ...
