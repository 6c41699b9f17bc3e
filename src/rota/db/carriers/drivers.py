"""One carrier for each driver. None of them changes a setting of the connection it is given."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Iterable
from functools import cache
from itertools import count
from typing import Any

import psycopg
from psycopg import AsyncCursor, Cursor, sql
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from rota.db.steps import Copy, Query, Rows


class PsycopgCarrier:
    """A psycopg connection."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn

    @property
    def can_copy(self) -> bool:
        return self._conn.pgconn.pipeline_status == PipelineStatus.OFF

    @property
    def autocommits(self) -> bool:
        return self._conn.autocommit and self._conn.info.transaction_status == TransactionStatus.IDLE

    def perform(self, step: Query | Copy) -> Rows:
        # A cursor of our own class: the connection's may want other placeholders and give other rows.
        with Cursor(self._conn, row_factory=tuple_row) as cursor:
            if isinstance(step, Query):
                cursor.execute(step.sql, step.parameters or None)
                return cursor.fetchall() if step.rows else ()
            with cursor.copy(_copy_statement(step)) as copy:
                for piece in step.pieces:
                    copy.write(piece)
            return ()


class AsyncPsycopgCarrier:
    """An async psycopg connection."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self._conn = conn

    @property
    def can_copy(self) -> bool:
        return self._conn.pgconn.pipeline_status == PipelineStatus.OFF

    @property
    def autocommits(self) -> bool:
        return self._conn.autocommit and self._conn.info.transaction_status == TransactionStatus.IDLE

    async def perform(self, step: Query | Copy) -> Rows:
        async with AsyncCursor(self._conn, row_factory=tuple_row) as cursor:
            if isinstance(step, Query):
                await cursor.execute(step.sql, step.parameters or None)
                return await cursor.fetchall() if step.rows else ()
            async with cursor.copy(_copy_statement(step)) as copy:
                for piece in step.pieces:
                    await copy.write(piece)
            return ()


class AsyncpgCarrier:
    """An asyncpg connection."""

    can_copy = True

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    @property
    def autocommits(self) -> bool:
        return not self._conn.is_in_transaction()

    async def perform(self, step: Query | Copy) -> Rows:
        if isinstance(step, Query):
            rows: Rows = await self._conn.fetch(_number_placeholders(step.sql), *step.parameters)
            return rows
        source = _encoded(step.pieces)
        await self._conn.copy_to_table(step.table, schema_name=step.schema, columns=step.columns, source=source)
        return ()


class Psycopg2Carrier:
    """A psycopg2 connection, as older SQLAlchemy and Django projects have."""

    can_copy = False

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    @property
    def autocommits(self) -> bool:
        return bool(self._conn.autocommit and self._conn.info.transaction_status == TransactionStatus.IDLE)

    def perform(self, step: Query | Copy) -> Rows:
        assert isinstance(step, Query)
        # The driver's plain cursor: the connection's own may give other rows.
        with self._conn.cursor(cursor_factory=sys.modules["psycopg2.extensions"].cursor) as cursor:
            cursor.execute(step.sql, step.parameters or None)
            rows: Rows = cursor.fetchall() if step.rows else ()
            return rows


def _copy_statement(copy: Copy) -> sql.Composed:
    columns = sql.SQL(", ").join(map(sql.Identifier, copy.columns))
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(copy.schema, copy.table), columns)


async def _encoded(pieces: Iterable[str]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece.encode()


@cache
def _number_placeholders(statement: str) -> str:
    number = count(1)
    return re.sub("%s", lambda _: f"${next(number)}", statement)
