"""The statements inside the database's functions keep their plans too, in the engine's sessions and in the callers' own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.support.plans import Session, nodes
from tests.support.postgres import Majors

from rota.db.connection import connect
from rota.model.ids import new_id

ROWS = 100_000
WORKER = new_id()
BIG = {"job", "job_edge", "job_key", "run"}  # with its partitions


@pytest.fixture(params=[15, 18])
def server(request: pytest.FixtureRequest, majors: Majors) -> Iterator[str]:
    """A database whose statistics say that everything is empty, and where nothing is."""
    with majors.filled(request.param, _fill) as name:
        yield majors.of(request.param).dsn(name)


def _fill(conn: psycopg.Connection[Any]) -> None:
    def ids(table: int) -> str:  # in the order of time, as real ones are: runs go to the partition of this week
        return f"CAST('{new_id().hex[:16]}800{table}' || lpad(to_hex(n), 12, '0') AS uuid)"

    for table, columns, values in (
        ("job", "id, task", f"{ids(0)}, 'noop'"),
        (
            "run",
            "job_id, attempt, task, queue, outcome, final, finished_at",
            f"{ids(1)}, 1, 'noop', 'default', 'lost', false, now()",
        ),
        ("job_edge", "parent_id, child_id", f"{ids(2)}, gen_random_uuid()"),
        ("job_key", "task, key, job_id, payload_hash, expires_at", f"'noop', n::text, {ids(3)}, '', now()"),
    ):
        conn.execute(f"INSERT INTO rota.{table} ({columns}) SELECT {values} FROM generate_series(1, {ROWS}) n".encode())


class NestedSession(Session):
    """A connection that tells which big tables its statements, those inside functions included, read from end to end."""

    def scans(self, statement: str, *values: Any) -> list[str]:
        """Run a statement and give the big tables that it, or anything in it, read from end to end."""
        self.run(statement, values)
        return [
            f"{node['Relation Name']} in {plan['Query Text'].split()[:6]}"
            for plan in self.plans
            for node in nodes(plan["Plan"])
            if node["Node Type"] == "Seq Scan" and node["Relation Name"].split("_2")[0].removesuffix("_default") in BIG
        ]


def _claim(conn: psycopg.Connection[Any]) -> tuple[Any, ...]:
    row = conn.execute(
        """UPDATE rota.job SET state = 'running', worker_id = %s, token = token + 1, attempt = attempt + 1, claimed_at = now(),
                  lease_until = now() + interval '5 min'
           WHERE id = (SELECT id FROM rota.job WHERE state = 'queued' ORDER BY id LIMIT 1) RETURNING id, token""",
        [WORKER],
    ).fetchone()
    assert row is not None
    return row


FINISH = "SELECT rota.finish_run(%s, %s, %s, %s, 0, 0, delay => '1 h')"
INSERT = """SELECT * FROM rota.insert_job(%s, 'noop', '{}', 'default', 0, NULL, NULL, 4, NULL, NULL, %s, '1 day', NULL, NULL,
                                          %s::uuid[], 'cancel')"""


@pytest.mark.req("Q07", "Q11", "Q19")
def test_functions_keep_their_plans(server: str) -> None:
    with connect(server, "test") as engines, psycopg.connect(server, autocommit=True) as callers, psycopg.connect(server) as plain:
        plain.autocommit = True
        engine, caller = NestedSession(engines), NestedSession(callers)
        found: dict[str, list[str]] = {}
        for round in range(7):  # a function's statements get a generic plan at their sixth run
            child, keyed = new_id(), new_id()
            parent, token = _claim(plain)
            found["insert a child"] = caller.scans(INSERT, child, None, [parent])
            found["insert by key"] = caller.scans(INSERT, keyed, f"key {round}", [])
            found["finish a parent"] = engine.scans(FINISH, parent, token, WORKER, "completed")
            found["cancel"] = caller.scans("SELECT rota.cancel_job(%s)", child)
            found["retry"] = caller.scans("SELECT rota.retry_job(%s)", child)
            id, token = _claim(plain)
            found["fail"] = engine.scans(FINISH, id, token, WORKER, "failed")
            _claim(plain)
            found["rescue"] = engine.scans("SELECT * FROM rota.rescue_runs(%s)", [WORKER])
            found["rescue nothing"] = engine.scans("SELECT * FROM rota.rescue_runs('{}')")
            assert {name: scans for name, scans in found.items() if scans} == {}, f"round {round}"
