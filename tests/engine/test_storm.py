"""Claims, endings, cancels, retries, rescues and enqueues of families, all at once on the same few jobs."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection
from tests.support.engine import Engine

from rota import Context, Retry, Rota, Snooze
from rota.control import service
from rota.db.connection import AsyncConn, connect_async
from rota.errors import Conflict, NotFound, ParentNotFound
from rota.events import DatabaseLost
from rota.model.filters import JobFilter

STORM_S = 3.0
ENOUGH = 5  # times that each action must have been done for the storm to have been one
EXPECTED = (NotFound, Conflict, ParentNotFound)  # the job was in another state by then: an answer, not an accident


@pytest.mark.req("Q01", "Q10", "Q11", "S09")
@pytest.mark.fault(17)
@pytest.mark.parametrize("most", [None, 4], ids=["no limit", "a limit"])
async def test_no_deadlock_and_no_serialization_failure_reaches_a_user(engine: Engine, most: int | None) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    errors: list[BaseException] = []
    done: Counter[str] = Counter()

    with Rota(engine.dsn) as app:

        @app.task(max_concurrency=most, retry=Retry(base="1ms", cap="5ms", jitter="1ms", max_attempts=6))
        async def work(ctx: Context, n: int) -> Snooze | None:
            await asyncio.sleep(n / 1000)
            if n % 5 == 1:
                raise ValueError(n)
            return Snooze("1ms") if n % 5 == 2 and ctx.attempt < 3 else None

        engine.tasks.update(app.tasks)
        known: list[UUID] = []

        async def enqueue(conn: AsyncConn) -> None:
            parents = dice.sample(known[-40:], min(len(known), dice.choice((0, 1, 3))))
            policy = dice.choice(("cancel", "fail", "ignore"))
            bound = work.using(parents=parents, on_parent_failure=policy, key=f"k{dice.randrange(10_000)}")
            known.append((await bound.aenqueue(dice.randrange(20))).id)

        async def cancel(conn: AsyncConn) -> None:
            await service.cancel_job(conn, dice.choice(known[-40:]))

        async def cancel_many(conn: AsyncConn) -> None:
            await service.cancel_jobs(conn, JobFilter(states=("waiting", "queued")), limit=20)

        async def retry(conn: AsyncConn) -> None:
            await service.retry_job(conn, dice.choice(known[-40:]))

        async def retry_many(conn: AsyncConn) -> None:
            await service.retry_jobs(conn, JobFilter(states=("failed", "canceled")), limit=20)

        async def expire(conn: AsyncConn) -> None:
            taken = "UPDATE rota.job SET lease_until = now() - interval '1 s' WHERE id = %s AND state = 'running'"
            with contextlib.suppress(psycopg.errors.LockNotAvailable):  # as a worker's upkeep does: another time, then
                await conn.execute(taken, [dice.choice(known[-40:])])
                await conn.execute("SELECT * FROM rota.rescue_runs('{}')")

        async def user(action: Callable[[AsyncConn], Awaitable[None]]) -> None:
            rescues = action is expire  # which is a worker's doing, on a connection like a worker's
            connect = connect_async(engine.dsn, "test") if rescues else AsyncConnection.connect(engine.dsn, autocommit=True)
            async with await connect as conn:
                # On a busy machine, until everybody has had a turn.
                while (now := time.monotonic()) < deadline or (done[action.__name__] <= ENOUGH and now < deadline + 60):
                    try:
                        await action(conn)
                        done[action.__name__] += 1
                    except EXPECTED:
                        done["refused"] += 1
                    except Exception as error:
                        errors.append(error)
                    await asyncio.sleep(dice.uniform(0, 0.01))

        options = {"concurrency": 10, "lease_s": 5.0, "heartbeat_s": 0.5, "poll_interval_s": 0.2}
        async with engine.worker(**options), engine.worker(**options):
            for _ in range(5):
                await enqueue(engine.conn)  # type: ignore[arg-type]
            deadline = time.monotonic() + STORM_S
            crowd = [enqueue] * 4 + [cancel, cancel, cancel_many, retry, retry, retry_many, expire, expire]
            await asyncio.gather(*map(user, crowd))
            await engine.drained()
        await app.aclose()

    print(*errors, sep="\n\n")  # pytest would leave out the middle, which says who waited for whom
    assert [str(error) for error in errors] == []
    assert [event.error for event in engine.seen(DatabaseLost)] == []
    assert min(done[action.__name__] for action in crowd) > ENOUGH, done
    ends = "SELECT count(*) FILTER (WHERE final), count(DISTINCT job_id) FROM rota.run WHERE task = %s"
    finals = engine.conn.execute(ends, [work.name]).fetchone()  # Rota has tasks too, by the clock
    assert finals is not None
    assert finals[0] == finals[1] == len(set(known)), "each job has one end"
