"""Takes out what makes an instant fire once, to see that the run turns red without it."""

from __future__ import annotations

from typing import Any

import psycopg
from tests.chaos.sabotage import replace

from rota.store import schedules

VARIABLE = "CHAOS_SCHEDULE_SABOTAGE"
KINDS = ("instant", "guard")

_FUNCTION = {
    # The key of the ledger.
    "instant": [("CONTINUE WHEN EXISTS (SELECT FROM rota.occurrence o WHERE o.schedule_id = s.id AND o.instant = instant);", "")],
    # What refuses a plan that somebody else has carried out meanwhile.
    "guard": [("AND t.enabled AND t.next_run_at = planned_at AND t.next_run_at <= rota.now() FOR UPDATE", "")],
}


def in_database(conn: psycopg.Connection[Any], kind: str | None) -> None:
    """Change what the database does."""
    if kind is None:
        return
    conn.execute("ALTER TABLE rota.occurrence DROP CONSTRAINT occurrence_pkey")
    row = conn.execute("SELECT pg_get_functiondef('rota.fire_schedule'::regproc)").fetchone()
    assert row is not None
    changes = [change for each in ("instant", kind) for change in _FUNCTION[each]] if kind == "guard" else _FUNCTION[kind]
    for old, new in changes:
        row = (replace(row[0], old, new),)
    conn.execute(row[0])


def in_process(kind: str | None) -> None:
    """Change what this process does: the guard is not missed as long as those who plan have their rows to themselves."""
    if kind == "guard":
        schedules.SQL["schedules_due"] = replace(schedules.SQL["schedules_due"], "FOR UPDATE OF s SKIP LOCKED", "")
