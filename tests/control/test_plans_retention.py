"""Looking for old history and for trouble costs no more than what is found, whatever the statistics say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.support.plans import Session
from tests.support.postgres import Majors
from tests.support.retained import History

from rota.db.connection import connect
from rota.model.ids import new_id
from rota.store import alerts, retention
from rota.store.retention import NO_ID

pytestmark = pytest.mark.req("C08", "O03")

ROWS = 60_000
FEW_PAGES = 150  # some of them of the catalogs
PAGES_A_RUN = 20  # looked at, locked and removed, with a look for its job and its edges

# What is asked every so often of a database with much in it and nothing to do.
IDLE: dict[str, tuple[str, dict[str, Any]]] = {
    "run tasks": (retention.SQL["retention_run_tasks"], {}),
    "log tasks": (retention.SQL["retention_log_tasks"], {}),
    "runs by age": (
        retention.SQL["retention_prune_runs"],
        {"task": "noop", "after": NO_ID, "days": 30, "with_logs": True, "batch": 1000},
    ),
    "lines by age": (retention.SQL["retention_prune_lines"], {"task": "noop", "days": 7, "batch": 1000}),
    "edges": (retention.SQL["retention_prune_edges"], {"days": 30, "batch": 1000}),
    "partitions": (retention.SQL["retention_partitions"], {"table": "run", "days": 30}),
    "the one too many": (retention.SQL["retention_surplus"], {"task": "noop", "count": 100}),
    "queue ages": (alerts.SQL["alerts_queue_ages"], {"age_s": 300.0}),
    "signals": (alerts.SQL["alerts_take_signals"], {"limit": 100}),
    "settle": (alerts.SQL["alerts_settle"], {}),
    "known conditions": (alerts.SQL["alerts_active"], {"kinds": ["queue_stuck"]}),
}


def _fill(conn: psycopg.Connection[Any]) -> None:
    def ids(table: int) -> str:  # in the order of time, as real ones are
        return f"CAST('{new_id().hex[:16]}800{table}' || lpad(to_hex(n), 12, '0') AS uuid)"

    conn.execute("INSERT INTO rota.queue (name) VALUES ('default') ON CONFLICT DO NOTHING")
    conn.execute("INSERT INTO rota.alert (kind, subject, severity, summary, first_seen_at, last_seen_at) "
                 "VALUES ('job_failed', 'noop', 'error', 'x', now(), now())")  # fmt: skip
    for table, columns, values in (
        ("job", "id, task, priority", f"{ids(0)}, 'noop', n % 3"),
        (
            "run",
            "job_id, attempt, task, queue, outcome, final, finished_at, payload",
            f"{ids(1)}, 1, 'noop', 'default', 'completed', true, now(), '{{}}'",
        ),
        ("log", "at, task, job_id, attempt, sequence, level, message", f"now(), 'noop', {ids(1)}, 1, 1, 20, 'said'"),
        ("job_edge", "parent_id, child_id", f"{ids(1)}, {ids(2)}"),
        ("schedule", "task, key, strategy, every", "'fetch', n::text, 'recurring', '1 h'"),
    ):
        conn.execute(f"INSERT INTO rota.{table} ({columns}) SELECT {values} FROM generate_series(1, {ROWS}) n".encode())


@pytest.mark.parametrize("major", [15, 18])
def test_looks_are_cheap(major: int, majors: Majors) -> None:
    """In a session that began when all was empty, as in any other, and when there is nothing to find."""
    with majors.database(major) as name:
        dsn = majors.of(major).dsn(name)
        with psycopg.connect(dsn, autocommit=True) as other, connect(dsn, "test") as conn:
            other.execute("ANALYZE")
            _a_turn_that_began_when_all_was_empty(other, Session(conn))
        with connect(dsn, "test") as conn:
            found = _idle_looks(Session(conn), "analyzed when empty")
            conn.execute("ANALYZE")
            found |= _idle_looks(Session(conn), "analyzed")
            assert found == {}


def _a_turn_that_began_when_all_was_empty(other: psycopg.Connection[Any], session: Session) -> None:
    prune, parameters = IDLE["runs by age"][0], {**IDLE["runs by age"][1], "with_logs": False}
    lines, of_lines = IDLE["lines by age"]
    history = History(other)
    for _ in range(7):  # a function's statements get a generic plan at their sixth run
        history.fill(2, age=timedelta(days=60), task="noop")
        session.read(prune, parameters)
        session.read(lines, of_lines)
    _fill(other)
    history.fill(100, age=timedelta(days=60), task="noop")
    pages, _, [(_, pruned)] = session.read(prune, parameters)
    assert (pruned, pages < 100 * PAGES_A_RUN) == (100, True), pages
    assert session.read(lines, of_lines)[0] < FEW_PAGES


def _idle_looks(session: Session, situation: str) -> dict[str, int]:
    """Those that touch more than a few pages, and how many."""
    found = {}
    for name, (statement, parameters) in IDLE.items():
        session.read(statement, parameters)  # the first time reads the catalogs
        for _ in range(7):
            pages, _, _ = session.read(statement, parameters)
            if pages > FEW_PAGES:
                found[f"{name}, {situation}"] = pages
    return found
