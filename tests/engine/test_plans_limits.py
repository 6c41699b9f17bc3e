"""Limits cost a claim nothing, and admission looks at no more than it needs, however many jobs wait for a place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.plans import Session, nodes
from tests.support.postgres import server_of

from rota.db.connection import connect
from rota.model.ids import new_id
from rota.store import runs

pytestmark = pytest.mark.req("S09", "Q04")

HELD = 100_000
FEW_PAGES = 60
WORKER = new_id()
CLAIM = {
    "worker": WORKER,
    "queue": "default",
    "limit": 10,
    "lease_s": 300,
    "priority": -32768,
    "run_at": "-infinity",
    "id": str(new_id()),
}


@pytest.fixture(params=[15, 18])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A server whose statistics say that nothing is held, and where a limit of one holds a great many jobs."""
    with server_of(request.param, tmp_path) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("ANALYZE")
            conn.execute(
                """INSERT INTO rota.task (name, queue, priority, max_attempts, max_concurrency, payload_schema)
                   VALUES ('narrow', 'default', 0, 4, 1, '{}'), ('other', 'default', 0, 4, 5, '{}')"""
            )
            # In the order of ids, as real ones come.
            id = f"CAST('{new_id().hex[:20]}' || lpad(to_hex(n), 12, '0') AS uuid)"
            conn.execute(
                f"""INSERT INTO rota.job (id, task, limited, state)
                    SELECT {id}, 'narrow', true, 'held' FROM generate_series(1, {HELD}) n""".encode()
            )
        yield server.dsn()


class LimitSession(Session):
    """A connection that tells what each statement, and those inside its functions, have read of limited jobs."""

    def pages(self, statement: str, parameters: dict[str, Any] | None = None) -> int:
        """Run a statement: how many pages it touched; fails when a table of jobs was read from end to end, or sorted."""
        self.run(statement, parameters)
        touched = [node for plan in self.plans for node in nodes(plan["Plan"])]
        shown = json.dumps([plan["Query Text"] for plan in self.plans])
        assert not [node for node in touched if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "job"], shown
        for node in touched:
            if node.get("Index Name") == "job_limited":
                assert re.search(r"state(\)::text)? = ", node["Index Cond"]), node  # or = ANY
                assert "task" in node["Index Cond"], node
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
