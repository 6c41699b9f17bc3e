"""The live stream: what changes reaches everybody who may see it, from one look for all, whoever is slow."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import psycopg
import pytest
from tests.server.conftest import Serve
from tests.support import jobs as given
from tests.support import people
from tests.support.serving import Serving
from tests.support.sse import Listening, listen
from tests.support.wait import PATIENCE_S, until

from rota.control.access import Actor
from rota.server import events, hub

pytestmark = pytest.mark.req("A01")

SESSIONS = "pg_stat_activity WHERE datname = current_database()"
END_STREAM = f"SELECT pg_terminate_backend(pid) FROM {SESSIONS} AND application_name = 'rota stream'"
WAITING = f"SELECT FROM {SESSIONS} AND wait_event_type = 'Lock'"
LISTENING = f"SELECT FROM {SESSIONS} AND query LIKE 'LISTEN%%'"

Conn = psycopg.Connection[Any]
Headers = dict[str, str]
ADA, RITA, UNA = "ada@example.org", "rita@example.org", "una@example.org"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than a server does."""
    monkeypatch.setattr(hub, "BUSY_S", 0.05)
    monkeypatch.setattr(hub, "IDLE_S", 0.1)
    monkeypatch.setattr(hub, "REST", 0.1)


@pytest.fixture
async def ada(server: Serving) -> Headers:
    await people.make(server, ADA, "admin")
    return await people.cookie(server, ADA)


def pause(conn: Conn, name: str, paused: bool = True) -> None:
    conn.execute(
        "INSERT INTO rota.queue (name, paused_at) VALUES (%(name)s, CASE WHEN %(paused)s THEN rota.now() END) "
        "ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at",
        {"name": name, "paused": paused},
    )


def paused(name: str, is_paused: bool = True) -> Any:
    return lambda data: any(each["name"] == name and each["paused"] is is_paused for each in data["changed"])


async def looked(server: Serving) -> None:
    """Wait until there is something to compare the next look with."""
    await until(lambda: server.state.hub.looks > 0, what="for the first look")


def sessions(conn: Conn) -> int:
    row = conn.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rota stream' AND datname = current_database()"
    ).fetchone()
    return int(row[0]) if row else 0


async def test_what_changes_reaches_two_clients_by_one_connection(server: Serving, ada: Headers, conn: Conn) -> None:
    async with listen(server, ada) as one, listen(server, ada) as other:
        for each in (one, other):
            hello = await each.next()
            assert hello is not None
            assert hello.kind == "hello"
            assert hello.data["kinds"] == sorted(["queues", "jobs", "runs", "workers", "alerts", "schedules", "tasks"])
        await looked(server)
        assert sessions(conn) == 1
        pause(conn, "mail")
        for each in (one, other):
            heard = await each.until("queues", paused("mail"))
            assert heard.data["gone"] == []
        given.declare(conn, "work")
        job = given.enqueue(conn)
        for each in (one, other):
            await each.until("jobs", lambda data: [row["state"] for row in data["changed"] if row["id"] == str(job)] == ["queued"])
        conn.execute("DELETE FROM rota.queue WHERE name = 'mail'")
        assert (await one.until("queues", lambda data: data["gone"])).data["gone"] == ["mail"]
        assert sessions(conn) == 1


async def test_every_kind_is_told(server: Serving, ada: Headers, conn: Conn) -> None:
    async with listen(server, ada) as stream:
        await looked(server)
        given.declare(conn, "work")
        worker = given.start_worker(conn)
        await stream.until("workers", lambda data: data["changed"][0]["id"] == str(worker))
        given.enqueue(conn)
        job = given.fail(conn, worker)
        await stream.until("jobs", lambda data: any(row["id"] == str(job) and row["state"] == "failed" for row in data["changed"]))
        conn.execute("INSERT INTO rota.task_stat (task, at, completed, failed) VALUES ('send', rota.now(), 7, 1)")
        runs = await stream.until("runs")
        assert runs.data["changed"][0] | {"task": "send", "completed": 7, "failed": 1} == runs.data["changed"][0]
        conn.execute(
            "INSERT INTO rota.alert (kind, subject, severity, summary, first_seen_at, last_seen_at) "
            "VALUES ('queue.stuck', 'mail', 'error', 'it is stuck', rota.now(), rota.now())"
        )
        alert = await stream.until("alerts")
        assert alert.data["changed"][0]["kind"] == "queue.stuck"
        conn.execute("UPDATE rota.alert SET state = 'resolved', resolved_at = rota.now()")
        await stream.until("alerts", lambda data: data["gone"] == [alert.data["changed"][0]["id"]])
        conn.execute("INSERT INTO rota.schedule (name, task, strategy, every) VALUES ('nightly', 'send', 'interval', '1 day')")
        await stream.until("schedules", lambda data: data["changed"][0]["name"] == "nightly")
        conn.execute(
            "INSERT INTO rota.task (name, queue, priority, max_attempts, payload_schema) VALUES ('tidy', 'mail', 0, 1, '{}')"
        )
        await stream.until("tasks", lambda data: data["changed"][0]["name"] == "tidy")
        conn.execute("UPDATE rota.task SET enabled = false, disabled_at = rota.now() WHERE name = 'tidy'")
        await stream.until("tasks", lambda data: data["changed"][0]["enabled"] is False)


