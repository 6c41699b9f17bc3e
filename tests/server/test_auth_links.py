"""Sign-in by a mailed link: what is sent, what a link is good for, and for whom it is the same."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from starlette.requests import Request
from tests.support import people
from tests.support.mailbox import Mailbox, link_in, mail_server
from tests.support.serving import Serving
from tests.support.wait import until

from rota.contrib.testing.clock import Clock
from rota.control import accounts
from rota.server.mail import Mail, Outbox
from rota.server.routes.auth import _peer

if TYPE_CHECKING:
    from tests.server.conftest import Serve

pytestmark = pytest.mark.req("H05")

ADA = "ada@example.org"


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    async with mail_server() as box:
        yield box


@pytest.fixture
async def mailing(serve: Serve, mailbox: Mailbox) -> AsyncIterator[Serving]:
    """A server as in production, with a mail server; nobody can sign up."""
    async with serve(
        app_env="production", mail_smtp_host="127.0.0.1", mail_smtp_port=mailbox.port, mail_smtp_tls="none", auth_links_per_hour=3
    ) as server:
        yield server


async def ask(server: Serving, email: str, **body: Any) -> tuple[int, str]:
    async with server.client.post("/auth/magic-link", json={"email": email, **body}) as answer:
        return answer.status, await answer.text()


async def ask_for(server: Serving, mailbox: Mailbox, email: str, **body: Any) -> str:
    """Ask for a link, and wait for the mail that has it."""
    had = len(mailbox.to(email))
    assert (await ask(server, email, **body))[0] == 200
    await until(lambda: len(mailbox.to(email)) > had, what="for the mail")
    return link_in(mailbox.to(email)[-1])


async def settle(*servers: Serving) -> None:
    """Wait until mails that were asked for have been sent."""
    for server in servers:
        async with server.client.get("/healthz"):  # what was left to do behind earlier answers is begun by now
            await server.state.outbox.aclose()


async def verify(server: Serving, token: str) -> int:
    async with server.client.get("/auth/verify", params={"token": token}) as answer:
        return answer.status


async def press(server: Serving, token: str, **form: str) -> tuple[int, str, str]:
    """Press the button: the status, where it leads, and the cookie."""
    async with server.client.post("/auth/sign-in", data={"token": token, **form}, allow_redirects=False) as answer:
        return answer.status, answer.headers.get("location", ""), answer.headers.get("set-cookie", "")


async def test_a_link_signs_a_browser_in_and_a_program(mailing: Serving, mailbox: Mailbox) -> None:
    await people.make(mailing, ADA, "admin")
    link = await ask_for(mailing, mailbox, ADA, next="/jobs?state=failed")
    parts = urlsplit(link)
    assert parts.path == "/auth/sign-in"
    assert parse_qs(parts.query)["next"] == ["/jobs?state=failed"]
    status, location, cookie = await press(mailing, people.token_of(link), next="/jobs?state=failed")
    assert (status, location) == (303, "/jobs?state=failed")
    async with mailing.client.get("/auth/me", headers={"Cookie": cookie.partition(";")[0]}) as answer:
        assert answer.status == 200
        me = await answer.json()
    assert (me["email"], me["role"], me["via"]) == (ADA, "admin", "session")
    assert "users.change" in me["may"]

    token = people.token_of(await ask_for(mailing, mailbox, ADA))
    async with mailing.client.get("/auth/verify", params={"token": token}) as answer:
        assert answer.status == 200
        body = await answer.json()
    assert list(body) == ["token"]
    async with mailing.client.get("/auth/me", headers={"Authorization": f"Bearer {body['token']}"}) as answer:
        assert (await answer.json())["via"] == "jwt"


async def test_only_the_hash_of_a_token_is_stored(mailing: Serving, mailbox: Mailbox, conn: psycopg.Connection[Any]) -> None:
    await people.make(mailing, ADA)
    token = people.token_of(await ask_for(mailing, mailbox, ADA))
    digest = hashlib.sha256(token.encode()).digest()
    assert conn.execute("SELECT token_hash FROM rota.magic_link").fetchall() == [(digest,)]
    for table in ("account", "magic_link", "session", "allowance", "audit", "job"):
        rows = conn.execute(f"SELECT t::text FROM rota.{table} t").fetchall()
        assert not any(token in row for (row,) in rows)


async def test_a_replay_is_401(mailing: Serving) -> None:
    await people.make(mailing, ADA)
    token = await people.link_token(mailing, ADA)
    assert [await verify(mailing, token), await verify(mailing, token)] == [200, 401]
    assert (await press(mailing, token))[0] == 401
    token = await people.link_token(mailing, ADA)
    assert [(await press(mailing, token))[0], (await press(mailing, token))[0]] == [303, 401]
    assert await verify(mailing, token) == 401


async def test_what_never_was_a_token_is_refused(server: Serving) -> None:
    for token in ("", "x", "never-was-one", "a" * 5000, "nul\0", "\ud7ff", "' OR 1=1 --"):
        assert await verify(server, token) in (401, 422)
        assert (await press(server, token))[0] == 401


async def test_a_link_is_good_for_a_quarter_of_an_hour(mailing: Serving, conn: psycopg.Connection[Any]) -> None:
    clock = Clock(conn)
    await people.make(mailing, ADA)
    tokens = [await people.link_token(mailing, ADA) for _ in range(2)]
    clock.move(timedelta(minutes=14, seconds=50))
    assert await verify(mailing, tokens[0]) == 200
    clock.move(timedelta(seconds=20))
    assert await verify(mailing, tokens[1]) == 401


async def test_looking_at_a_link_does_not_use_it_up(mailing: Serving) -> None:
    await people.make(mailing, ADA)
    token = await people.link_token(mailing, ADA)
    for method in ("GET", "HEAD", "GET", "OPTIONS"):
        async with mailing.client.request(method, "/auth/sign-in", params={"token": token}) as answer:
            assert answer.status == (405 if method == "OPTIONS" else 200)
            assert "set-cookie" not in answer.headers
    assert (await press(mailing, token))[0] == 303


async def test_the_page_has_a_button_and_nothing_that_runs(server: Serving) -> None:
    hostile = '"><script>alert(1)</script>'
    async with server.client.get("/auth/sign-in", params={"token": hostile, "next": f"/{hostile}"}) as answer:
        page = await answer.text()
        policy = answer.headers["content-security-policy"]
    assert '<form method="post" action="/auth/sign-in">' in page
    assert "<script" not in page
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"


async def test_of_twenty_at_once_one_signs_in(mailing: Serving, conn: psycopg.Connection[Any]) -> None:
    await people.make(mailing, ADA)
    for use, good in ((verify, 200), (press, 303)):
        token = await people.link_token(mailing, ADA)
        answers = await asyncio.gather(*(use(mailing, token) for _ in range(20)))
        statuses = sorted(each if isinstance(each, int) else each[0] for each in answers)
        assert statuses == [good] + [401] * 19
    assert conn.execute("SELECT count(*) FROM rota.session").fetchone() == (2,)


async def test_every_address_gets_the_same_answer(mailing: Serving, mailbox: Mailbox) -> None:
    await people.make(mailing, ADA)
    await people.make(mailing, "out@example.org")
    await mailing.state.control.disable_user("out@example.org")
    known = await ask(mailing, ADA)
    assert known[0] == 200
    assert await ask(mailing, "nobody@example.org") == known
    assert await ask(mailing, "out@example.org") == known
    for _ in range(5):  # more than it may
        assert await ask(mailing, ADA) == known
    await settle(mailing)
    assert {mail["X-Envelope-To"] for mail in mailbox.mails} == {ADA}


async def test_every_address_is_the_same_work(
    mailing: Serving, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known, unknown and limited: one statement, which writes, before the answer; and nothing else that waits."""
    await people.make(mailing, ADA)
    statements: list[Any] = []
    execute = psycopg.AsyncCursor.execute

    async def counting(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        if query:  # an empty one tries whether a connection works
            statements.append(query)
        return await execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", counting)
    monkeypatch.setattr("rota.server.routes.auth._mail", no_mail)  # what follows the answer is not waited for
    seen = []
    for email in (ADA, "nobody@example.org", *[ADA] * 3):
        statements.clear()
        before = written(conn)
        await ask(mailing, email)
        seen.append((list(statements), written(conn) > before))
    assert [each for each in seen if each != seen[0]] == []
    assert len(seen[0][0]) == 1
    assert seen[0][1]


async def no_mail(*_: object) -> None: ...


def written(conn: psycopg.Connection[Any]) -> int:
    """How many transactions have been given a number, which only those that write are."""
    row = conn.execute("SELECT txid_snapshot_xmax(txid_current_snapshot())").fetchone()
    assert row is not None
    count: int = row[0]
    return count


async def test_the_answer_does_not_wait_for_the_mail(server: Serving) -> None:
    may_go = asyncio.Event()
    sent: list[Mail] = []

    class Slow:
        async def send(self, mail: Mail) -> None:
            await may_go.wait()
            sent.append(mail)

    server.state.outbox = Outbox(Slow())
    assert (await ask(server, ADA))[0] == 200
    assert not sent
    may_go.set()
    await settle(server)
    assert [mail.to for mail in sent] == [ADA]


async def test_so_many_links_an_hour_over_all_servers(serve: Serve, mailbox: Mailbox, conn: psycopg.Connection[Any]) -> None:
    clock = Clock(conn)
    clock.freeze()
    settings = {
        "app_env": "production",
        "mail_smtp_host": "127.0.0.1",
        "mail_smtp_port": mailbox.port,
        "mail_smtp_tls": "none",
        "auth_links_per_hour": 3,
    }
    async with serve(**settings) as first, serve(**settings) as second:
        for name in ("ada", *(f"user{n}" for n in range(40))):
            await people.make(first, f"{name}@example.org")
        answers = await asyncio.gather(*(ask(server, ADA) for server in (first, second) for _ in range(8)))
        assert {status for status, _ in answers} == {200}
        await settle(first, second)
        assert len(mailbox.to(ADA)) == 3
        clock.move(timedelta(minutes=21))  # a third of an hour: one more
        for _ in range(3):
            await ask(second, ADA)
        await settle(second)
        assert len(mailbox.to(ADA)) == 4
        # And ten times as many from one computer, whomever they are for.
        clock.move(timedelta(hours=2))
        mailbox.mails.clear()
        await asyncio.gather(*(ask(server, f"user{n}@example.org") for n in range(20) for server in (first, second)))
        await settle(first, second)
        assert len(mailbox.mails) == 30


def test_one_computer_is_one_network_of_ipv6() -> None:
    for host, peer in (
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ):
        assert _peer(Request({"type": "http", "client": (host, 1)})) == peer
    assert _peer(Request({"type": "http", "client": None})) == "nowhere"


async def test_an_unknown_address_is_limited_the_same_way(mailing: Serving, conn: psycopg.Connection[Any]) -> None:
    for _ in range(5):
        await ask(mailing, "nobody@example.org")
    refused = conn.execute(
        "SELECT refused FROM rota.allowance WHERE key = 'links for nobody@example.org from 127.0.0.1'"
    ).fetchone()
    assert refused == (2,)
    assert conn.execute("SELECT count(*) FROM rota.magic_link").fetchone() == (3,)


@pytest.mark.req("T09")
class TestStrangers:
    """Strangers who ask for links to an address cannot keep its owner from signing in, nor flood the mailbox."""

    HOME, AWAY = "192.0.2.7", "198.51.100.9"

    async def link(self, server: Serving, peer: str, email: str = ADA) -> str | None:
        async with server.state.connection() as conn:
            return await accounts.request_link(conn, server.state.settings, email, peer=peer)

    async def flood(self, server: Serving, peers: int = 20, each: int = 5) -> list[str]:
        """Ask for links from many networks; give those that are mailed."""
        asked = [await self.link(server, f"2001:db8:0:{n:x}::/64") for n in range(peers) for _ in range(each)]
        return [token for token in asked if token is not None]

    async def test_eleven_requests_of_a_stranger_leave_the_owner_theirs(
        self, mailing: Serving, mailbox: Mailbox, conn: psycopg.Connection[Any]
    ) -> None:
        """The stranger uses the API through another network than the owner."""
        Clock(conn).freeze()
        await people.make(mailing, ADA, "admin")
        stranger = [await self.link(mailing, "203.0.113.5") for _ in range(11)]
        assert sum(token is not None for token in stranger) == 3
        await ask_for(mailing, mailbox, ADA)

    async def test_a_network_that_the_account_knows_is_not_limited_by_strangers(
        self, mailing: Serving, conn: psycopg.Connection[Any]
    ) -> None:
        clock = Clock(conn)
        clock.freeze()
        await people.make(mailing, ADA, "admin")
        async with mailing.state.connection() as own:
            token = await accounts.request_link(own, mailing.state.settings, ADA, peer=self.HOME)
            assert token is not None
            await accounts.sign_in(own, mailing.state.settings.auth, token, browser=True, peer=self.HOME)
        clock.move(timedelta(hours=2))
        await self.flood(mailing)
        for n in range(40):  # and a neighbor in the same network, who asks for links to others
            await self.link(mailing, self.HOME, f"user{n}@example.org")
        assert await self.link(mailing, self.HOME, "someone@example.org") is None
        assert await self.link(mailing, self.HOME) is not None
        assert await self.link(mailing, self.AWAY) is None  # unknown there, and the last link mailed is good for a while

    async def test_under_a_flood_there_is_always_a_link_that_works(self, mailing: Serving, conn: psycopg.Connection[Any]) -> None:
        """For four hours, every network asks as often as it likes; the owner, anywhere, has a link in the mailbox."""
        clock = Clock(conn)
        clock.freeze()
        await people.make(mailing, ADA, "admin")
        mailed, waited = [(0, token) for token in await self.flood(mailing)], 0
        assert len(mailed) == 9  # three times as many as for one network
        for minute in range(5, 240, 5):
            clock.move(timedelta(minutes=5))
            mailed += [(minute, token) for token in await self.flood(mailing, peers=6, each=2)]
            if (token := await self.link(mailing, self.AWAY)) is not None:
                mailed.append((minute, token))
            newest, link = mailed[-1]
            assert minute - newest <= 7.5, minute
            waited = max(waited, minute - newest)
            if minute % 60 == 0:
                assert await verify(mailing, link) == 200
        assert waited > 0  # it was limited
        assert len(mailed) <= 9 + 4 * (9 + 8)  # what the limit refills in an hour, and one for each 7.5 minutes

    async def test_an_unknown_address_is_refused_and_stored_alike(self, mailing: Serving, conn: psycopg.Connection[Any]) -> None:
        Clock(conn).freeze()
        await people.make(mailing, ADA)
        for _ in range(5):
            await self.link(mailing, self.HOME)
            assert await self.link(mailing, self.HOME, "nobody@example.org") is None
        stored = conn.execute("SELECT email, count(*) FROM rota.magic_link GROUP BY 1 ORDER BY 1").fetchall()
        assert stored == [(ADA, 3), ("nobody@example.org", 3)]

    async def test_the_last_networks_are_remembered(self, mailing: Serving, conn: psycopg.Connection[Any]) -> None:
        clock = Clock(conn)
        await people.make(mailing, ADA)
        for n in range(accounts.MAX_SOURCES + 5):
            clock.move(timedelta(minutes=1))
            token = await people.link_token(mailing, ADA)
            async with mailing.state.connection() as own:
                await accounts.sign_in(own, mailing.state.settings.auth, token, browser=False, peer=f"192.0.2.{n}")
        known = conn.execute("SELECT source FROM rota.sign_in_source ORDER BY signed_in_at").fetchall()
        assert known == [(f"192.0.2.{n}",) for n in range(5, accounts.MAX_SOURCES + 5)]

    async def test_signing_in_over_http_remembers_the_network(self, mailing: Serving, conn: psycopg.Connection[Any]) -> None:
        await people.make(mailing, ADA)
        assert await verify(mailing, await people.link_token(mailing, ADA)) == 200
        assert (await press(mailing, await people.link_token(mailing, ADA)))[0] == 303
        assert conn.execute("SELECT source FROM rota.sign_in_source").fetchall() == [("127.0.0.1",)]


NO_ADDRESSES: list[Any] = [
    {},
    [],
    {"email": ""},
    {"email": "no address"},
    {"email": "a@b\r\nBcc: c@d"},
    {"email": "a\0@example.org"},
    {"email": "ada@exämple.org"},
    {"email": 5},
    {"email": ["a@b.c"]},
    {"email": f"{'a' * 300}@example.org"},
    {"email": "a@example.org", "admin": True},
]


async def test_what_is_no_address_is_refused(server: Serving) -> None:
    for body in NO_ADDRESSES:
        async with server.client.post("/auth/magic-link", json=body) as answer:
            assert answer.status == 422, body
            assert answer.content_type == "application/problem+json"


async def test_capital_letters_are_the_same_address(mailing: Serving, mailbox: Mailbox) -> None:
    await people.make(mailing, "Ada@Example.org")
    await ask_for(mailing, mailbox, ADA)
    await ask(mailing, " ADA@EXAMPLE.ORG")
    await until(lambda: len(mailbox.to(ADA)) == 2)


async def test_who_may_sign_up(serve: Serve) -> None:
    async with serve(app_env="local") as local, serve(app_env="local", auth_signup="closed") as closed:
        assert accounts.may_sign_up(local.state.settings)
        assert not accounts.may_sign_up(closed.state.settings)
        async with local.state.connection() as conn:
            token = await accounts.request_link(conn, local.state.settings, "new@example.org", peer="x")
            assert token is not None
            assert await accounts.request_link(conn, closed.state.settings, "newer@example.org", peer="x") is None
        assert await verify(local, token) == 200
        made = await local.state.control.get_user("new@example.org")
        assert made.role == "user"


async def test_a_link_of_somebody_who_is_disabled_meanwhile(server: Serving) -> None:
    await people.make(server, ADA)
    token = await people.link_token(server, ADA)
    await server.state.control.disable_user(ADA)
    assert await verify(server, token) == 401
    await server.state.control.enable_user(ADA)
    assert await verify(server, token) == 401  # it was used


@pytest.mark.req("H05")
async def test_the_walk_through_by_the_log(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    """Seed 003: ask for a link, read it from the log, exchange it, call something, replay it."""
    async with serve(app_env="local") as server:
        assert (await ask(server, "you@example.com"))[0] == 200
        await settle(server)
        said = "".join(capfd.readouterr())
        token = said.partition("/auth/verify?token=")[2][:43]
        async with server.client.get("/auth/verify", params={"token": token}) as answer:
            jwt = (await answer.json())["token"]
        async with server.client.get("/auth/me", headers={"Authorization": f"Bearer {jwt}"}) as answer:
            assert (await answer.json())["email"] == "you@example.com"
        assert await verify(server, token) == 401
        async with server.client.get("/auth/me", headers={"Authorization": f"Bearer {token}"}) as answer:
            assert answer.status == 401
