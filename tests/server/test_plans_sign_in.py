"""To know who asks, and to ask for a link, reads a few pages, however many accounts, sessions and tokens there are."""

from __future__ import annotations

from hashlib import md5, sha256
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support.plans import Session

from rota.store import accounts, api_tokens

pytestmark = pytest.mark.req("H05")

MANY = 20_000
FILL = f"""
    ANALYZE;  -- of empty tables: the worst statistics there are
    INSERT INTO rota.account (id, email)
    SELECT md5(n::text)::uuid, 'user' || n || '@example.org' FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.session (id, token_hash, account_id, expires_at)
    SELECT md5(n::text)::uuid, CASE WHEN n % 2 = 0 THEN sha256(n::text::bytea) END, md5(n::text)::uuid,
           rota.now() + interval '1 hour'
    FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.api_token (token_hash, hint, account_id, name, created_by)
    SELECT sha256(n::text::bytea), '', md5(n::text)::uuid, 'x', 'y' FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.allowance SELECT 'links for user' || n || '@example.org', rota.now() FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.sign_in_source (account_id, source)
    SELECT md5(n::text)::uuid, '10.0.0.' || n % 200 FROM generate_series(1, {MANY}) n;
    INSERT INTO rota.magic_link (token_hash, email, expires_at)
    SELECT sha256(n::text::bytea), 'user' || n || '@example.org', rota.now() + interval '1 hour' FROM generate_series(1, {MANY}) n;
"""


def statements(n: int) -> list[tuple[str, dict[str, Any]]]:
    """What is asked about one of them; each finds one row."""
    digest, odd = sha256(str(n).encode()).digest(), UUID(md5(str(n + 1).encode()).hexdigest())
    link = {"email": f"user{n}@example.org", "peer": f"10.0.0.{n % 200}", "hash": sha256(f"new {n}".encode()).digest()}
    link |= {"minutes": 15, "per_hour": 3, "may_sign_up": False}
    return [
        (accounts.SQL["accounts_by_cookies"], {"hashes": [digest]}),
        (accounts.SQL["accounts_by_jwts"], {"ids": [odd]}),
        (api_tokens.SQL["api_tokens_find"], {"hashes": [digest]}),
        (accounts.SQL["accounts_request_link"], link),
        (accounts.SQL["accounts_claim_link"], {"hash": digest}),
    ]


def test_few_pages(conn: psycopg.Connection[Any]) -> None:
    conn.execute(FILL.encode(), prepare=False)
    session = Session(conn)
    for statement, values in statements(600):  # a session's first call of a function reads what it is made of
        session.run(statement, values)
    for statement, values in statements(500):
        pages, scans, rows = session.read(statement, values)
        assert scans == []
        assert pages < 80, statement
        assert len(rows) == 1