class TestRights:
    async def test_it_is_for_who_may_see_jobs(self, server: Serving) -> None:
        async with server.client.get("/api/admin/stream") as answer:
            assert answer.status == 401
        await people.make(server, UNA, "user")
        async with server.client.get("/api/admin/stream", headers=await people.jwt(server, UNA)) as answer:
            assert answer.status == 403
        assert len(server.state.hub) == 0

    async def test_nobody_is_told_of_what_they_may_not_see(self, server: Serving, ada: Headers, conn: Conn) -> None:
        await people.make(server, RITA, "read_only")
        async with listen(server, await people.cookie(server, RITA)) as rita, listen(server, ada) as admin:
            hello = await rita.next()
            assert hello is not None
            assert hello.data["kinds"] == ["alerts", "jobs", "queues", "schedules", "workers"]
            await looked(server)
            conn.execute(
                "INSERT INTO rota.task (name, queue, priority, max_attempts, payload_schema) VALUES ('x', 'mail', 0, 1, '{}')"
            )
            await admin.until("tasks")
            pause(conn, "mail")
            heard = await rita.next()
            assert heard is not None
            assert heard.kind == "queues"

    async def test_it_ends_when_the_session_does(
        self, server: Serving, ada: Headers, conn: Conn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events, "CHECK_S", 0.1)
        async with listen(server, ada) as stream:
            await stream.next()
            conn.execute("UPDATE rota.session SET ended_at = rota.now()")
            await stream.until("end")
            assert await stream.next() is None
        await until(lambda: len(server.state.hub) == 0)

    async def test_it_follows_the_role(self, server: Serving, ada: Headers, conn: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "CHECK_S", 0.1)
        async with listen(server, ada) as stream:
            await looked(server)
            conn.execute("UPDATE rota.account SET role = 'user' WHERE email = %s", [ADA])
            await stream.until("end")


class TestSlowness:
    async def test_a_client_that_does_not_read_costs_nobody_anything(self, server: Serving, ada: Headers) -> None:
        with open_unread(server, ada) as slow:
            async with listen(server, ada) as quick_one:
                await quick_one.next()
                await until(lambda: len(server.state.hub) == 2)
                # Sixty megabytes, of which the slow one takes what fits into its buffers.
                for number in range(6000):
                    server.state.hub._tell("queues", {"number": number, "filling": "x" * 10_000})
                    if number % 50 == 0:
                        server.state.hub._wake()
                        await quick_one.until("queues", lambda data, number=number: data.get("number") == number)
                assert len(server.state.hub._messages) == hub.KEPT
            # When it reads at last, it learns that it has missed something.
            assert b"event: reset" in await asyncio.to_thread(read_until, slow, b"event: reset")

    async def test_one_that_never_reads_is_let_go(self, server: Serving, ada: Headers, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "SEND_WITHIN_S", 0.2)
        with open_unread(server, ada):
            await until(lambda: len(server.state.hub) == 1)

            def fill() -> bool:
                for _ in range(100):
                    server.state.hub._tell("queues", {"filling": "x" * 10_000})
                server.state.hub._wake()
                return len(server.state.hub) == 0

            await until(fill, what="for the client to be let go")

    async def test_only_so_many(self, serve: Serve) -> None:
        async with serve(server_stream_clients=1) as server:
            await people.make(server, ADA, "admin")
            ada = await people.cookie(server, ADA)
            async with listen(server, ada), server.client.get("/api/admin/stream", headers=ada) as answer:
                assert answer.status == 503
                assert (await answer.json(content_type=None))["code"] == "too_many_streams"
            await until(lambda: len(server.state.hub) == 0)
            async with listen(server, ada) as stream:
                assert await stream.next() is not None

    @pytest.mark.req("T09")
    async def test_one_account_cannot_take_all_streams(self, serve: Serve) -> None:
        async with serve(server_stream_clients=3, server_stream_clients_per_account=1) as server:
            await people.make(server, ADA, "admin")
            await people.make(server, "bob@example.org", "read_only")
            ada, bob = await people.cookie(server, ADA), await people.cookie(server, "bob@example.org")
            another = await people.cookie(server, ADA)
            async with listen(server, ada), server.client.get("/api/admin/stream", headers=another) as answer:
                assert answer.status == 503
                assert "stream_clients_per_account" in (await answer.json(content_type=None))["detail"]
                async with listen(server, bob) as stream:
                    assert await stream.next() is not None


