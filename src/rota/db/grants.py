"""What a role of PostgreSQL may do with Rota's schema: look, or operate.

History is written by the system only: neither gets a right to write to `rota.run` or `rota.log`. Where operating a job writes
history all the same, a function does it with the rights of the schema's owner. What is not named here only the owner sees and
writes: so do secrets, and tables that are yet to come.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import psycopg
from psycopg import sql

from rota.errors import NotFound, UsageError

Kind = Literal["read", "operate"]

_SEEN = (
    "migration", "job", "run", "jobs", "job_key", "job_edge", "job_edit", "job_count", "queue", "task", "task_stat", "worker",
    "schedule", "occurrence", "lock", "unknown_task", "app_uptime", "limit_look", "limit_use", "log", "alert", "webhook_delivery",
)  # fmt: skip
# What Rota's own statements write on behalf of an operator: never what a job or schedule runs, with which payload or for whom.
_OPERATED = {
    "job": "UPDATE (state, run_at, updated_at, limited, line, limit_key)",
    "queue": "INSERT, UPDATE",
    "task": "UPDATE (schedule_deleted_at)",
    "schedule": "UPDATE (enabled, next_run_at, job_id, last_error, updated_at), DELETE",
    "occurrence": "INSERT",
    "limit_look": "INSERT, UPDATE, DELETE",
    "limit_use": "INSERT, UPDATE, DELETE",
    "alert": "UPDATE",
    "audit": "INSERT",  # and never anything else: who may change jobs may not change what is known of that
}
_OPERATORS_FUNCTIONS = ("cancel_job", "retry_job", "edit_job", "enqueue")


def statements(conn: psycopg.Connection[Any], role: str, kind: Kind) -> list[str]:
    """The statements that give a role what it needs."""
    if kind not in get_args(Kind):
        raise UsageError(f"--as={kind!r} is unknown: one of {', '.join(get_args(Kind))}")
    if conn.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchone() is None:
        raise NotFound(f"there is no role {role!r} in this server: CREATE ROLE it first")
    rights = [("SELECT", table) for table in _SEEN]
    if kind == "operate":
        rights += [(right, table) for table, right in _OPERATED.items()]
    made = ["GRANT USAGE ON SCHEMA rota TO {}", *(f"GRANT {right} ON rota.{table} TO {{}}" for right, table in rights)]
    if kind == "operate":
        functions = conn.execute(
            """SELECT oid::regprocedure::text FROM pg_proc
               WHERE pronamespace = 'rota'::regnamespace AND proname = ANY (%s) ORDER BY 1""",
            [list(_OPERATORS_FUNCTIONS)],
        ).fetchall()
        made += [f"GRANT EXECUTE ON FUNCTION {name} TO {{}}" for (name,) in functions]
    return [sql.SQL(statement).format(sql.Identifier(role)).as_string(conn) for statement in made]


def grant(conn: psycopg.Connection[Any], role: str, kind: Kind) -> list[str]:
    """Carries the statements out, all or none, and gives them."""
    with conn.transaction():
        done = statements(conn, role, kind)
        for statement in done:
            conn.execute(statement.encode())
    return done
