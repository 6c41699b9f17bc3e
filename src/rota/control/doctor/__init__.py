"""Checks the database and the workers, and names what is wrong and who does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
from psycopg import AsyncConnection

from rota.config.dsn import alogin
from rota.control.doctor import database, secrets, server, work
from rota.control.doctor.finding import Finding, Level, fail
from rota.db import queries
from rota.db.connection import AsyncConn
from rota.db.migrations import NO_FOLDERS, Folders
from rota.errors import ConfigError

__all__ = ["Finding", "Level", "examine"]

SQL = queries.load("doctor")

SERVER_CHECKS = (server.version, server.durability)
SCHEMA_CHECKS = (
    server.clock,
    database.autovacuum,
    database.snapshots,
    database.bloat,
    database.indexes,
    database.partitions,
    work.workers,
    work.unknown_tasks,
    work.leases,
    work.lineage,
    secrets.stored_secrets,
)


async def examine(
    dsn: str, folders: Folders = NO_FOLDERS, *, pooled: bool = False, connect_timeout_s: int = 10
) -> AsyncIterator[Finding]:
    """Yields what each check finds; `folders` are those of included applications' migrations, and `pooled` says whether a
    transaction pooler is meant to stand before PostgreSQL."""
    try:
        conn, other = await asyncio.gather(_connect(dsn, connect_timeout_s), _connect(dsn, connect_timeout_s))
    except ConfigError as error:  # the password cannot be read
        yield fail("connection", str(error), "mend that, and run `rota doctor` again")
        return
    except psycopg.OperationalError as error:
        text = " ".join(str(error).split())
        yield fail("connection", f"PostgreSQL cannot be reached: {text}", "check database.url, and that the server runs")
        return
    async with conn, other:
        for check in SERVER_CHECKS:
            for finding in await check(conn):
                yield finding
        for finding in await asyncio.to_thread(server.migrations, dsn, folders):
            yield finding
        for finding in await server.listen(conn, other, pooled=pooled):
            yield finding
        if not await _has_schema(conn):
            return
        for check in SCHEMA_CHECKS:
            for finding in await check(conn):
                yield finding


async def _connect(dsn: str, timeout_s: int) -> AsyncConn:
    # Nothing here that a transaction pooler would refuse: telling that there is one is our job.
    return await AsyncConnection.connect(
        dsn,
        autocommit=True,
        prepare_threshold=None,
        application_name="rota doctor",
        connect_timeout=timeout_s,
        **await alogin(dsn),
    )


async def _has_schema(conn: AsyncConn) -> bool:
    return await (await conn.execute(SQL["doctor_schema"])).fetchone() == (True,)