def open_unread(server: Serving, headers: Headers) -> socket.socket:
    """Ask for a stream, and do not read what comes."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    client.sendall(f"GET /api/admin/stream HTTP/1.1\r\nHost: a\r\nCookie: {headers['Cookie']}\r\n\r\n".encode())
    return client


def read_until(client: socket.socket, wanted: bytes) -> bytes:
    client.settimeout(PATIENCE_S)
    read = b""
    while wanted not in read:
        chunk = client.recv(1 << 20)
        assert chunk, "the stream ended"
        read = read[-100:] + chunk
    return read


class TestResume:
    async def test_who_comes_back_gets_what_came_meanwhile(self, server: Serving, ada: Headers, conn: Conn) -> None:
        async with listen(server, ada) as before:
            await before.next()
            await looked(server)
            pause(conn, "mail")
            await before.until("queues", paused("mail"))
        async with listen(server, ada) as other:  # so that somebody sees it
            await other.next()
            pause(conn, "post")
            await other.until("queues", paused("post"))
            async with listen(server, ada, before.last_id) as again:
                heard = await again.next()
                assert heard is not None
                assert paused("post")(heard.data)

    async def test_who_names_what_nobody_knows_is_told_to_fetch_everything(self, server: Serving, ada: Headers) -> None:
        ahead = server.state.hub.last_id.rpartition("-")[0] + "-99"
        for last_id in ("", "nonsense", "-", "x-7", "000000000000-7", "٣-٣".encode().decode("latin-1"), "a" * 100, ahead):
            async with listen(server, ada, last_id) as stream:
                heard = await stream.next()
                assert heard is not None
                assert heard.kind == "reset", last_id
                assert heard.id == server.state.hub.last_id


class TestConnection:
    async def test_a_lost_one_is_replaced_and_what_changed_meanwhile_is_told(
        self, server: Serving, ada: Headers, conn: Conn
    ) -> None:
        async with listen(server, ada) as stream:
            await looked(server)
            with conn.transaction():
                conn.execute(END_STREAM)
                pause(conn, "mail")
            await stream.until("database", lambda data: data["away"])
            await stream.until("database", lambda data: not data["away"])
            await stream.until("queues", paused("mail"))

    async def test_a_look_that_breaks_off_forgets_nothing(
        self, server: Serving, ada: Headers, conn: Conn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, breaks = hub.look, [True]

        async def fragile(line: Any, before: Any) -> Any:
            if before is not None and breaks:
                breaks.clear()
                pause(conn, "mail")
                raise psycopg.OperationalError("the connection is lost")
            return await whole(line, before)

        monkeypatch.setattr(hub, "look", fragile)
        async with listen(server, ada) as stream:
            await stream.until("queues", paused("mail"))

    async def test_a_hint_makes_an_idle_one_look(
        self, server: Serving, ada: Headers, conn: Conn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hub, "IDLE_S", 3600)
        async with listen(server, ada) as stream:
            await settled(server)
            before = server.state.hub.looks
            conn.execute("SELECT pg_notify('rota_wake', '')")
            await until(lambda: server.state.hub.looks > before, what="for a look after an enqueue")
            await settled(server)
            pause(conn, "mail", paused=False)
            await server.state.control.acting_as(Actor("ole", "operator")).pause_queue("mail")
            await stream.until("queues", paused("mail"))

    async def test_without_notifications(self, serve: Serve, conn: Conn) -> None:
        """Behind a transaction pooler, where nobody can listen."""
        async with serve(database_pooled=True) as server:
            await people.make(server, ADA, "admin")
            async with listen(server, await people.cookie(server, ADA)) as stream:
                await looked(server)
                assert conn.execute(LISTENING).fetchall() == []
                pause(conn, "mail")
                await stream.until("queues", paused("mail"))

    async def test_nobody_looks_when_nobody_listens(
        self, server: Serving, ada: Headers, conn: Conn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hub, "LINGER_S", 0.1)
        assert (server.state.hub.looks, sessions(conn)) == (0, 0)
        async with listen(server, ada):
            await looked(server)
        await until(lambda: sessions(conn) == 0)
        async with listen(server, ada) as stream:  # and it begins again
            before = server.state.hub.looks
            await until(lambda: server.state.hub.looks > before)
            pause(conn, "mail")
            await stream.until("queues", paused("mail"))

    @pytest.mark.req("D01")
    async def test_heartbeats_do_not_wait_for_the_database(
        self, server: Serving, ada: Headers, conn: Conn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)
        monkeypatch.setattr(events, "CHECK_S", 0.05)
        async with listen(server, ada) as stream:
            await stream.next()
            with conn.transaction():
                conn.execute("LOCK TABLE rota.session")  # which the look at the client's rights needs
                await until(lambda: conn.execute(WAITING).fetchall(), what="for the look to wait")
                reading, before = asyncio.create_task(drain(stream)), stream.heartbeats
                await until(lambda: stream.heartbeats > before + 2)
            reading.cancel()

    async def test_it_ends_when_the_server_does(self, server: Serving, ada: Headers) -> None:
        async with listen(server, ada) as stream:
            await stream.next()
            server.state.stop()
            assert "stopping" in (await stream.until("end")).data["why"]
            assert await stream.next() is None


async def drain(stream: Listening) -> None:
    with contextlib.suppress(TimeoutError):
        while await stream.next() is not None:
            pass


async def settled(server: Serving) -> None:
    """Wait until the hub waits for a hint."""
    looks = -1
    while looks != server.state.hub.looks:
        looks = server.state.hub.looks
        await asyncio.sleep(0.3)
