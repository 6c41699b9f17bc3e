"""What statements have read, those inside functions included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg


class Session:
    """A connection that tells the plan of each statement it runs, and how many pages that touched."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn
        self.plans: list[dict[str, Any]] = []
        conn.add_notice_handler(self._take)
        conn.execute("LOAD 'auto_explain'")
        for setting, value in {
            "auto_explain.log_min_duration": "0",
            "auto_explain.log_nested_statements": "on",
            "auto_explain.log_analyze": "on",
            "auto_explain.log_buffers": "on",
            "auto_explain.log_format": "json",
            "auto_explain.log_level": "notice",
        }.items():
            conn.execute("SELECT set_config(%s, %s, false)", [setting, value])

    def _take(self, notice: psycopg.errors.Diagnostic) -> None:
        _, found, plan = (notice.message_primary or "").partition("plan:\n")
        if found:
            self.plans.append(json.loads(plan))

    def run(self, statement: str, parameters: Any = None) -> list[Any]:
        """Run a statement, of which `plans` then tells, and give its rows."""
        self.plans.clear()
        cursor = self.conn.execute(statement.encode(), parameters)
        assert self.plans, "no plan was told: this has shown nothing"
        return cursor.fetchall() if cursor.description else []

    def read(self, statement: str, parameters: Any = None) -> tuple[int, list[str], list[Any]]:
        """Run a statement: the pages that it touched, the tables that were read from end to end, and its rows."""
        rows = self.run(statement, parameters)
        # The statement's own, which counts those inside its functions in, is told last.
        outer = self.plans[-1]["Plan"]
        scans = [
            f"{node['Relation Name']} in {' '.join(plan['Query Text'].split()[:8])}"
            for plan in self.plans
            for node in nodes(plan["Plan"])
            if node["Node Type"] == "Seq Scan" or (node.get("Index Name", "").endswith("_pkey") and "Index Cond" not in node)
        ]
        return outer["Shared Hit Blocks"] + outer["Shared Read Blocks"], scans, rows


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give a plan's nodes, the outer ones first."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)
