"""The hot statements keep their plans, whatever the tables hold and whatever the statistics say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.support.postgres import Majors

from rota.db.connection import connect
from rota.model.ids import new_id
from rota.store import runs, workers

MILLION = 1_000_000
FEW_PAGES = 60  # what an idle claim may touch, beside a great many jobs that are not due
WORKER = str(new_id())
NOBODY = "00000000-0000-0000-0000-000000000000"
ID = "{01a1e0ca-1f89-71c6-942e-1dff482eb9a6}"

# Statement, its parameters in the order of their first appearance, and the index that must be walked.
HOT: dict[str, tuple[str, dict[str, Any], str]] = {
    "claim": (
        runs.SQL["runs_claim"],
        {
            "worker": WORKER,
            "lease_s": 300,
            "queue": "default",
            "priority": -32768,
            "run_at": "-infinity",
            "id": NOBODY,
            "tasks": "{work}",
            "limit": 500,
        },
        "job_ready",
    ),
    "promote": (runs.SQL["runs_promote"], {"limit": 1000}, "job_delayed"),
    "complete": (
        runs.SQL["runs_complete"],
        {"ids": ID, "tokens": "{1}", "worker": WORKER, "waited_us": "{1}", "took_us": "{1}", "results": None, "count": 1},
        "job_pkey",
    ),
    "complete scheduled": (
        runs.SQL["runs_complete_scheduled"],
        {
            "ids": ID,
            "tokens": "{1}",
            "worker": WORKER,
            "delays_us": "{1}",
            "next_ats": "{NULL}",
            "waited_us": "{1}",
            "took_us": "{1}",
            "results": None,
            "count": 1,
        },
        "job_pkey",
    ),
    "renew": (runs.SQL["runs_renew"], {"ids": ID, "worker": WORKER, "tokens": "{1}", "lease_s": 300}, "job_pkey"),
    "release": (runs.SQL["runs_release"], {"hold": "f", "ids": ID, "worker": WORKER, "tokens": "{1}"}, "job_pkey"),
    "locked": (runs.SQL["runs_locked"], {"ids": ID}, "job_pkey"),
    "release unknown": (
        runs.SQL["runs_release_unknown"],
        {"worker": WORKER, "older_than_s": 10, "known": ID},
        "job_running",
    ),
    "cancel requested": (runs.SQL["runs_cancel_requested"], {"worker": WORKER}, "job_cancel_requested"),
    "missing workers": (workers.SQL["workers_missing"], {"restart_grace_s": 8}, "worker_live"),
}


@pytest.fixture(params=[15, 18])
def plans(request: pytest.FixtureRequest, majors: Majors) -> Iterator[psycopg.Connection[Any]]:
    """A session like the engine's, on a server of this major version."""
    with majors.database(request.param) as name, connect(majors.of(request.param).dsn(name), "test") as conn:
        yield conn


@pytest.mark.req("Q04")
def test_hot_statements_keep_their_plans(plans: psycopg.Connection[Any]) -> None:
    for name, (statement, parameters, _) in HOT.items():
        _prepare(plans, name, statement, parameters)
    _check(plans, "empty")
    plans.execute("ANALYZE")
    _check(plans, "empty, analysed")
    _fill(plans, 1000)
    _check(plans, "1k rows, analysed and planned when empty")
    plans.execute("DISCARD PLANS")
    _check(plans, "1k rows, analysed when empty")
    plans.execute("DELETE FROM rota.job")
    plans.execute("VACUUM (TRUNCATE false, ANALYZE) rota.job")
    plans.execute("DISCARD PLANS")
    _check(plans, "many pages with nothing in them")
    _fill(plans, MILLION)
    plans.execute("DISCARD PLANS")
    _check(plans, "1M rows, analysed when empty")
    plans.execute("ANALYZE")
    plans.execute("DISCARD PLANS")
    _check(plans, "1M rows, analysed")

    plans.execute("TRUNCATE rota.job")
    _insert(plans, MILLION // 5, "state, run_at", "'delayed', now() + n * interval '1 s' + interval '1 day'")
    for analysed in (False, True):
        if analysed:
            plans.execute("ANALYZE")
        for name in ("claim", "promote"):
            pages = _pages(plans, name)
            assert pages < FEW_PAGES, f"{name} touches {pages} pages beside {MILLION // 5} delayed jobs (analysed: {analysed})"


def _fill(conn: psycopg.Connection[Any], rows: int) -> None:
    _insert(conn, rows, "state", "'queued'")
    _insert(
        conn,
        rows // 1000,
        "state, worker_id, claimed_at, lease_until, attempt",
        f"'running', '{WORKER}', now(), now() + interval '5 min', 1",
    )


def _insert(conn: psycopg.Connection[Any], rows: int, columns: str, values: str) -> None:
    # In the order of ids, as real ones come: at random a million takes ten times as long.
    prefix = new_id().hex[:20]
    ids = f"CAST('{prefix}' || lpad(to_hex(n), 12, '0') AS uuid)"
    conn.execute("SET statement_timeout = 0")
    conn.execute(
        f"INSERT INTO rota.job (id, task, {columns}) SELECT {ids}, 'noop', {values} FROM generate_series(1, {rows}) n".encode()
    )


def _prepare(conn: psycopg.Connection[Any], name: str, statement: str, parameters: dict[str, Any]) -> None:
    seen: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in seen:
            seen.append(match[1])
        return f"${seen.index(match[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", number, statement)
    assert seen == list(parameters), f"the parameters of {name} have changed: {seen}"
    conn.execute(f'PREPARE "{name}" AS {text}'.encode(), prepare=False)


def _plan(conn: psycopg.Connection[Any], name: str, options: str = "") -> dict[str, Any]:
    values = ", ".join("NULL" if value is None else f"'{value}'" for value in HOT[name][1].values())
    row = conn.execute(f'EXPLAIN (FORMAT JSON{options}) EXECUTE "{name}"({values})'.encode(), prepare=False).fetchone()
    assert row is not None
    return (row[0] if isinstance(row[0], list) else json.loads(row[0]))[0]["Plan"]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _check(conn: psycopg.Connection[Any], situation: str) -> None:
    for name, (_, _, index) in HOT.items():
        nodes = list(_nodes(_plan(conn, name)))
        shown = f"{name} ({situation}): {json.dumps([_brief(node) for node in nodes])}"
        scanned = [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"]
        assert not {"job", "run", "worker"}.intersection(scanned), shown
        used = [node for node in nodes if node.get("Index Name") == index]
        assert used, shown
        if name == "claim":
            walk = next(node for node in used if node["Index Name"] == "job_ready")
            assert "ROW(priority, (run_at)::timestamp with time zone, id) >" in walk["Index Cond"], shown
            assert not any(node["Node Type"] == "Sort" for node in nodes), shown
        if name in ("claim", "promote", "complete", "complete scheduled", "renew", "release"):
            looked_up = [node for node in nodes if node.get("Index Name") == "job_pkey"]
            assert all("id = " in node.get("Index Cond", "") for node in looked_up), shown


def _brief(node: dict[str, Any]) -> str:
    return " ".join(str(node[key]) for key in ("Node Type", "Relation Name", "Index Name", "Index Cond") if key in node)


def _pages(conn: psycopg.Connection[Any], name: str) -> int:
    for _ in range(2):  # the first time the functions inside are planned, which reads the catalog
        plan = _plan(conn, name, ", ANALYZE, BUFFERS")
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
