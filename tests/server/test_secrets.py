"""What is secret in a job is shown to no caller: not in clear, not encoded, not as ciphertext."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest
from tests.support import people
from tests.support.shop import ADMIN, Shop, open_shop

CANARY = "hunter2canary-4711-abcdef"

pytestmark = pytest.mark.req("T07")


@pytest.fixture
async def shop(dsn: str) -> AsyncIterator[Shop]:
    async with open_shop(dsn, http_enabled=True) as shop:
        yield shop


async def test_no_role_reads_the_secrets_of_anothers_job(shop: Shop) -> None:
    await people.make(shop.server, "ann@example.org")
    await people.make(shop.server, "rita@example.org", "read_only")
    asked = {
        "url": f"https://example.org/hook?token={CANARY}",
        "json": {"card": CANARY},
        "headers": {"Authorization": f"Bearer {CANARY}"},
        "signing_secret": CANARY,
    }
    status, job = await people.call(shop.server, await people.jwt(shop.server, "ann@example.org"), "POST", "/jobs", asked)
    assert status == 202, job
    for name in ("rita@example.org", ADMIN):
        headers = await people.jwt(shop.server, name)
        async with shop.server.client.get(f"/api/admin/jobs/{job['id']}", headers=headers) as answer:
            text = await answer.text()
        assert answer.status == 200
        assert '"Authorization":"[redacted]"' in text.replace(" ", "")
        assert CANARY not in text
        assert base64.b64encode(CANARY.encode()).decode()[:-4] not in text
        assert "rota-secret:" not in text
        assert "rota-open:" not in text
