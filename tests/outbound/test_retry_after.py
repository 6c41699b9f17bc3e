"""Retry-After as servers write it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.outbound.retry_after import read_retry_after

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.req("H04")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0), ("120", 120), (" 5 ", 5), ("3600", 3600), ("3601", 3600), ("99999999999999999999999", 3600),
        ("Tue, 01 Jan 2030 12:00:30 GMT", 30), ("Tue, 01 Jan 2030 11:00:00 GMT", 0), ("Tue, 01 Jan 2030 14:00:30 +0200", 30),
        ("Tuesday, 01-Jan-30 12:00:30 GMT", 30), ("Fri, 31 Dec 9999 23:59:59 GMT", 3600), ("Tue, 01 Jan 2030 12:00:30", 30),
        (None, None), ("", None), ("-1", None), ("1.5", None), ("soon", None), ("1e9", None), ("٣", None), ("0x10", None),
        ("Tue, 41 Jan 2030 12:00:30 GMT", None), ("Tue, 01 Jan 99999 12:00:30 GMT", None), ("x" * 100_000, None),
        ("Tue, 01 Jan 2030 12:00:30 +9999999", None),
    ],
)  # fmt: skip
def test_what_it_says(value: str | None, seconds: float | None) -> None:
    assert read_retry_after(value, now=NOW) == seconds
