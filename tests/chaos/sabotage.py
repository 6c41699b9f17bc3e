"""Takes a guarantee out of the engine, to see that the run turns red without it."""

from __future__ import annotations

import re
from typing import Any

import psycopg

from rota.engine.claimer import Claimer
from rota.engine.transport import Session
from rota.store import runs

VARIABLE = "CHAOS_SABOTAGE"
KINDS = ("fence", "charge", "poll")

_FENCE = "AND worker_id = %(worker)s AND token = (%(tokens)s::bigint[])[array_position(%(ids)s::uuid[], id)]"
_UNCHARGED = "attempt = attempt - 1"
_STATEMENTS = {
    "fence": [
        (
            "runs_complete",
            "AND j.token = (%(tokens)s::bigint[])[width_bucket(j.id, %(ids)s::uuid[])] AND j.worker_id = %(worker)s",
            "",
        ),
        ("runs_renew", _FENCE, "AND state = 'running'"),
        ("runs_release", _FENCE, "AND state = 'running'"),
    ],
    "charge": [
        ("runs_claim", "attempt = attempt + 1", "attempt = attempt + 1, forgiven = forgiven + 1"),
        ("runs_release", _UNCHARGED, f"{_UNCHARGED}, forgiven = forgiven - 1"),
        ("runs_release_unknown", _UNCHARGED, f"{_UNCHARGED}, forgiven = forgiven - 1"),
    ],
}
_IS_NOT_OURS = "IF j.id IS NULL THEN RETURN NULL; END IF;"
_FINISH = {
    "fence": ("AND token = run_token AND worker_id = run_worker AND state", "AND state"),
    # Charged when it ends instead of when it begins: then what never ends is never charged.
    "charge": (
        _IS_NOT_OURS,
        f"""{_IS_NOT_OURS}
        IF run_outcome <> 'crashed' THEN
            j.forgiven := j.forgiven - 1;
            UPDATE rota.job SET forgiven = forgiven - 1 WHERE id = j.id;
        END IF;""",
    ),
}


def variables(kind: str | None) -> dict[str, str]:
    """Give what tells a worker process to take it out."""
    return {VARIABLE: kind} if kind else {}


def in_database(conn: psycopg.Connection[Any], kind: str | None) -> None:
    """Change what the database does."""
    if kind not in _FINISH:
        return
    if kind == "charge":
        conn.execute("ALTER TABLE rota.job DROP CONSTRAINT job_attempt")
    row = conn.execute("SELECT pg_get_functiondef('rota.finish_run'::regproc)").fetchone()
    assert row is not None
    conn.execute(replace(row[0], *_FINISH[kind]))


def in_worker(kind: str | None) -> None:
    """Change what this process does."""
    for block, old, new in _STATEMENTS.get(kind or "", ()):
        runs.SQL[block] = replace(runs.SQL[block], old, new)
    if kind == "poll":
        Claimer._wait_for_wake = _wait_for_ever  # type: ignore[method-assign,assignment]


async def _wait_for_ever(self: Claimer, session: Session, _seconds: float) -> None:
    while not await session.wait_for_wake(3600):
        pass


def replace(text: str, old: str, new: str) -> str:
    """Put `new` where `old` is, and fail if it is not there."""
    # However the lines are broken.
    replaced, count = re.subn(r"\s+".join(map(re.escape, old.split())), lambda _: new, text)
    if not count:
        raise ValueError(f"there is nothing to take out: {old!r} is not in\n{text}")
    return replaced
