"""What the store asks of a database, as values; whoever holds a connection, sync or async, carries it out.

A store function is written once, as a generator: it yields queries, is sent their rows, and returns its result.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, LiteralString, Protocol, TypeVar

Result = TypeVar("Result")
Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Query:
    """One statement with `%s` for its parameters, which are text, numbers or None: what every driver sends alike."""

    sql: LiteralString
    parameters: tuple[str | int | None, ...] = ()
    rows: bool = True  # whether its rows are wanted


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows in COPY's text format, in pieces of many lines."""

    schema: str
    table: str
    columns: Sequence[str]
    pieces: Iterable[str]


Steps = Generator[Query | Copy, Rows, Result]


class Carrier(Protocol):
    """A connection of some kind that can do what the store asks."""

    @property
    def can_copy(self) -> bool:
        """Whether `Copy` is possible."""

    @property
    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own now."""

    def perform(self, step: Query | Copy) -> Rows:
        """Does one step; the rows are those of a query that has some."""


class AsyncCarrier(Protocol):
    """The same for the event loop."""

    @property
    def can_copy(self) -> bool:
        """Whether `Copy` is possible."""

    @property
    def autocommits(self) -> bool:
        """Whether a statement would be a transaction of its own now."""

    async def perform(self, step: Query | Copy) -> Rows:
        """Does one step; the rows are those of a query that has some."""


def carry_out(carrier: Carrier, steps: Steps[Result]) -> Result:
    """Does the steps one after the other; an error is raised where the step was asked for."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: Result = end.value
            return result
        try:
            answer, error = carrier.perform(step), None
        except BaseException as failure:
            error = failure


async def carry_out_async(carrier: AsyncCarrier, steps: Steps[Result]) -> Result:
    """Like `carry_out`, for the event loop."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: Result = end.value
            return result
        try:
            answer, error = await carrier.perform(step), None
        except BaseException as failure:
            error = failure


def atomically(steps: Steps[Result], *, autocommits: bool) -> Steps[Result]:
    """All of the steps or none: in a transaction of their own, or in a savepoint of the one that is open."""
    begin, commit, rollback = _TRANSACTION if autocommits else _SAVEPOINT
    yield begin
    try:
        result = yield from steps
    except BaseException:
        for step in rollback:
            with suppress(Exception):  # the first error is the one that says what is wrong
                yield step
        raise
    yield commit
    return result


_TRANSACTION = Query("BEGIN", rows=False), Query("COMMIT", rows=False), [Query("ROLLBACK", rows=False)]
_SAVEPOINT = (
    Query("SAVEPOINT rota_batch", rows=False),
    Query("RELEASE SAVEPOINT rota_batch", rows=False),
    [Query("ROLLBACK TO SAVEPOINT rota_batch", rows=False), Query("RELEASE SAVEPOINT rota_batch", rows=False)],
)
