"""What is written down about pairs: one function per SQL block. Only who holds the job can commit what is written for it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any, LiteralString, cast
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from rota import Context
from rota.apps.calendars.model import SIDES, End, Intent, Pair, Resource, Side, State, Window

Conn = psycopg.AsyncConnection[Any]
Opens = Callable[[], AbstractAsyncContextManager[Conn]]

KEPT = timedelta(days=180)  # summaries, and what lost in conflicts


def _load(name: str) -> str:
    return (files("rota.apps.calendars") / name).read_text("utf-8")


def _blocks(text: str) -> dict[str, LiteralString]:
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)
    return {name: cast(LiteralString, body.strip()) for name, body in zip(parts[::2], parts[1::2], strict=True)}


SQL = _blocks(_load("ledger.sql"))


class Ledger:
    """The books of one pair during one synchronisation."""

    def __init__(self, pair: str, opens: Opens, *, job: UUID | None = None) -> None:
        self.pair = pair
        self._opens = opens
        self._job = job

    @classmethod
    def of(cls, ctx: Context, pair: str) -> Ledger:
        """The books as a job keeps them: nothing is committed once the job is no longer ours."""

        @asynccontextmanager
        async def opens() -> AsyncIterator[Conn]:
            async with ctx.connection() as conn, conn.transaction():
                await ctx.assert_held(conn)
                yield conn

        return cls(pair, opens, job=ctx.job_id)

    async def known(self, side: Side) -> dict[str, str]:
        """The etags of what was seen of a side, by href."""
        async with self._opens() as conn:
            rows = await conn.execute(SQL["resources_known"], {"pair": self.pair, "side": side})
            return dict(await rows.fetchall())

    async def put(self, side: Side, resources: Iterable[Resource]) -> None:
        """Writes down what was seen."""
        async with self._opens() as conn:
            await self._put(conn, side, resources)

    async def looked(self, side: Side, cursor: str | None, gone: Iterable[str], problems: Mapping[str, str], *, full: bool) -> None:
        """Ends a look at a side: what has gone, what could not be read, and from where on the next look goes. All or nothing."""
        async with self._opens() as conn:
            await self._drop(conn, side, list(gone))
            if problems:
                rows = [{"href": href, "problem": problem} for href, problem in problems.items()]
                await self._do(conn, "resources_trouble", side=side, rows=Jsonb(rows))
            if full:
                await self._do(conn, "resources_recovered", side=side, hrefs=list(problems))
            await self._do(conn, "cursor_first" if side == "first" else "cursor_second", cursor=cursor)

    async def dirty(self, window: Window, direction: str, left: Iterable[str]) -> list[str]:
        """The UIDs of events that something is to be done about."""
        parameters = {"window_start": window.start, "window_end": window.end, "direction": direction, "left": list(left)}
        async with self._opens() as conn:
            rows = await conn.execute(SQL["dirty"], {"pair": self.pair, **parameters})
            return [uid for (uid,) in await rows.fetchall()]

    async def states(self, uids: Sequence[str]) -> list[State]:
        """Events with all that is known of them."""
        async with self._opens() as conn:
            rows = await conn.execute(SQL["states"], {"pair": self.pair, "uids": list(uids)})
            return [_state(row) for row in await rows.fetchall()]

    async def problems(self) -> list[tuple[str, str, str]]:
        """What could not be read: side, href and why."""
        async with self._opens() as conn:
            return await (await conn.execute(SQL["problems"], {"pair": self.pair})).fetchall()

    async def plan(
        self,
        settled: Sequence[tuple[str, str | None, str | None]],
        forgotten: Sequence[str],
        conflicts: Sequence[Mapping[str, Any]],
        intents: Sequence[tuple[str, Intent]],
    ) -> None:
        """Writes down, before anything is done, what is in order, what loses, and what we are about to do."""
        async with self._opens() as conn:
            await self._settle(conn, settled, forgotten)
            if conflicts:
                await self._do(conn, "conflicts_add", rows=Jsonb(list(conflicts)), job=self._job)
            if intents:
                await self._do(conn, "intend", rows=Jsonb([{"uid": uid, "intent": intent.plain()} for uid, intent in intents]))

    async def record(
        self,
        settled: Sequence[tuple[str, str | None, str | None]],
        forgotten: Sequence[str],
        seen: Mapping[Side, Sequence[Resource]],
        gone: Mapping[Side, Sequence[str]],
    ) -> None:
        """Writes down what was done."""
        async with self._opens() as conn:
            for side in SIDES:
                await self._drop(conn, side, gone.get(side, ()))
                await self._put(conn, side, seen.get(side, ()))
            await self._settle(conn, settled, forgotten)

    async def begin(self, attempt: int, connector: str, window: Window) -> None:
        """Opens the summary of an attempt."""
        parameters = {"connector": connector, "window_start": window.start, "window_end": window.end}
        async with self._opens() as conn:
            await self._do(conn, "summary_begin", job=self._job, attempt=attempt, **parameters)

    async def end(
        self, attempt: int, outcome: str, *, processed: int = 0, failed: int = 0, error: str | None = None,
        details: Mapping[str, Any] | None = None, conn: Conn | None = None,
    ) -> None:  # fmt: skip
        """Closes the summary of an attempt; with a connection as part of its transaction."""
        values = {"outcome": outcome, "processed": processed, "failed": failed, "error": error, "details": Jsonb(details or {})}
        if conn is not None:
            await self._do(conn, "summary_end", job=self._job, attempt=attempt, **values)
            await self._do(conn, "prune", kept=KEPT)
            return
        async with self._opens() as own:
            await self._do(own, "summary_end", job=self._job, attempt=attempt, **values)

    async def snoozes(self) -> int:
        """How often the job has been put off."""
        async with self._opens() as conn:
            row = await (await conn.execute(SQL["summary_snoozes"], {"job": self._job})).fetchone()
            return int(row[0]) if row else 0

    async def _do(self, conn: Conn, block: str, **parameters: Any) -> None:
        await conn.execute(SQL[block], {"pair": self.pair, **parameters})

    async def _put(self, conn: Conn, side: Side, resources: Iterable[Resource]) -> None:
        if rows := [_plain(resource) for resource in resources]:
            await self._do(conn, "resources_put", side=side, rows=Jsonb(rows))

    async def _drop(self, conn: Conn, side: Side, hrefs: Sequence[str]) -> None:
        if hrefs:
            await self._do(conn, "resources_drop", side=side, hrefs=list(hrefs))

    async def _settle(self, conn: Conn, settled: Sequence[tuple[str, str | None, str | None]], forgotten: Sequence[str]) -> None:
        if settled:
            rows = [{"uid": uid, "base_first": first, "base_second": second} for uid, first, second in settled]
            await self._do(conn, "settle", rows=Jsonb(rows))
        if forgotten:
            await self._do(conn, "forget", uids=list(forgotten))


async def get_pair(conn: Conn, id: str) -> Pair | None:
    """A pair by its name."""
    row = await (await conn.execute(SQL["pairs_get"], {"pair": id})).fetchone()
    return None if row is None else read_pair(row)


def read_pair(row: Sequence[Any]) -> Pair:
    """The pair of a row."""
    id, *ends, direction, every, past, future, created_at = row
    return Pair(id, End(*ends[:4]), End(*ends[4:]), direction, every, past, future, created_at)


def _plain(resource: Resource) -> dict[str, Any]:
    moments = {name: _iso(getattr(resource, name)) for name in ("stamped_at", "starts_at", "ends_at")}
    return {
        "href": resource.href, "etag": resource.etag, "uid": resource.uid, "digest": resource.digest, "core": resource.core,
        "sequence": resource.sequence, "problem": resource.problem, **moments,
    }  # fmt: skip


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _state(row: Sequence[Any]) -> State:
    uid, base_first, base_second, intents = row[:4]
    found = json.loads(intents) if isinstance(intents, str) else intents
    return State(
        uid, _resource(uid, row[4:12]), _resource(uid, row[12:20]), base_first, base_second, tuple(Intent(*each) for each in found)
    )  # fmt: skip


def _resource(uid: str, columns: Sequence[Any]) -> Resource | None:
    href, etag, digest, core, stamped_at, sequence, starts_at, ends_at = columns
    return None if href is None else Resource(href, etag, uid, digest, core, stamped_at, sequence, starts_at, ends_at)
