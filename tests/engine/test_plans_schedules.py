"""A million recurring rows of which few are due: looking for those costs no more than they do, whatever the statistics say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support.plans import Session
from tests.support.postgres import Majors
from tests.support.recurring import Rows

from rota.db.connection import connect
from rota.model.ids import new_id
from rota.store import runs, schedules

pytestmark = pytest.mark.req("R07", "S02")

ROWS = 1_000_000
NAMED = 2_000
DUE = 40  # at each round
ANALYZED = 5  # the round from which on statistics are right
EMPTIED = 7  # and that in which they say of a table that may fill up any time that it has many pages and nothing in them
BIG = {"schedule", "occurrence", "job", "run"}
WORKER = new_id()
NOBODY = UUID(int=0)

# Statements of a scheduler that finds nothing to do, and the pages that each may touch.
IDLE: dict[str, tuple[str, dict[str, Any]]] = {
    name: (schedules.SQL[f"schedules_{name}"], parameters)
    for name, parameters in {
        "due": {"apps": ["default"], "limit": 100},
        "next": {"apps": ["default"]},
        "unplanned": {"after": NOBODY, "limit": 100},
        "failing": {},
        "deadlines": {},
        "heal": {"after": NOBODY, "limit": 5000},
        "prune": {"days": 30, "limit": 5000},
        "lock": {"owner": "me", "hold_s": 10},
    }.items()
}
FEW_PAGES = 60
PAGES_A_ROW = 60  # read or written for one row that is fired, ended or changed, with its indexes and its job


@pytest.fixture(params=[15, 18])
def server(request: pytest.FixtureRequest, majors: Majors) -> Iterator[str]:
    """A database whose statistics say that everything is empty, and where nothing is."""
    with majors.filled(request.param, _fill) as name:
        yield majors.of(request.param).dsn(name)


def _fill(conn: psycopg.Connection[Any]) -> None:
    def ids(table: int) -> str:  # in the order of time, as real ones are
        return f"CAST('{new_id().hex[:16]}800{table}' || lpad(to_hex(n), 12, '0') AS uuid)"

    fill = "INSERT INTO rota.{} ({}) SELECT {} FROM generate_series(1, {}) n"
    for table, columns, values, rows in (
        (
            "schedule",
            "id, task, key, strategy, every, next_run_at",
            f"{ids(0)}, 'fetch', lpad(n::text, 8, '0'), 'recurring', '1 h', now() + n * interval '1 s' + interval '1 h'",
            ROWS,
        ),
        (
            "schedule",
            "id, name, task, strategy, every, next_run_at",
            f"{ids(1)}, n::text, 'tell', 'interval', '1 h', now() + n * interval '1 s' + interval '1 h'",
            NAMED,
        ),
        ("job", "id, task", f"{ids(2)}, 'noop'", 50_000),
        (
            "run",
            "job_id, attempt, task, queue, outcome, final, finished_at",
            f"{ids(3)}, 1, 'noop', 'default', 'lost', false, now()",
            50_000,
        ),
    ):
        conn.execute(fill.format(table, columns, values, rows).encode())
    conn.execute(
        """INSERT INTO rota.occurrence (schedule_id, instant, outcome, reason)
           SELECT s.id, now() - n * interval '1 min', 'skipped', 'overlap'
           FROM generate_series(1, 25) n, rota.schedule s WHERE s.key IS NULL"""
    )


def test_statements_and_functions_keep_their_plans(server: str) -> None:
    with (
        connect(server, "test") as engines,
        psycopg.connect(server, autocommit=True) as callers,
        psycopg.connect(server, autocommit=True) as plain,
    ):
        engine, caller, rows = Session(engines), Session(callers), Rows(plain)
        for round in range(8):  # a function's statements get a generic plan at their sixth run
            if round == ANALYZED:
                plain.execute("ANALYZE")
            elif round == EMPTIED:
                plain.execute("DELETE FROM rota.job")
                plain.execute("VACUUM (TRUNCATE false, ANALYZE) rota.job")
            _look(engine, f"round {round}")
            _live(engine, caller, rows, round)


def _look(engine: Session, situation: str) -> None:
    for name, (statement, parameters) in IDLE.items():
        _check(engine, name, statement, parameters, FEW_PAGES, situation)


def _live(engine: Session, caller: Session, rows: Rows, round: int) -> None:
    """Some rows become due, and all that can become of a row becomes of them."""
    situation = f"round {round}"
    keys = [f"{round * 1000 + number:08}" for number in range(1, DUE + 1)]
    rows.conn.execute("UPDATE rota.schedule SET next_run_at = now() WHERE task = 'fetch' AND key = ANY (%s)", [keys])
    fire = {"apps": ["default"], "limit": 500, "id_time": str(new_id())[: schedules.ID_TIME]}
    fired = _check(engine, "fire", schedules.SQL["schedules_fire_recurring"], fire, DUE * PAGES_A_ROW, situation)
    assert fired[0][0] == DUE
    _check(engine, "heal", schedules.SQL["schedules_heal"], {"after": NOBODY, "limit": 5000}, DUE * PAGES_A_ROW, situation)

    held = sorted((rows.claim(key, worker=WORKER) for key in keys[: DUE - 5]), key=lambda each: each.id)
    complete = {
        "worker": WORKER,
        "count": len(held),
        "ids": [each.id for each in held],
        "tokens": [each.token for each in held],
        "waited_us": [0] * len(held),
        "took_us": [0] * len(held),
        "results": None,
        "delays_us": [3_600_000_000] * len(held),
        "next_ats": [None] * len(held),
    }
    _check(engine, "locked", runs.SQL["runs_locked"], {"ids": complete["ids"]}, len(held) * PAGES_A_ROW, situation)
    done = _check(engine, "complete", runs.SQL["runs_complete_scheduled"], complete, len(held) * PAGES_A_ROW, situation)
    assert done[0][0] == len(held)

    failing, lost, within, queued, canceled = keys[DUE - 5 :]
    finish = "SELECT rota.finish_run(%s, %s, %s, %s, 0, 0)"
    run = rows.claim(failing, worker=WORKER)
    _check(engine, "fail", finish, [run.id, run.token, WORKER, "failed"], 3 * PAGES_A_ROW, situation)
    _check(caller, "retry", "SELECT rota.retry_job(%s)", [run.id], 3 * PAGES_A_ROW, situation)
    run = rows.claim(failing, worker=WORKER)
    _check(engine, "snooze", finish, [run.id, run.token, WORKER, "snoozed"], 3 * PAGES_A_ROW, situation)
    run = rows.claim(within, worker=WORKER)
    _check(caller, "complete within", finish, [run.id, run.token, WORKER, "completed"], 3 * PAGES_A_ROW, situation)
    rows.conn.execute("UPDATE rota.job SET crashes = 3, attempt = 3 WHERE id = %s", [rows.row(lost).job_id])
    rows.claim(lost, worker=WORKER, lease_s=-1)
    _check(engine, "rescue", "SELECT * FROM rota.rescue_runs('{}')", None, 3 * PAGES_A_ROW, situation)
    cancel = "SELECT rota.cancel_job(%s)"
    _check(caller, "cancel", cancel, [rows.row(canceled).job_id], 3 * PAGES_A_ROW, situation)

    switch = "SELECT * FROM rota.set_recurring('fetch', %s, %s)"
    _check(caller, "disable", switch, [queued, False], 3 * PAGES_A_ROW, situation)
    _check(caller, "enable", switch, [queued, True], 3 * PAGES_A_ROW, situation)
    _check(caller, "lock", "SELECT rota.lock_recurring('fetch', %s)", [queued], FEW_PAGES, situation)
    ensure = "SELECT * FROM rota.ensure_recurring('fetch', %s)"
    _check(caller, "ensure", ensure, [queued], 3 * PAGES_A_ROW, situation)
    _check(caller, "ensure a new one", ensure, [f"new {round}"], 3 * PAGES_A_ROW, situation)
    made = ",".join(f'["{key}", {{}}]' for key in (*keys, *(f"{key} new" for key in keys)))
    many = "SELECT * FROM rota.ensure_recurring_rows('fetch', %s::text::json)"
    _check(caller, "ensure many", many, [f"[{made}]"], 2 * DUE * PAGES_A_ROW, situation)
    rows.fire()
    rows.conn.execute("DELETE FROM rota.job WHERE schedule_id IS NOT NULL")
    rows.conn.execute(
        """UPDATE rota.schedule SET job_id = NULL, next_run_at = now() + interval '1 h'
           WHERE job_id IS NOT NULL OR next_run_at <= now() + interval '30 min'"""
    )


def _check(session: Session, name: str, statement: str, parameters: Any, most: int, situation: str) -> list[Any]:
    pages, scans, rows = session.read(statement, parameters)
    read = [scan for scan in scans if scan.split()[0].split("_2")[0].removesuffix("_default") in BIG]
    assert read == [], f"{name} ({situation})"
    # But for the rounds in which functions are planned, and the catalog is read for that.
    if situation not in ("round 0", f"round {ANALYZED}", f"round {EMPTIED}"):
        assert pages <= most, f"{name} ({situation}) touches {pages} pages"
    return rows
