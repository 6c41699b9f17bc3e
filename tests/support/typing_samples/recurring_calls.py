"""Recurring tasks: calls that a type checker must accept, and calls it must refuse, which end in `# E`.

Never imported: pyright and mypy read it, and tests/unit/test_typing.py compares the lines they complain about.
"""

from datetime import UTC, datetime, timedelta
from typing import assert_type
from uuid import UUID

from rota import Context, Recurrence, Retry, Rota

app = Rota()


@app.recurring(key="feed:{feed_id}")
async def fetch(ctx: Context, feed_id: UUID, name: str = "") -> timedelta:
    return timedelta(hours=1)


@app.recurring(key="{number}", every="5m", retry=Retry(base="1m", cap="1h"), history=True)
def count(number: int) -> datetime | None: ...


@app.recurring(key="all")
def renew(ctx: Context) -> None: ...


async def good(id: UUID) -> None:
    assert_type(fetch.ensure(id), Recurrence)
    fetch.ensure(feed_id=id, name="x")
    assert_type(await fetch.aensure(id, "x"), Recurrence)
    count.ensure(1)
    renew.ensure()
    assert_type(fetch.ensure_many([{"feed_id": id}]), list[Recurrence])
    await fetch.aensure_many({"feed_id": id} for _ in range(3))
    fetch.enable(id)
    assert_type((await fetch.adisable(feed_id=id)).next_run_at, datetime | None)
    fetch.sync_enabled("EXISTS (SELECT FROM subscription WHERE feed_id = %(feed_id)s)", id)
    await fetch.async_enabled("true", feed_id=id)
    fetch.using(conn=object(), every="1h", first_run_at=datetime.now(UTC)).ensure(id)
    assert_type(count(1), datetime | None)


async def bad(id: UUID) -> None:
    fetch.ensure()  # E
    fetch.ensure("x")  # E
    fetch.ensure(feed_id=1)  # E
    fetch.ensure(id, 1)  # E
    fetch.ensure(fed_id=id)  # E
    await fetch.aensure(id, nam="x")  # E
    count.ensure("1")  # E
    renew.ensure(1)  # E
    fetch.enable("x")  # E
    await fetch.adisable()  # E
    fetch.sync_enabled(id)  # E
    fetch.sync_enabled("true")  # E
    await fetch.async_enabled("true", "x")  # E
    fetch.ensure_many([id])  # E
    fetch.using(evry="1h")  # E
    fetch.using(first_run_at="tomorrow").ensure(id)  # E
    fetch.using(conn=object()).ensure("x")  # E


@app.recurring()  # E
def without_key() -> None: ...


@app.recurring(key="x", evry="1h")  # E
def misspelled() -> None: ...
