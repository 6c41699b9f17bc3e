"""HTTP jobs as workers make them: what counts as success, what is kept of each attempt, and what nobody ever sees."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from socket import gethostname
from typing import Any
from uuid import UUID

import psycopg
import pytest
from aiohttp import web
from tests.support.engine import Engine
from tests.support.outside import Outside, canary
from tests.support.processes import WorkerProcess
from tests.support.wait import until

from rota import Retry, Rota
from rota.control import http_jobs
from rota.control.http_jobs import Attempt
from rota.engine.worker import Worker
from rota.errors import HttpJobsOff, KeyReused, UsageError
from rota.model import secret as secret_module
from rota.outbound import address
from rota.outbound.signature import new_secret, verify

Work = Callable[..., AbstractAsyncContextManager[Worker]]
MakeApp = Callable[..., Rota]

SOON = Retry(max_attempts=3, base="1ms", cap="1ms", jitter="0s")
ONCE = Retry(max_attempts=1)
CANARY = "hunter2canary"
OWNER = "somebody"


async def attempts(app: Rota, id: UUID) -> list[Attempt]:
    async with app._intake.aconnection() as conn:
        return await http_jobs.list_attempts(conn, OWNER, id)


@pytest.mark.req("H01", "H04")
class TestCalls:
    async def test_it_works(self, app: Rota, engine: Engine, server: Outside, work: Work) -> None:
        secret = new_secret()
        server.answers(201, '{"id": 7}', "application/json")
        job = await app.ahttp_job(
            server.url + "?a=b", json={"order": 7}, headers={"X-Mine": "yes"}, secret=secret, owner=OWNER, timeout=5
        )
        async with work(app):
            await engine.ended(job.id)
        [got] = server.got
        assert (got.method, got.path, got.query, got.body) == ("POST", "/hook", "a=b", b'{"order":7}')
        assert (got.headers["x-mine"], got.headers["content-type"]) == ("yes", "application/json")
        assert got.headers["webhook-id"] == str(job.id)
        verify(secret, got.headers, got.body)
        [attempt] = await attempts(app, job.id)
        assert (attempt.attempt, attempt.outcome, attempt.status, attempt.error, attempt.reason) == (
            1,
            "completed",
            201,
            None,
            None,
        )
        assert attempt.response is not None
        assert (attempt.response.head, attempt.response.bytes, attempt.response.cut) == ('{"id": 7}', 9, False)
        assert attempt.response.content_type == "application/json"
        assert attempt.duration_ms is not None
        assert 0 < attempt.duration_ms < 5000
        assert attempt.started_at is not None

    async def test_at_its_time(self, app: Rota, engine: Engine, server: Outside, work: Work) -> None:
        job = await app.ahttp_job(server.url, run_at=datetime.now(UTC) + timedelta(hours=1))
        async with work(app):
            await engine.ended((await app.ahttp_job(server.url)).id)
            assert (len(server.got), engine.state(job.id)) == (1, "queued")
            engine.conn.execute("UPDATE rota.job SET run_at = rota.now()")
            await engine.ended(job.id)
        assert len(server.got) == 2

    @pytest.mark.parametrize(
        ("status", "state"),
        [(200, "completed"), (204, "completed"), (299, "completed")]
        + [(status, "failed") for status in (300, 304, 400, 404, 410, 429, 500, 599)],
    )
    async def test_success_is_2xx(self, app: Rota, engine: Engine, server: Outside, work: Work, status: int, state: str) -> None:
        server.answers(status, "" if status in (204, 304) else "said")
        job = await app.ahttp_job(server.url, retry=ONCE, owner=OWNER)
        async with work(app):
            await engine.ended(job.id, state=state)
        [attempt] = await attempts(app, job.id)
        assert (attempt.status, attempt.outcome) == (status, state)
        assert attempt.reason == (None if state == "completed" else "status")
        if state == "failed":
            assert attempt.error == f"POST {server.url}: it answered {status}"
        assert attempt.response is not None
        assert attempt.response.head == ("" if status in (204, 304) else "said")

    async def test_what_failed_is_tried_again_by_its_own_policy(
        self, app: Rota, engine: Engine, server: Outside, work: Work
    ) -> None:
        statuses = iter([500, 404, 200])

        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=next(statuses))

        server.answer = answer
        job = await app.ahttp_job(server.url, retry=SOON, owner=OWNER)
        async with work(app):
            await engine.ended(job.id)
        assert [(each.attempt, each.outcome, each.status) for each in await attempts(app, job.id)] == [
            (3, "completed", 200), (2, "failed", 404), (1, "failed", 500),
        ]  # fmt: skip
        assert len({got.headers["webhook-id"] for got in server.got}) == 1

    async def test_failures_are_grouped_by_what_became_of_the_call(
        self, app: Rota, engine: Engine, server: Outside, work: Work
    ) -> None:
        """And not by whom was called: all are raised at one place."""

        async def answer(request: web.Request) -> web.Response:
            return web.Response(status=int(request.path[1:4]))

        server.answer = answer
        paths = ("500/a", "500/b", "404", "503")
        jobs = [await app.ahttp_job(f"http://127.0.0.1:{server.port}/{path}", retry=ONCE) for path in paths]
        async with work(app):
            await engine.ended(*(job.id for job in jobs), state="failed")
        groups = [engine.runs(job.id)[0].fingerprint for job in jobs]
        assert groups[0] == groups[1]
        assert len(set(groups)) == 3

    @pytest.mark.parametrize(("value", "wait_s"), [("120", 120), ("999999", 3600), ("0", 0), ("soon", 0)])
    async def test_a_server_says_when_to_come_back(
        self, app: Rota, engine: Engine, server: Outside, work: Work, value: str, wait_s: int
    ) -> None:
        server.answers(503, Retry_After=value)
        job = await app.ahttp_job(server.url, retry=Retry(max_attempts=2, base="5s", jitter="0s"), owner=OWNER)
        async with work(app):
            await until(lambda: len(engine.runs(job.id)) == 1)
            await until(lambda: engine.state(job.id) == "queued")
        row = engine.row(job.id)
        assert max(wait_s, 5) - 1 <= (row.run_at - row.updated_at).total_seconds() <= max(wait_s, 5) + 1
        [attempt] = await attempts(app, job.id)
        assert (attempt.status, attempt.retry_after_s) == (503, None if value == "soon" else float(wait_s))

    @pytest.mark.req("H03")
    async def test_a_timeout_of_its_own(self, app: Rota, engine: Engine, server: Outside, work: Work) -> None:
        async def never(_: web.Request) -> web.Response:
            await asyncio.sleep(30)
            return web.Response()

        server.answer = never
        job = await app.ahttp_job(server.url, retry=ONCE, owner=OWNER, timeout=0.3)
        async with work(app):
            await engine.ended(job.id, state="failed")
        [attempt] = await attempts(app, job.id)
        assert (attempt.reason, attempt.status) == ("timeout", None)
        assert attempt.error == f"POST {server.url}: no answer within 0.3 s"
        assert attempt.duration_ms is not None
        assert 250 < attempt.duration_ms < 3000

    @pytest.mark.req("H03")
    async def test_the_safety_net_is_five_minutes_or_longer_than_its_timeout(
        self, app: Rota, engine: Engine, server: Outside
    ) -> None:
        nets = {}
        for timeout in (None, 60, 290, 295, 3600):
            job = await app.ahttp_job(server.url, timeout=timeout)
            nets[timeout] = engine.row(job.id).timeout
        assert app.tasks["http_call"].timeout_s == 300
        assert nets == {None: None, 60: None, 290: None, 295: timedelta(seconds=305), 3600: timedelta(seconds=3610)}

    @pytest.mark.req("H11")
    async def test_what_may_not_be_called(self, make_app: MakeApp, engine: Engine, work: Work) -> None:
        async with canary() as bird, make_app(http_allow="") as app:
            for url in (f"http://127.0.0.1:{bird.port}/", f"http://localhost:{bird.port}/", f"http://[::1]:{bird.port}/"):
                with pytest.raises(UsageError, match=r"may not be called: .* is loopback") as raised:
                    await app.ahttp_job(url)
                assert raised.value.field == "url"
            job = await app.aenqueue("http_call", {"url": f"http://127.0.0.1:{bird.port}/"}, retry=ONCE, owner=OWNER)
            async with work(app):
                await engine.ended(job.id, state="failed")
            [attempt] = await attempts(app, job.id)
            assert (attempt.reason, bird.connections) == ("refused", 0)

    @pytest.mark.req("H11")
    async def test_a_server_of_rota_is_sealed_whatever_port_it_took(
        self, make_app: MakeApp, engine: Engine, conn: psycopg.Connection[Any], work: Work
    ) -> None:
        """Also one in another process, of which only the database knows."""
        async with canary() as bird, make_app(http_allow="127.0.0.0/8") as app:
            conn.execute(
                "INSERT INTO rota.server (id, machine, url, port, env) VALUES (gen_random_uuid(), %s, 'http://x', %s, 'local')",
                [gethostname(), bird.port],
            )
            async with work(app):
                await until(lambda: bird.port in address._noted_ports)
                job = await app.aenqueue("http_call", {"url": f"http://127.0.0.1:{bird.port}/"}, retry=ONCE, owner=OWNER)
                await engine.ended(job.id, state="failed")
            [attempt] = await attempts(app, job.id)
            assert (attempt.reason, bird.connections) == ("refused", 0)

    async def test_a_call_is_stopped_when_its_job_is_canceled(self, app: Rota, engine: Engine, server: Outside, work: Work) -> None:
        over = asyncio.Event()

        async def wait(_: web.Request) -> web.Response:
            try:
                await asyncio.sleep(30)
            finally:
                over.set()
            return web.Response()

        server.answer = wait
        job = await app.ahttp_job(server.url)
        async with work(app):
            await until(lambda: server.got)
            await app.control.cancel(job.id)
            await engine.ended(job.id, state="canceled")


@pytest.mark.req("H06")
class TestFromCode:
    def test_in_the_transaction_of_the_caller(self, make_app: MakeApp, dsn: str, engine: Engine) -> None:
        app = make_app()
        with psycopg.connect(dsn) as conn:
            app.http_job("https://example.org/", conn=conn)
            assert engine.count() == 0
            conn.rollback()
            assert engine.count() == 0
            app.http_job("https://example.org/", conn=conn)
            conn.commit()
        assert engine.count() == 1
        app.http_job("https://example.org/", delay="1h")
        assert engine.count() == 2
        app.close()

    async def test_a_key_is_of_one_owner(self, app: Rota, engine: Engine) -> None:
        first = await app.ahttp_job("https://example.org/", json={"a": 1}, key="k", owner="ann")
        again = await app.ahttp_job("https://example.org/", json={"a": 1}, key="k", owner="ann")
        other = await app.ahttp_job("https://example.org/", json={"a": 2}, key="k", owner="ben")
        assert (again.id, again.created) == (first.id, False)
        assert (other.id != first.id, other.created) == (True, True)
        with pytest.raises(KeyReused):
            await app.ahttp_job("https://example.org/", json={"a": 2}, key="k", owner="ann")

    async def test_switched_off(self, make_app: MakeApp) -> None:
        async with make_app(http_enabled=False) as app:
            assert "http_call" not in app.tasks
            with pytest.raises(HttpJobsOff, match=r"enabled = true under \[http\]"):
                await app.ahttp_job("https://example.org/")


@pytest.mark.req("H11", "O01")
class TestSecrets:
    @pytest.fixture(params=[None, "k" * 40], ids=["no key", "key"])
    async def app(self, request: pytest.FixtureRequest, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rota]:
        monkeypatch.setattr(secret_module, "_keys", ())
        async with make_app(secrets_key=request.param) as app:
            yield app

    async def test_they_are_seen_by_nobody(
        self, app: Rota, engine: Engine, server: Outside, work: Work, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The other side says again all that it was sent, in answers that succeed and in answers that fail."""
        caplog.set_level(logging.DEBUG)
        secret = "whsec_" + "QUJD" * 8

        async def echo(request: web.Request) -> web.Response:
            headers = {name: value for name, value in request.headers.items() if name.startswith("X-")}
            text = await request.text()
            said = {"args": dict(request.query), "headers": headers, "data": text, "text": f"{secret} {request.query_string}"}
            return web.json_response(said, status=int(request.path[1:]))

        server.answer = echo
        jobs = []
        for status in (200, 500):
            url = f"http://127.0.0.1:{server.port}/{status}?code={CANARY}-query"
            for body in (f"{CANARY}-body", f"{CANARY}-long-body " * 2000):
                headers = {"X-Thing": f"{CANARY}-header", "X-Auth": f"Bearer {CANARY}-bearer"}
                jobs.append(await app.ahttp_job(url, body=body, headers=headers, secret=secret, owner=OWNER, retry=ONCE))
        async with work(app):
            await engine.drained()
        assert len(server.got) == 4
        shown = [json.dumps(await attempts(app, job.id), default=vars_of) for job in jobs]
        async with app._intake.aconnection() as conn:
            shown += [repr(await http_jobs.list_jobs(conn, OWNER))]
        control = [repr(await app.control.get_job(job.id)) for job in jobs]
        tables = [
            str(engine.conn.execute(f"SELECT json_agg(t) FROM rota.{table} t").fetchall())
            for table in ("job", "run", "job_key", "log", "alert", "signal", "task")
        ]
        for text in (*shown, *control, *tables, caplog.text):
            assert CANARY not in text
            assert secret not in text
        assert "[redacted]" in shown[0]
        assert all('"status": ' in text for text in shown[:4])


