"""Limits cost a claim nothing, and admission looks at no more than it needs, however many jobs wait for a place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.support.plans import Session, nodes
from tests.support.postgres import Majors

from rota.db.connection import connect
from rota.model.ids import new_id
from rota.store import runs

pytestmark = pytest.mark.req("S09", "Q04")

HELD = 100_000
KEYS = 5_000
FEW_PAGES = 100
WORKER = new_id()
CLAIM = {
    "tasks": "{narrow,keyed,free}",
    "worker": WORKER,
    "queue": "default",
    "limit": 10,
    "lease_s": 300,
    "priority": -32768,
    "run_at": "-infinity",
    "id": str(new_id()),
}


@pytest.fixture(scope="module", params=[15, 18])
def filled(request: pytest.FixtureRequest, majors: Majors) -> Iterator[tuple[int, str]]:
    """A database whose statistics say that nothing is held, and where a limit of one holds a great many jobs."""
    with majors.filled(request.param, _fill) as name:
        yield request.param, name


@pytest.fixture
def server(filled: tuple[int, str], majors: Majors) -> Iterator[str]:
    """A copy of it."""
    major, template = filled
    with majors.database(major, template) as name:
        yield majors.of(major).dsn(name)


def _fill(conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        """INSERT INTO rota.task (name, queue, priority, max_attempts, max_concurrency, concurrency_key, key_concurrency,
                                  payload_schema)
           VALUES ('narrow', 'default', 0, 4, 1, NULL, NULL, '{}'), ('other', 'default', 0, 4, 5, NULL, NULL, '{}'),
                  ('keyed', 'default', 0, 4, NULL, '{k}', 1, '{}')"""
    )

    def id() -> str:  # in the order of time, as real ones are; rota.uuid7() would take as long as all the rest
        return f"CAST('{new_id().hex[:20]}' || lpad(to_hex(n), 12, '0') AS uuid)"

    conn.execute(
        f"""INSERT INTO rota.job (id, task, limited, state, line, limit_key)
            SELECT {id()}, t.name, true, 'held', t.line || CASE t.name WHEN 'keyed' THEN ' ' || (n % {KEYS}) ELSE '' END,
                   CASE t.name WHEN 'keyed' THEN (n % {KEYS})::text END
            FROM (VALUES ('narrow', 't narrow', 0, {HELD}), ('keyed', 'k keyed', {HELD}, {2 * HELD}))
                     AS t (name, line, low, high),
                 generate_series(t.low + 1, t.high) n""".encode()
    )
    # Of every key one runs, and one key has as many who wait as all others together.
    conn.execute(
        f"""INSERT INTO rota.job (id, task, queue, limited, state, line, limit_key, worker_id, claimed_at, lease_until,
                                  attempt)
            SELECT {id()}, 'keyed', 'elsewhere', true, 'running', 'p elsewhere', n::text, '{WORKER}', now(),
                   now() + interval '1 h', 1
            FROM generate_series(0, {KEYS - 1}) n""".encode()
    )
    conn.execute(
        f"""INSERT INTO rota.job (id, task, limited, state, line, limit_key)
            SELECT {id()}, 'keyed', true, 'held', 'k keyed 7', '7' FROM generate_series(1, {HELD}) n""".encode()
    )


class LimitSession(Session):
    """A connection that tells what each statement, and those inside its functions, have read of limited jobs."""

    def pages(self, statement: str, parameters: dict[str, Any] | None = None) -> int:
        """Run a statement: how many pages it touched; fails when a table of jobs was read from end to end, or sorted."""
        self.run(statement, parameters)
        touched = [node for plan in self.plans for node in nodes(plan["Plan"])]
        shown = json.dumps([plan["Query Text"] for plan in self.plans])
        assert not [node for node in touched if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "job"], shown
        for node in touched:
            if node.get("Index Name") in ("job_line", "job_place"):
                assert re.search(r"state(\)::text)? = ", node["Index Cond"]), node  # or = ANY
                assert re.search(r"task =|line", node["Index Cond"]), node
        return max(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] for plan in self.plans)


@pytest.mark.parametrize("kind", ["engine's", "pooled"])
def test_a_hundred_thousand_held_jobs_are_not_looked_at(server: str, kind: str) -> None:
    with connect(server, "test", pooled=kind == "pooled") as conn:
        session = LimitSession(conn)
        for _ in range(8):  # a function's statements get a generic plan at their sixth run
            conn.execute("INSERT INTO rota.job (id, task) VALUES (rota.uuid7(), 'free')")
            found = {
                "promote": session.pages(runs.SQL["runs_promote"], {"limit": 1000}),
                "claim": session.pages(runs.SQL["runs_claim"], CLAIM),
            }
            row = conn.execute("SELECT id, token FROM rota.job WHERE task = 'narrow' AND state = 'running'").fetchone()
            assert row is not None, "the next one of the limited task was not admitted and claimed"
            ending = {"id": row[0], "token": row[1], "worker": WORKER}
            found["finish"] = session.pages("SELECT rota.finish_run(%(id)s, %(token)s, %(worker)s, 'completed', 0, 0)", ending)
            conn.execute("DELETE FROM rota.job WHERE task = 'free'")
            assert conn.execute("SELECT count(*) FROM rota.job WHERE limited AND state = 'queued'").fetchone() == (1,)
        assert {name: pages for name, pages in found.items() if pages > FEW_PAGES} == {}  # in the end: first it reads the catalog


@pytest.mark.parametrize("kind", ["engine's", "pooled"])
def test_an_ending_looks_at_its_own_key_only(server: str, kind: str) -> None:
    """Beside five thousand keys, and a hundred thousand jobs of the same key."""
    with connect(server, "test", pooled=kind == "pooled") as conn:
        session = LimitSession(conn)
        finish = "SELECT rota.finish_run(%(id)s, %(token)s, %(worker)s, 'completed', 0, 0)"
        for _ in range(8):
            id, token = conn.execute(
                "SELECT id, token FROM rota.job WHERE task = 'keyed' AND limit_key = '7' AND state = 'running'"
            ).fetchone() or (None, 0)
            assert id is not None, "the next one of its key was not let in"
            pages = session.pages(finish, {"id": id, "token": token, "worker": WORKER})
            conn.execute(
                """UPDATE rota.job SET state = 'running', worker_id = %s, token = 0, attempt = 1, claimed_at = now(),
                          lease_until = now() + interval '1 h'
                   WHERE task = 'keyed' AND limit_key = '7' AND state = 'queued'""",
                [WORKER],
            )
            polled = session.pages(runs.SQL["runs_promote"], {"limit": 1000})
        assert polled <= FEW_PAGES
        assert pages <= FEW_PAGES
