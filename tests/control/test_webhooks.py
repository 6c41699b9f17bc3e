"""Webhooks: who is told of an alert, how the message is signed, and what becomes of it when the other side misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.support.engine import Engine
from tests.support.wait import PATIENCE_S, until

from rota import Rota
from rota.config import load_settings
from rota.control import alerts, sending, webhooks
from rota.control.system import DELIVER_WEBHOOK, control_tasks
from rota.errors import DeliveryFailed, NotFound, UsageError
from rota.model import secret as secret_module
from rota.outbound.signature import verify
from rota.store import alerts as alert_store

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

pytestmark = pytest.mark.req("O03")


@pytest.fixture(autouse=True)
def _this_machine_may_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_HTTP_ALLOW", "127.0.0.1")


@pytest.fixture(autouse=True)
def _local_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_APP_ENV", "local")
    monkeypatch.setattr(secret_module, "_required", None)


class Receiver:
    """A server on this machine that takes down what it is sent, and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda request: _answer(request, 204)
        self.over = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, dict(self.headers), body))
                receiver.answer(self)

            def do_GET(self) -> None:
                receiver.got.append((self.path, dict(self.headers), b""))
                _answer(self, 200)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=inthepath"

    def __enter__(self) -> Receiver:
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def _answer(request: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    with contextlib.suppress(OSError):  # who does not want to hear it all hangs up
        request.wfile.write(body)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


async def trouble(aconn: AConn, kind: str = "job_failed", subject: str = "work", **details: Any) -> None:
    await alert_store.signal(aconn, kind, subject, details)
    await alerts.count_signals(aconn)


def messages(conn: Conn) -> list[UUID]:
    return [id for (id,) in conn.execute("SELECT id FROM rota.webhook_delivery ORDER BY id").fetchall()]


def told(conn: Conn) -> list[Any]:
    return conn.execute("SELECT state, attempt, status, error FROM rota.webhook_delivery ORDER BY id").fetchall()


async def bring(dsn: str, delivery: UUID, *, is_last: bool = False) -> str:
    async def connect() -> AConn:
        return await psycopg.AsyncConnection.connect(dsn, autocommit=True)

    return await webhooks.deliver(connect, delivery, load_settings(), is_last=is_last)


class TestWhoIsTold:
    async def test_in_the_transaction_that_opens_the_alert(self, conn: Conn, aconn: AConn, receiver: Receiver) -> None:
        await webhooks.add(aconn, load_settings(), receiver.url)
        await alert_store.signal(aconn, "job_failed", "work", {})
        async with aconn.transaction(force_rollback=True):
            await alerts.count_signals(aconn)
        assert messages(conn) == []
        await alerts.count_signals(aconn)
        assert len(messages(conn)) == 1
        jobs = conn.execute("SELECT task, payload, max_attempts FROM rota.job").fetchall()
        assert jobs == [(DELIVER_WEBHOOK, {"delivery": str(messages(conn)[0])}, 8)]

    async def test_once_per_opening(self, conn: Conn, aconn: AConn, receiver: Receiver) -> None:
        await webhooks.add(aconn, load_settings(), receiver.url)
        for _ in range(3):
            await trouble(aconn)
        assert len(messages(conn)) == 1
        conn.execute("UPDATE rota.alert SET state = 'resolved', resolved_at = rota.now()")
        await trouble(aconn)
        assert len(messages(conn)) == 2

    async def test_by_kind_and_only_those_that_are_on(self, conn: Conn, aconn: AConn, receiver: Receiver) -> None:
        await webhooks.add(aconn, load_settings(), receiver.url, kinds=["worker_died"])
        everything = await webhooks.add(aconn, load_settings(), receiver.url)
        await trouble(aconn)
        assert conn.execute("SELECT webhook_id FROM rota.webhook_delivery").fetchall() == [(everything.id,)]
        await webhooks.set_enabled(aconn, everything.id, enabled=False)
        await trouble(aconn, "worker_died", "host-1")
        assert len(messages(conn)) == 2

    async def test_that_a_webhook_does_not_work_is_told_by_none(self, conn: Conn, aconn: AConn, receiver: Receiver) -> None:
        await webhooks.add(aconn, load_settings(), receiver.url)
        await trouble(aconn, subject=DELIVER_WEBHOOK)
        assert messages(conn) == []
        assert len(await alerts.list_alerts(aconn)) == 1


class TestDelivery:
    async def test_the_message_and_its_signature(self, conn: Conn, aconn: AConn, dsn: str, receiver: Receiver) -> None:
        added = await webhooks.add(aconn, load_settings(), receiver.url)
        await trouble(aconn, type="ValueError", message="password=hunter2canary", job_id="j", attempt=4)
        [delivery] = messages(conn)
        assert await bring(dsn, delivery) == "answered 204"

        [(path, headers, body)] = receiver.got
        assert path == "/hook?token=inthepath"
        verify(added.secret, headers, body)
        assert headers["webhook-id"] == str(delivery)
        assert headers["Content-Type"] == "application/json"
        message = json.loads(body)
        assert (message["version"], message["event"]) == (1, "alert.opened")
        assert (message["alert"]["kind"], message["alert"]["subject"]) == ("job_failed", "work")
        assert b"hunter2canary" not in body
        assert told(conn) == [("delivered", 1, 204, None)]
        assert await bring(dsn, delivery) == "nothing to deliver"
        assert len(receiver.got) == 1

    async def test_a_failure_is_recorded_and_raised(self, conn: Conn, aconn: AConn, dsn: str, receiver: Receiver) -> None:
        added = await webhooks.add(aconn, load_settings(), receiver.url)
        await trouble(aconn)
        [delivery] = messages(conn)
        receiver.answer = lambda request: _answer(request, 500)
        with pytest.raises(DeliveryFailed, match="it answered 500") as raised:
            await bring(dsn, delivery)
        assert "inthepath" not in str(raised.value)
        assert added.secret not in str(raised.value)
        assert told(conn) == [("pending", 1, 500, "it answered 500")]
        with pytest.raises(DeliveryFailed):
            await bring(dsn, delivery, is_last=True)
        assert told(conn) == [("failed", 2, 500, "it answered 500")]

    async def test_redirects_are_not_followed(self, conn: Conn, aconn: AConn, dsn: str, receiver: Receiver) -> None:
        await webhooks.add(aconn, load_settings(), receiver.url)
        await trouble(aconn)
        receiver.answer = lambda request: _answer(request, 302, Location="/elsewhere")
        with pytest.raises(DeliveryFailed, match="a redirect, which is not followed"):
            await bring(dsn, messages(conn)[0])
        assert [path for path, _, _ in receiver.got] == ["/hook?token=inthepath"]

    async def test_of_a_long_answer_only_the_beginning_is_read(self, receiver: Receiver) -> None:
        receiver.answer = lambda request: _answer(request, 200, b"x" * 10_000_000)
        answer = await sending.post(receiver.url, b"{}", {}, load_settings())
        assert answer.accepted
        assert answer.took_s < 5

    async def test_a_server_that_hangs_or_dribbles_has_an_end(self, receiver: Receiver) -> None:
        def dribble(request: BaseHTTPRequestHandler) -> None:
            request.wfile.write(b"HTTP/1.1 200 ")
            while not receiver.over.wait(0.05):
                try:
                    request.wfile.write(b"X")
                except OSError:
                    return

        for answer_with in (lambda request: receiver.over.wait(PATIENCE_S), dribble):
            receiver.answer = answer_with
            answer = await sending.post(receiver.url, b"{}", {}, load_settings(), timeout_s=0.5)
            assert (answer.status, answer.error) == (None, "no answer within 0.5 s")

    async def test_nobody_listens(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            answer = await sending.post(f"http://127.0.0.1:{taken.getsockname()[1]}/", b"{}", {}, load_settings())
        assert answer.status is None
        assert answer.error is not None
        assert answer.error.startswith("no connection")

    async def test_certificates_are_checked(self, receiver: Receiver) -> None:
        answer = await sending.post(receiver.url.replace("http:", "https:"), b"{}", {}, load_settings())
        assert answer.status is None
        assert receiver.got == []

    async def test_a_worker_brings_it_and_tries_again(self, conn: Conn, aconn: AConn, dsn: str, receiver: Receiver) -> None:
        engine = Engine(dsn, conn)
        engine.tasks.update(control_tasks())
        answers = iter([500, 204])
        receiver.answer = lambda request: _answer(request, next(answers))
        added = await webhooks.add(aconn, load_settings(), receiver.url)
        await webhooks.test(aconn, added.id)
        async with engine.worker():
            await until(lambda: told(conn)[0][1] == 1)
            await until(lambda: conn.execute("SELECT state FROM rota.job").fetchone() == ("delayed",))
            conn.execute("UPDATE rota.job SET run_at = rota.now()")
            await until(lambda: told(conn) == [("delivered", 2, 204, None)])
            await engine.drained()
        assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 1
        assert json.loads(receiver.got[0][2])["event"] == "test"


@pytest.mark.req("Y05")
async def test_from_a_failure_to_the_other_side(
    conn: Conn, aconn: AConn, dsn: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "LOOK_S", 0.1)
    app = Rota(dsn)

    @app.task(max_attempts=1)
    async def charge(order: int) -> None:
        raise ValueError(f"order {order}: password=hunter2canary is wrong")

    await webhooks.add(aconn, load_settings(), receiver.url)
    async with app:
        worker = app.worker(shutdown_timeout_s=5.0)
        running = asyncio.create_task(worker.run())
        try:
            job = await charge.aenqueue(order=7)
            await until(lambda: receiver.got and told(conn)[0][0] == "delivered")
        finally:
            worker.stop()
            await asyncio.wait_for(running, PATIENCE_S)
    [(_, _, body)] = receiver.got
    assert json.loads(body)["alert"]["details"]["job_id"] == str(job.id)
    assert b"hunter2canary" not in body
    assert conn.execute("SELECT state FROM rota.jobs WHERE id = %s", [job.id]).fetchall() == [("failed",)]


class TestOperators:
    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("ftp://example.org/x", "http and https"),
            ("https://", "no host"),
            ("example.org/hook", "http and https"),
            ("https://user:hunter2canary@example.org/", "user or password"),
            ("https://example.org/a b", "control characters"),
            ("https://example.org/\x00", "control characters"),
            ("https://example.org:99999/", "url is not allowed"),
            ("https://example.org/" + "x" * 2000, "at most 2000"),
            ("https://0x7f.1/", "four decimal numbers"),
            ("http://10.1.2.3/", "10.1.2.3 is private"),
            ("http://[::ffff:169.254.169.254]/", "metadata service"),
            ("http://metadata.google.internal/", "metadata service"),
            ("http://0.0.0.0:8000/", "where Rota's own server listens"),
            (None, "control characters"),
        ],
    )
    async def test_urls_that_are_refused(self, conn: Conn, aconn: AConn, url: Any, why: str) -> None:
        with pytest.raises(UsageError, match=why) as raised:
            await webhooks.add(aconn, load_settings(), url)
        assert "hunter2canary" not in str(raised.value)
        assert conn.execute("SELECT count(*) FROM rota.webhook").fetchone() == (0,)

    async def test_lists_show_neither_secret_nor_path(self, aconn: AConn) -> None:
        added = await webhooks.add(
            aconn, load_settings(), "https://hooks.example.org/services/T1/secretpath", kinds=["job_failed", "job_failed"]
        )
        [webhook] = await webhooks.list_webhooks(aconn)
        assert (webhook.url, webhook.kinds) == ("https://hooks.example.org/…", ["job_failed"])
        assert added.secret not in str(webhook)

    @pytest.mark.parametrize("key", [None, "k" * 32])
    async def test_the_secret_is_not_stored_as_it_is(
        self, conn: Conn, aconn: AConn, dsn: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, key: str | None
    ) -> None:
        monkeypatch.setattr(secret_module, "_keys", ())
        secret_module.use_keys(key)
        added = await webhooks.add(aconn, load_settings(), receiver.url)
        [(shown, stored)] = conn.execute("SELECT url, secret FROM rota.webhook").fetchall()
        assert added.secret.removeprefix("whsec_") not in stored
        assert "inthepath" not in shown + stored
        assert stored.startswith("rota-secret:" if key else "rota-open:")
        await bring(dsn, await webhooks.test(aconn, added.id))
        [(_, headers, body)] = receiver.got
        verify(added.secret, headers, body)

    @pytest.mark.req("H11")
    async def test_a_private_address_must_be_allowed(
        self, conn: Conn, aconn: AConn, dsn: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        added = await webhooks.add(aconn, load_settings(), receiver.url)
        monkeypatch.delenv("ROTA_HTTP_ALLOW")
        with pytest.raises(UsageError, match=r"may not be called: 127.0.0.1 is loopback: .* \[http\] allow"):
            await webhooks.add(aconn, load_settings(), receiver.url)
        with pytest.raises(DeliveryFailed, match=r"is loopback: an operator can allow it under \[http\] allow"):
            await bring(dsn, await webhooks.test(aconn, added.id))
        assert receiver.got == []

    async def test_what_is_not_there(self, aconn: AConn) -> None:
        for change in (webhooks.remove(aconn, 7), webhooks.test(aconn, 7), webhooks.set_enabled(aconn, 7, enabled=True)):
            with pytest.raises(NotFound, match="there is no webhook 7"):
                await change
        with pytest.raises(UsageError, match="no kind 'x'"):
            await webhooks.add(aconn, load_settings(), "https://example.org/", kinds=["x"])

    async def test_removed_or_switched_off_nothing_more_is_sent(
        self, conn: Conn, aconn: AConn, dsn: str, receiver: Receiver
    ) -> None:
        added = await webhooks.add(aconn, load_settings(), receiver.url)
        delivery = await webhooks.test(aconn, added.id)
        await webhooks.set_enabled(aconn, added.id, enabled=False)
        assert await bring(dsn, delivery) == "nothing to deliver"
        await webhooks.remove(aconn, added.id)
        assert messages(conn) == []
        assert await bring(dsn, delivery) == "nothing to deliver"
        assert receiver.got == []

    async def test_old_messages_are_pruned(self, conn: Conn, aconn: AConn, receiver: Receiver) -> None:
        from rota.store import webhooks as store

        added = await webhooks.add(aconn, load_settings(), receiver.url)
        await webhooks.test(aconn, added.id)
        conn.execute("UPDATE rota.webhook_delivery SET created_at = rota.now() - interval '31 days'")
        new = await webhooks.test(aconn, added.id)
        assert await store.prune(aconn, hours=30 * 24, limit=10) == 1
        assert messages(conn) == [new]
        assert [each.id for each in await webhooks.list_deliveries(aconn, webhook=added.id)] == [new]
