"""Stored secrets: whether there is a key for them, and whether they can be read."""

from __future__ import annotations

from rota.control.doctor.finding import Finding, fail, ok, warn
from rota.control.rotation import LIVE, key_uses
from rota.control.words import number
from rota.db import queries
from rota.db.connection import AsyncConn
from rota.model.secret import may_store

SQL = queries.load("doctor")


async def stored_secrets(conn: AsyncConn) -> list[Finding]:
    """Whether tasks with secrets have a key, and every secret outside the history one that is known here."""
    if not may_store(key_needed=False):
        row = await (await conn.execute(SQL["doctor_secret_tasks"])).fetchone()
        if row is not None and row[0]:
            what = f"{number(row[0], 'task')} with secrets and no secrets.key: jobs with a secret are refused"
            return [warn("secrets", what, "set ROTA_SECRETS_KEY for all servers and workers; `rota init` makes a key")]
    uses = [use for use in await key_uses(conn, LIVE) if use.secrets]
    findings = [
        fail(
            "secrets",
            f"{number(use.secrets, 'secret')} encrypted with key {use.id}, which is not in secrets.key here",
            "add that key to secrets.key (ROTA_SECRETS_KEY), after a comma",
        )
        for use in uses
        if not use.known
    ]
    findings += [
        warn("secrets", f"{number(use.secrets, 'secret')} encrypted with the older key {use.id}", "rota secrets rotate")
        for use in uses
        if use.known and not use.newest
    ]
    return findings or ok("secrets", f"{number(sum(use.secrets for use in uses), 'secret')} outside the history, all can be read")
