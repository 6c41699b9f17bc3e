"""The server: its version, its promises, its clock, and whether notifications come through."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import sql

from rota.config.dsn import login
from rota.control.doctor.finding import Finding, fail, ok, warn
from rota.control.words import number, span
from rota.db import migrations as schema
from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.folders import OWN

SQL = queries.load("doctor")

NEWEST_TESTED = 18
CLOCK_TOLERANCE = timedelta(seconds=5)
NOTIFY_WITHIN_S = 3.0
NOTIFY_QUEUE_TOLERANCE = 0.25


async def version(conn: AsyncConn) -> list[Finding]:
    """Whether this PostgreSQL is one that Rota works with, and the one that takes writes."""
    major = conn.info.server_version // 10_000
    _, name, standby, sees_all, _ = await _server(conn)
    if major < schema.OLDEST_POSTGRES:
        return [fail("server", f"PostgreSQL {name} is too old", f"upgrade to {schema.OLDEST_POSTGRES} or newer")]
    if standby:
        return [fail("server", "this server is a standby and takes no writes", "let database.url name the primary")]
    findings = []
    if major > NEWEST_TESTED:
        findings.append(warn("server", f"PostgreSQL {name} is newer than Rota was tested with", "look for a newer version of Rota"))
    if not sees_all:
        findings.append(
            warn(
                "privileges",
                f"user {conn.info.user!r} cannot see other users' sessions, so culprits may go unnamed here",
                f'GRANT pg_read_all_stats TO "{conn.info.user}"',
            )
        )
    return findings or ok("server", f"PostgreSQL {name}")


async def durability(conn: AsyncConn) -> list[Finding]:
    """Whether a committed job survives a crash of the server."""
    names = ["fsync", "synchronous_commit", "full_page_writes"]
    settings: dict[str, str] = dict(await (await conn.execute(SQL["doctor_settings"], {"names": names})).fetchall())
    if off := [name for name in names if settings.get(name) == "off"]:
        return [
            warn(
                "durability",
                f"{' and '.join(off)} off: a crash of the server can lose acknowledged jobs",
                "; ".join(f"ALTER SYSTEM SET {name} = on" for name in off) + "; then SELECT pg_reload_conf()",
            )
        ]
    return ok("durability", "what is committed survives a crash")


def migrations(dsn: str, folders: schema.Folders = schema.NO_FOLDERS) -> list[Finding]:
    """Whether the schema is that of this version, and of the included applications."""
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None, **login(dsn)) as conn:
        states = schema.status(conn, folders)
    ours = [state for state in states if state.namespace in (OWN, *folders)]
    if findings := [
        fail(
            "migrations",
            f"migration {state} was applied with another text",
            f"install the version of {_owner(state.namespace)} that this database belongs to",
        )
        for state in ours
        if state.changed
    ]:
        return findings
    if missing := [state for state in ours if state.applied_at is None]:
        findings.append(fail("migrations", schema.describe_missing(missing), "rota migrate up"))
    unknown = Counter(state.namespace for state in ours if state.unknown)
    for namespace, count in unknown.items():
        sentence = (
            f"the database has {number(count, 'migration')} of {_owner(namespace)} that this version does not know: it is older"
        )
        findings.append(warn("migrations", sentence, f"upgrade {_owner(namespace)} here too"))
    return findings or ok("migrations", f"all {len(ours)} applied")


def _owner(namespace: str) -> str:
    return "Rota" if namespace == OWN else namespace


async def clock(conn: AsyncConn) -> list[Finding]:
    """How far this machine's clock is from the database's, which is the one that decides."""
    before = datetime.now(UTC)
    row = await (await conn.execute(SQL["doctor_clock"])).fetchone()
    after = datetime.now(UTC)
    assert row is not None
    there, moved = row
    findings = []
    if abs(moved) > timedelta(seconds=1):
        findings.append(
            warn(
                "clock",
                f"rota.now() is {span(moved)} {'ahead of' if moved > timedelta(0) else 'behind'} the server: "
                "a test has left its clock in this database",
                "CREATE OR REPLACE FUNCTION rota.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT now()'",
            )
        )
    # The server's time was read at some moment between the two: only what lies outside of them is certain.
    offset = max(before - there, there - after, timedelta(0))
    if offset > CLOCK_TOLERANCE:
        side = "ahead of" if before > there else "behind"
        findings.append(
            warn(
                "clock",
                f"this machine's clock is {span(offset)} {side} the database's; due times are safe, but logs and the "
                "order of ids will mislead",
                "start the time service (NTP) on this machine",
            )
        )
    return findings or ok("clock", f"this machine and the database agree within {span(max(offset, after - before))}")


async def listen(conn: AsyncConn, other: AsyncConn, *, pooled: bool) -> list[Finding]:
    """Whether a notification sent on one connection reaches another, and whether a pooler stands in between."""
    pid, _, _, _, usage = await _server(conn)
    through_pooler = conn.info.backend_pid != pid
    if through_pooler and pooled:
        return ok("notifications", "a pooler stands before PostgreSQL, as configured: workers poll")
    heard = await _hears(conn, other)
    if through_pooler or not heard:
        what = "a pooler stands before PostgreSQL" if through_pooler else "a notification did not arrive"
        return [
            fail(
                "notifications",
                f"{what} (LISTEN {'works for now' if heard else 'does not work'}), and database.pooled is not set",
                "set database.pooled = true, or let database.url name PostgreSQL itself or a pool in session mode",
            )
        ]
    if usage > NOTIFY_QUEUE_TOLERANCE:
        return [
            warn(
                "notifications",
                f"the server's notification queue is {usage:.0%} full: a listening session is stuck in a transaction",
                "end the oldest transaction (see snapshots)",
            )
        ]
    return ok("notifications", "LISTEN and NOTIFY work")


async def _server(conn: AsyncConn) -> tuple[int, str, bool, bool, float]:
    row = await (await conn.execute(SQL["doctor_server"])).fetchone()
    assert row is not None
    return row


async def _hears(listener: AsyncConn, speaker: AsyncConn) -> bool:
    channel = sql.Identifier(f"rota_doctor_{secrets.token_hex(8)}")
    await listener.execute(sql.SQL("LISTEN {}").format(channel))
    await speaker.execute(sql.SQL("NOTIFY {}").format(channel))
    try:
        async with asyncio.timeout(NOTIFY_WITHIN_S + 1):
            heard = [notice async for notice in listener.notifies(timeout=NOTIFY_WITHIN_S, stop_after=1)]
    except TimeoutError:
        return False
    await listener.execute(sql.SQL("UNLISTEN {}").format(channel))
    return bool(heard)
