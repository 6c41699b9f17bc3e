"""The tables: whether vacuum keeps up, who keeps it from doing so, and whether everything is in its place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.rows import class_row

from rota.control.doctor.finding import Finding, fail, ok, warn
from rota.control.words import moment, number, shorten, span
from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.capped import COUNT_CAP, Capped

SQL = queries.load("doctor")

OLD = timedelta(minutes=1)  # no transaction of an application takes as long as this
TOO_OLD = timedelta(minutes=15)
OLD_TRANSACTIONS = 100_000  # for those whose age is known in transactions only
TOO_OLD_TRANSACTIONS = 10_000_000
MANY_DEAD = 100_000
BLOATED_BYTES = 256 * 2**20
ROOM_PER_JOB = 8 * 2**10


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who keeps dead rows from being removed: a session, a prepared transaction, a slot or a standby."""

    kind: str
    name: str
    owner: str | None
    application: str | None
    state: str | None
    age: timedelta | None
    transactions: int | None
    query: str | None


@dataclass(frozen=True, slots=True)
class Locker:
    """A session whose lock on a table keeps vacuum away from it."""

    name: str
    mode: str
    pid: int
    owner: str | None
    application: str | None
    state: str | None
    age: timedelta | None
    query: str | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its dead rows, by the server's statistics."""

    name: str
    live: int
    dead: int
    vacuumed_at: datetime | None
    heap_bytes: int
    index_bytes: int
    autovacuum_off: bool


async def autovacuum(conn: AsyncConn) -> list[Finding]:
    """Whether autovacuum runs, on all our tables, and can get at them."""
    findings = []
    names = ["autovacuum", "track_counts"]
    for name, setting in await (await conn.execute(SQL["doctor_settings"], {"names": names})).fetchall():
        if setting == "off":
            todo = f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()"
            findings.append(fail("autovacuum", f"{name} is off: the queue slows down with every job", todo))
    for table in await _tables(conn):
        if table.autovacuum_off:
            todo = f"ALTER TABLE rota.{table.name} RESET (autovacuum_enabled)"
            findings.append(fail("autovacuum", f"autovacuum is switched off for rota.{table.name}", todo))
    async with conn.cursor(row_factory=class_row(Locker)) as cursor:
        await cursor.execute(SQL["doctor_locks"])
        locks = await cursor.fetchall()
    findings += [
        warn(
            "autovacuum",
            f"vacuum of rota.{lock.name} is locked out by process {lock.pid} "
            f"({_who(lock.owner, lock.application, lock.state)}), which has held a {lock.mode} for "
            f"{span(lock.age)}{_doing(lock.query)}",
            f"SELECT pg_terminate_backend({lock.pid})",
        )
        for lock in locks
        if lock.age is not None and lock.age > OLD
    ]
    return findings or ok("autovacuum", "on, and nobody locks it out")


async def snapshots(conn: AsyncConn) -> list[Finding]:
    """Who holds an old snapshot: as long as it is held, no dead row can be removed, and every claim walks over them."""
    findings = [finding for holder in await read_holders(conn) if (finding := judge_holder(holder)) is not None]
    return findings or ok("snapshots", "no transaction, slot or standby holds an old snapshot")


async def read_holders(conn: AsyncConn) -> list[Holder]:
    """Whoever keeps dead rows of this database from being removed, the oldest first."""
    async with conn.cursor(row_factory=class_row(Holder)) as cursor:
        await cursor.execute(SQL["doctor_snapshots"])
        return await cursor.fetchall()


async def bloat(conn: AsyncConn) -> list[Finding]:
    """Whether dead rows pile up, and whether the live jobs take more room than they should."""
    findings = []
    for table in await _tables(conn):
        if table.dead > MANY_DEAD and table.dead > 2 * table.live:
            when = f"last vacuumed at {moment(table.vacuumed_at)}" if table.vacuumed_at else "never vacuumed"
            sentence = f"rota.{table.name} has {table.dead:,} dead rows beside {table.live:,} live ones, {when}"
            findings.append(warn("bloat", sentence, f"see snapshots and autovacuum; VACUUM rota.{table.name}"))
        if table.name == "job":
            findings += _judge_size(table)
    return findings or ok("bloat", "dead rows are removed as they come")


