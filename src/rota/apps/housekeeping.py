"""What every installation clears away: sessions, sign-in links, tokens, records of deliveries; and tables of the operator's own.

Behind each task is a list of rules: a table, a condition, a size of batch. Rota has some for its own tables, and
`[[housekeeping.rules]]` of the configuration adds others. Their conditions are SQL, and run with the rights of the worker: the
configuration is trusted as code is, and neither payloads nor the API can bring a condition in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from psycopg import AsyncConnection, errors, sql
from pydantic import Field

from rota import Rota, cron
from rota.config import HousekeepingSettings, PruneRule, load_settings
from rota.errors import HousekeepingFailed

if TYPE_CHECKING:  # every process that enqueues has these tasks, and only workers need the engine
    from rota import Context

TURN_S = 300.0  # that one run gives to all of its rules; the next one goes on
STATEMENT_MS = 30_000
LOCK_MS = 2000

SCHEDULES = {
    "stale_session_cleanup": "0 * * * *",
    "webhook_delivery_prune": "0 3 * * *",
    "expired_oauth_cleanup": "0 4 * * *",
    "expired_auth_cleanup": "0 5 * * *",
}
OWN_RULES = (
    PruneRule(task="stale_session_cleanup", table="rota.session", where="expires_at < rota.now()"),
    PruneRule(task="stale_session_cleanup", table="rota.request", where="expires_at < rota.now()"),
    PruneRule(task="stale_session_cleanup", table="rota.allowance", where="full_at < rota.now()"),
    PruneRule(
        task="expired_oauth_cleanup",
        table="rota.api_token",
        where="expires_at < rota.now() - interval '1 day' OR revoked_at < rota.now() - interval '1 day'",
    ),
    PruneRule(task="expired_auth_cleanup", table="rota.magic_link", where="expires_at < rota.now()"),
    PruneRule(task="expired_auth_cleanup", table="rota.sign_in_source", where="signed_in_at < rota.now() - interval '180 days'"),
)

Conn = AsyncConnection[tuple[Any, ...]]
Hours = Annotated[int, Field(ge=1, le=876_000)]

# The tables that hold the rows of one: itself, or its partitions, since the place of a row (ctid) means something in its own only.
_TABLES = """
SELECT n.nspname, c.relname, c.relkind IN ('r', 'p') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s) AND c.relkind <> 'p' OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s)) WHERE isleaf)
ORDER BY 1, 2"""
_BOUNDS = "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true)"
_DELETE = """
DELETE FROM ONLY {table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ONLY {table} WHERE (
{where}
    ) LIMIT {batch} FOR UPDATE SKIP LOCKED))"""

# Of the application whose job runs; in a process of its own, where there is none, the configuration says it.
_settings: ContextVar[HousekeepingSettings | None] = ContextVar("rota_housekeeping", default=None)


def install(app: Rota) -> None:
    """Adds the tasks, with their schedules, to an application; lists show them to those only who ask for system tasks."""
    settings = app.settings.housekeeping
    defaults = {"webhook_delivery_prune": {"retention_hours": settings.deliveries_hours}}
    for handler in (stale_session_cleanup, webhook_delivery_prune, expired_oauth_cleanup, expired_auth_cleanup):
        name = handler.__name__
        app.task(
            schedule=cron(SCHEDULES[name], overlap="skip"),
            queue=settings.queue,
            default_payload=defaults.get(name),
            max_attempts=3,
            timeout=TURN_S + 300,
            system=True,
        )(_by(settings, handler))


def _by(settings: HousekeepingSettings, handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)  # under this name a process of its own finds it
    async def by_settings(*args: Any, **arguments: Any) -> Any:
        _settings.set(settings)  # each job has a context of its own
        return await handler(*args, **arguments)

    return by_settings


# At the top level of the module: a process of its own, in which a suspect runs, must find them.


async def stale_session_cleanup(ctx: Context) -> dict[str, Any]:
    """Removes sessions that have ended, and answers that were kept for requests that might be repeated."""
    return await _clean_up(ctx)


async def webhook_delivery_prune(ctx: Context, retention_hours: Hours = 168) -> dict[str, Any]:
    """Removes old records of what was sent to webhooks."""
    from rota.control.retention import prune_deliveries

    async with ctx.connection() as conn:
        removed = await prune_deliveries(conn, hours=retention_hours)
    return await _clean_up(ctx, Report({"rota.webhook_delivery": removed}))


async def expired_oauth_cleanup(ctx: Context) -> dict[str, Any]:
    """Removes tokens that expired or were revoked over a day ago, and what rules say of an application's own tokens and codes."""
    return await _clean_up(ctx)


