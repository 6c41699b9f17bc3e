"""Schemathesis over the whole API, the short form: `make fuzz` runs thousands of calls."""

from __future__ import annotations

import pytest
from tests.server import fuzz
from tests.support.shop import open_shop


@pytest.mark.req("A03")
async def test_every_answer_is_what_the_document_says(dsn: str) -> None:
    async with open_shop(dsn, http_enabled=True, app_apps=fuzz.APPS) as shop:
        await fuzz.stock(shop, dsn)
        found = await fuzz.fuzz(shop, examples=1, phases="fuzzing", seed=7)
    assert found.calls > 90, found.output
    assert found.server_errors == 0, found.output
    assert found.exit_code == 0, found.output