async def indexes(conn: AsyncConn) -> list[Finding]:
    """Whether every index can be used."""
    invalid = [name for (name,) in await (await conn.execute(SQL["doctor_invalid_indexes"])).fetchall()]
    return [fail("indexes", f"index rota.{name} is invalid", f"REINDEX INDEX CONCURRENTLY rota.{name}") for name in invalid] or ok(
        "indexes", "all valid"
    )


async def partitions(conn: AsyncConn) -> list[Finding]:
    """Whether the runs of this week and the next have a partition."""
    row = await (await conn.execute(SQL["doctor_partitions"], {"cap": COUNT_CAP})).fetchone()
    assert row is not None
    missing, outside = row[0], Capped.at(row[1])
    if missing:
        return [
            warn(
                "partitions",
                f"no partition of rota.run for the week of {' and '.join(missing)}: its runs go to rota.run_default; "
                "a live worker makes them every hour",
                "SELECT rota.make_run_partitions()",
            )
        ]
    if outside.capped:
        return [
            warn(
                "partitions",
                f"{number(outside, 'run')} in rota.run_default, because the clock that made their ids was off",
                "check the clocks of the machines that enqueue",
            )
        ]
    return ok("partitions", "made ahead")


def judge_holder(holder: Holder, *, too_old: timedelta | None = None) -> Finding | None:
    """What to say of one, None if it is young; from `too_old` on it is a failure, else from a quarter of an hour on."""
    limit = TOO_OLD if too_old is None else too_old
    if holder.age is not None:
        old, is_too_old = holder.age > min(OLD, limit), holder.age > limit
        since = f"for {span(holder.age)}"
    else:
        transactions = holder.transactions or 0
        old, is_too_old = transactions > OLD_TRANSACTIONS, transactions > TOO_OLD_TRANSACTIONS
        since = f"for {number(transactions, 'transaction')}"
    if not old:
        return None
    match holder.kind:
        case "session":
            whose = _who(holder.owner, holder.application, holder.state)
            sentence = f"process {holder.name} ({whose}) has held a snapshot {since}{_doing(holder.query)}"
            todo = f"SELECT pg_terminate_backend({holder.name})"
        case "prepared":
            sentence = f"prepared transaction {holder.name!r} of {holder.owner} has been open {since}"
            quoted = holder.name.replace("'", "''")
            todo = f"COMMIT PREPARED '{quoted}', or ROLLBACK PREPARED '{quoted}'"
        case "slot":
            sentence = f"replication slot {holder.name!r} ({holder.state}) has held a snapshot {since}"
            todo = f"let its standby catch up, or SELECT pg_drop_replication_slot('{holder.name}')"
        case _:
            sentence = f"a query on standby {holder.application!r} has held a snapshot {since} by hot_standby_feedback"
            todo = "end the long query on that standby"
    # Until it lets go, nothing that has died since can be removed.
    return (fail if is_too_old else warn)("snapshots", sentence, todo)


def _judge_size(table: Table) -> list[Finding]:
    findings = []
    fair = table.live * ROOM_PER_JOB + BLOATED_BYTES
    if table.heap_bytes > fair:
        sentence = f"rota.job takes {table.heap_bytes / 2**20:,.0f} MiB for {number(table.live, 'live job')}"
        todo = "VACUUM rota.job; when the queue is quiet, VACUUM (FULL) rota.job"
        findings.append(warn("bloat", sentence, todo))
    if table.index_bytes > fair:
        sentence = f"the indexes of rota.job take {table.index_bytes / 2**20:,.0f} MiB for {number(table.live, 'live job')}"
        findings.append(warn("bloat", sentence, "REINDEX TABLE CONCURRENTLY rota.job"))
    return findings


async def _tables(conn: AsyncConn) -> list[Table]:
    async with conn.cursor(row_factory=class_row(Table)) as cursor:
        await cursor.execute(SQL["doctor_tables"])
        return await cursor.fetchall()


def _who(owner: str | None, application: str | None, state: str | None) -> str:
    return ", ".join(filter(None, (application, owner and f"user {owner}", state))) or "unknown"


def _doing(query: str | None) -> str:
    return f": {shorten(query)}" if query else ""