async def expired_auth_cleanup(ctx: Context) -> dict[str, Any]:
    """Removes sign-in links that have expired, and what rules say of an application's own password resets."""
    return await _clean_up(ctx)


@dataclass(slots=True)
class Report:
    """What a run has done: rows removed by table, what was not there, and what went wrong."""

    removed: dict[str, int] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)  # there is more, for the next run
    failed: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """The run's result: the rows, and of the rest what there is."""
        rest = {"absent": self.absent, "unfinished": self.unfinished}
        return {"removed": self.removed, **{name: lines for name, lines in rest.items() if lines}}


async def _clean_up(ctx: Context, report: Report | None = None) -> dict[str, Any]:
    """Follows the rules of the task that runs; those that cannot be followed do not keep the others from it."""
    report = report or Report()
    until = monotonic() + TURN_S
    for rule in rules_of(ctx.task, _settings.get() or load_settings().housekeeping):
        async with ctx.connection() as conn:
            try:
                await prune(conn, rule, report, until=until, stop=lambda: ctx.canceled)
            except (errors.UndefinedTable, errors.UndefinedColumn) as error:
                report.absent.append(_line(rule, _said(error)))
            except (errors.LockNotAvailable, errors.DeadlockDetected):
                report.unfinished.append(_line(rule, "somebody has locked it"))
            except errors.QueryCanceled:
                report.failed.append(_line(rule, f"a batch took longer than {STATEMENT_MS / 1000:g} s: an index may help"))
            except errors.OperationalError:
                raise  # the connection is gone, and nothing is wrong with the rule: the next attempt goes on
            except errors.Error as error:
                report.failed.append(_line(rule, _said(error)))
    for line in report.absent:
        ctx.log.warning("housekeeping.absent", rule=line)
    if report.failed:
        raise HousekeepingFailed(f"{len(report.failed)} rules of {ctx.task} could not be followed: {'; '.join(report.failed)}")
    return report.plain()


def rules_of(task: str, settings: HousekeepingSettings) -> list[PruneRule]:
    """The rules behind a task: Rota's own, then those of the configuration."""
    return [rule for rule in (*OWN_RULES, *settings.rules) if rule.task == task]


async def prune(conn: Conn, rule: PruneRule, report: Report, *, until: float, stop: Callable[[], bool]) -> None:
    """Removes what a rule says, a batch at a time, each a transaction of its own, at least one and then as long as time is left.

    Rows that somebody has locked are passed over. Between two batches there is a rest as long as the last one took.
    """
    report.removed.setdefault(rule.table, 0)
    name = sql.Identifier(*rule.table.split("."))
    quoted = name.as_string(conn)
    async with conn.transaction():
        tables = await (await conn.execute(_TABLES, [quoted, quoted])).fetchall()
    if not tables:
        raise errors.UndefinedTable("there is no such table")
    for schema, table, is_table in tables:
        if not is_table:
            raise errors.WrongObjectType("this is not a table")
        # Composed and not formatted: the condition may have braces and percent signs of its own.
        statement = sql.SQL(_DELETE).format(
            table=sql.Identifier(schema, table), where=sql.SQL(rule.where), batch=sql.Literal(rule.batch)
        )
        while True:
            started = monotonic()
            async with conn.transaction():
                await conn.execute(_BOUNDS, [str(STATEMENT_MS), str(LOCK_MS)])
                # binary: by the protocol that takes one statement only.
                count = (await conn.execute(statement, binary=True)).rowcount
            report.removed[rule.table] += count
            if count < rule.batch:
                break
            if monotonic() > until or stop():
                report.unfinished.append(rule.table)
                return
            await asyncio.sleep(monotonic() - started)


def _line(rule: PruneRule, words: str) -> str:
    return f"{rule.table} ({words})"  # not with a colon: what follows `oauth_token:` would be taken for one, and be blacked out


def _said(error: errors.Error) -> str:
    return error.diag.message_primary or str(error) or type(error).__name__