def vars_of(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else {name: getattr(value, name) for name in value.__slots__}


@pytest.mark.req("H04")
@pytest.mark.parametrize(
    ("sent", "kind", "said", "shown"),
    [
        (
            b"\0\xff plain",
            "text/html; charset=utf-8",
            b"a\0b\x1b[31m\xff\nc",
            ("text/html; charset=utf-8", "a\ufffdb\ufffd[31m\ufffd\nc"),
        ),
        (b"y", "text <b>", b"", ("", "")),
        (CANARY.encode(), f"text/{CANARY}", f"<{CANARY}>".encode(), ("", "<[redacted]>")),
        (b"x", "text/plain", "ä".encode() * 9000, ("text/plain", "ä" * 2048)),
    ],
)
async def test_what_is_shown_of_an_answer(
    app: Rota, engine: Engine, server: Outside, work: Work, sent: bytes, kind: str, said: bytes, shown: tuple[str, str]
) -> None:
    """It may be anything, of any length, and say again what was sent as bytes."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=said, headers={"Content-Type": kind})

    server.answer = answer
    job = await app.ahttp_job(server.url, body=sent, owner=OWNER, retry=ONCE)
    async with work(app):
        await engine.ended(job.id)
    [attempt] = await attempts(app, job.id)
    assert attempt.response is not None
    assert (attempt.response.content_type, attempt.response.head) == shown
    assert attempt.response.cut is (len(said) > 4096)


@pytest.mark.req("Q16")
async def test_no_connection_is_held_during_a_call(app: Rota, engine: Engine, server: Outside, work: Work) -> None:
    """While many calls are under way nobody has a transaction open, and there are no more connections than without them."""
    go = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        if request.path != "/first":
            await go.wait()
        return web.Response()

    def sessions() -> list[Any]:
        query = """SELECT application_name, state, xact_start FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
        return engine.conn.execute(query).fetchall()

    server.answer = wait
    async with work(app):
        await app.aclose()
        await engine.ended((await app.ahttp_job(server.url.replace("hook", "first"))).id)
        await until(lambda: len(sessions()) >= 6)
        await app.aclose()
        before = len(sessions())
        jobs = [await app.ahttp_job(server.url) for _ in range(8)]
        await app.aclose()
        await until(lambda: len(server.got) == 9)
        await until(lambda: all(start is None for _, _, start in sessions()))
        assert len(sessions()) <= before
        go.set()
        await engine.ended(*(job.id for job in jobs))


class TestSeveralWorkers:
    @pytest.mark.req("H02")
    async def test_each_call_is_made_once(self, make_app: MakeApp, engine: Engine, server: Outside, work: Work) -> None:
        async with make_app() as one, make_app() as other:
            jobs = [await one.ahttp_job(server.url) for _ in range(60)]
            async with work(one), work(other):
                await engine.ended(*(job.id for job in jobs))
        assert sorted(got.headers["webhook-id"] for got in server.got) == sorted(str(job.id) for job in jobs)

    @pytest.mark.req("Q15", "H04")
    @pytest.mark.fault(1)
    async def test_the_attempt_of_a_dead_worker_is_seen_and_made_again(
        self, app: Rota, dsn: str, engine: Engine, server: Outside, work: Work, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dead = False

        async def wait(_: web.Request) -> web.Response:
            if not dead:
                await asyncio.sleep(60)
            return web.Response(status=200, text="at last")

        server.answer = wait
        env = {"ROTA_HTTP_ENABLED": "true", "ROTA_HTTP_ALLOW": "127.0.0.1", "ROTA_SECRETS_KEY": "k" * 32}
        for name, value in env.items():
            monkeypatch.setenv(name, value)  # for the process in which the job is tried alone
        monkeypatch.setattr(secret_module, "_keys", ())
        secret_module.use_keys("k" * 32)
        job = await app.ahttp_job(server.url, body="hello", owner=OWNER, retry=SOON)
        with WorkerProcess("tests.support.http_app:app", dsn, env=env, queues={"http": 1}, heartbeat_s=1.0) as process:
            await until(lambda: server.got)
            [open_one] = await attempts(app, job.id)
            assert (open_one.attempt, open_one.outcome, open_one.finished_at, open_one.status) == (1, "running", None, None)
            process.kill()
            process.wait()
            [open_one] = await attempts(app, job.id)
            assert (open_one.outcome, open_one.finished_at) == ("running", None)
        dead = True
        async with work(app, heartbeat_s=1.0, dead_after_s=0.5):
            await engine.ended(job.id)
        last, lost = await attempts(app, job.id)
        assert (lost.attempt, lost.outcome, lost.status) == (1, "lost", None)
        assert (last.outcome, last.status) == ("completed", 200)
        assert [got.body for got in server.got] == [b"hello", b"hello"]
