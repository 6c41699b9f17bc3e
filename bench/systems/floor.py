"""The floor of cost: the fastest loop with history that plain psycopg and SQL give, with no product around it.

Jobs have the shape Rota promises (UUIDv7 id, priority, due time, attempt; a history row unique by job and attempt),
but there are no retries, no leases, no limits, no context and no task object: what is left is what PostgreSQL and the
driver cost. Claims run a batch ahead on one connection, completions on another.
"""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any
from uuid import UUID

import orjson
import psycopg
import uvloop
from psycopg.types.json import Jsonb, set_json_loads

from bench.agent import PAYLOAD, Agent, Enqueue, Handled, serve

set_json_loads(orjson.loads)

SCHEMA = """
CREATE TABLE job (
    id         uuid PRIMARY KEY DEFAULT {uuidv7}(),
    task       text NOT NULL,
    queue      text NOT NULL DEFAULT 'default',
    priority   smallint NOT NULL DEFAULT 0,
    payload    jsonb NOT NULL,
    state      smallint NOT NULL DEFAULT 1, -- 0 not yet due, 1 ready, 2 running
    attempt    smallint NOT NULL DEFAULT 0,
    run_at     timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    worker     bigint
);
CREATE INDEX job_ready ON job (priority, run_at, id) WHERE state = 1;
CREATE INDEX job_later ON job (run_at) WHERE state = 0;
CREATE TABLE run (
    job_id      uuid,
    attempt     smallint,
    task        text NOT NULL,
    queue       text NOT NULL,
    payload     jsonb NOT NULL,
    worker      bigint NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, attempt)
);
"""

# PostgreSQL has uuidv7() of its own since 18.
UUIDV7_BEFORE_18 = """
CREATE FUNCTION uuidv7_sql() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(
        overlay(
            overlay(uuid_send(gen_random_uuid())
                PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                FROM 1 FOR 6)
            PLACING '\\x70'::bytea FROM 7 FOR 1),
        'hex')::uuid
$$;
"""

INSERT = "INSERT INTO job (task, payload) VALUES ('noop', %s)"
INSERT_AND_NOTIFY = f"WITH added AS ({INSERT} RETURNING id) SELECT pg_notify('job', '') FROM added"

CLAIM = """
UPDATE job SET state = 2, attempt = attempt + 1, started_at = now(), worker = %s
WHERE id = ANY(ARRAY(
    SELECT id FROM job WHERE state = 1 ORDER BY priority, run_at, id LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING id, task, payload
"""

FINISH = """
WITH finished AS (
    DELETE FROM job WHERE id = ANY(%s) AND worker = %s
    RETURNING id, attempt, task, queue, payload, worker, started_at)
INSERT INTO run SELECT *, now() FROM finished
"""

PROMOTE = "UPDATE job SET state = 1 WHERE state = 0 AND run_at <= now()"

Job = tuple[UUID, str, dict[str, Any]]


async def noop(payload: dict[str, Any]) -> None:
    """Do nothing, as a handler."""


class Floor(Agent):
    """A claim loop in plain SQL."""

    async def setup(self) -> None:
        async with await self.connect() as conn:
            native = conn.info.server_version >= 180000
            if not native:
                await conn.execute(UUIDV7_BEFORE_18, prepare=False)
            await conn.execute(SCHEMA.format(uuidv7="uuidv7" if native else "uuidv7_sql").encode(), prepare=False)

    async def producers(self, count: int) -> list[Enqueue]:
        insert = INSERT_AND_NOTIFY if self.options.get("notify", True) else INSERT

        def on(conn: psycopg.AsyncConnection[Any]) -> Enqueue:
            return lambda: conn.execute(insert, [Jsonb(PAYLOAD, orjson.dumps)])

        return [on(await self.connect()) for _ in range(count)]

    async def enqueue_many(self, jobs: int, due_in: float) -> float:
        payloads = [PAYLOAD] * jobs
        async with await self.connect() as conn:
            started = time.perf_counter()
            async with conn.transaction(), conn.cursor() as cursor:
                row = await (await cursor.execute("SELECT now() + make_interval(secs => %s)", [due_in])).fetchone()
                assert row is not None
                state = 0 if due_in else 1
                copy_in = "COPY job (task, payload, state, run_at) FROM STDIN (FORMAT binary)"
                async with cursor.copy(copy_in) as copy:
                    copy.set_types(["text", "jsonb", "int2", "timestamptz"])
                    for payload in payloads:
                        await copy.write_row(("noop", Jsonb(payload, orjson.dumps), state, row[0]))
                await cursor.execute("SELECT pg_notify('job', '')")
            return time.perf_counter() - started

    async def work(self, handled: Handled) -> None:
        claiming, finishing, listening = [await self.connect() for _ in range(3)]
        worker = claiming.info.backend_pid
        await listening.execute("LISTEN job")
        claims = claiming.cursor(binary=True)
        finishes = finishing.cursor()

        async def claim() -> list[Job]:
            await claims.execute(CLAIM, [worker, self.options.get("batch", 500)])
            return await claims.fetchall()

        async def settled() -> None:
            return None

        promoted_at = 0.0
        finished: Awaitable[object] = asyncio.ensure_future(settled())
        claimed = asyncio.create_task(claim())
        while True:
            jobs = await claimed
            if jobs:
                claimed = asyncio.create_task(claim())
                for _, _, payload in jobs:
                    handled()
                    await noop(payload)
                await finished
                finished = asyncio.create_task(finishes.execute(FINISH, [[job[0] for job in jobs], worker]))
            else:
                await finished
                if time.monotonic() > promoted_at + 1:
                    await finishes.execute(PROMOTE)
                    promoted_at = time.monotonic()
                async for _ in listening.notifies(timeout=1, stop_after=1):
                    pass
                claimed = asyncio.create_task(claim())

    async def claim_nothing(self, claims: int) -> float:
        async with await self.connect() as conn:
            for _ in range(5):
                await conn.execute(CLAIM, [0, 500])
            started = time.perf_counter()
            for _ in range(claims):
                await conn.execute(CLAIM, [0, 500])
            return time.perf_counter() - started

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        """Open a connection that commits each statement and prepares it at once."""
        return await psycopg.AsyncConnection.connect(self.dsn, autocommit=True, prepare_threshold=0)


if __name__ == "__main__":
    serve(Floor, uvloop.run)
