"""`/jobs` over real HTTP: made, listed, looked at, canceled and retried by their owner, and by nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from aiohttp import web
from tests.server.conftest import Serve
from tests.support import people
from tests.support.engine import Engine
from tests.support.outside import Outside, outside
from tests.support.people import Headers
from tests.support.plans import nodes
from tests.support.serving import Serving
from tests.support.wait import until
from tests.support.working import working

from rota.control import search
from rota.model.filters import JobFilter
from rota.model.ids import new_id

Conn = psycopg.Connection[Any]

CANARY = "hunter2canary"


@pytest.fixture
async def server(serve: Serve) -> AsyncIterator[Serving]:
    """A running server that takes HTTP jobs, also to this machine."""
    async with serve(http_enabled=True, http_allow="127.0.0.1") as running:
        yield running


@pytest.fixture
async def ann(server: Serving) -> Headers:
    """What somebody sends along."""
    await people.make(server, "ann@example.org")
    return await people.jwt(server, "ann@example.org")


@pytest.fixture
async def ben(server: Serving) -> Headers:
    """What somebody else sends along."""
    await people.make(server, "ben@example.org")
    return await people.api_token(server, "ben@example.org")


@pytest.fixture
async def other_side() -> AsyncIterator[Outside]:
    async with outside() as server:
        yield server


@pytest.fixture
def engine(dsn: str, conn: Conn) -> Engine:
    return Engine(dsn, conn)


async def send(server: Serving, method: str, path: str, who: Headers, body: Any = None, **headers: str) -> tuple[int, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with server.client.request(method, path, json=body, headers={**who, **named}) as answer:
        return answer.status, await answer.json()


async def make(server: Serving, who: Headers, **body: Any) -> Any:
    status, job = await send(server, "POST", "/jobs", who, {"url": "https://example.org/hook", **body})
    assert status == 202, job
    return job


@pytest.mark.req("H01", "H04")
class TestWhatAJobIs:
    async def test_it_works(self, server: Serving, ann: Headers, other_side: Outside, engine: Engine) -> None:
        """From the request to the call and what became of it."""
        other_side.answers(201, "thanks")
        job = await make(server, ann, url=other_side.url + f"?token={CANARY}", json={"order": 7}, headers={"X-Key": CANARY})
        assert (job["state"], job["method"], job["url"], job["attempt"]) == ("queued", "POST", other_side.url, 0)
        assert (job["headers"], job["timeout_s"]) == (["Content-Type", "X-Key"], 30)
        async for _ in working(server.app):
            await engine.ended(UUID(job["id"]))
        [got] = other_side.got
        assert (got.method, got.query, got.body, got.headers["x-key"]) == ("POST", f"token={CANARY}", b'{"order":7}', CANARY)
        status, now = await send(server, "GET", f"/jobs/{job['id']}", ann)
        assert (status, now["state"], now["last_status"], now["attempt"], now["last_error"]) == (200, "completed", 201, 1, None)
        status, page = await send(server, "GET", f"/jobs/{job['id']}/attempts", ann)
        [attempt] = page["items"]
        assert (status, page["next"]) == (200, None)
        assert (attempt["attempt"], attempt["outcome"], attempt["status"]) == (1, "completed", 201)
        assert attempt["response"] == {"content_type": "text/plain", "head": "thanks", "bytes": 6, "cut": False}
        assert attempt["duration_ms"] > 0
        assert CANARY not in json.dumps([job, now, page])

    async def test_what_is_answered_is_what_is_stored(self, server: Serving, ann: Headers) -> None:
        """The answer is made without asking the database: it must not differ from what that says later."""
        run_at = datetime(2090, 1, 1, tzinfo=UTC)
        for body in (
            {},
            {"run_at": run_at.isoformat(), "method": "PUT", "timeout_s": 3600, "retry": {"max_attempts": 9}, "body": "x"},
        ):
            job = await make(server, ann, **body)
            _, stored = await send(server, "GET", f"/jobs/{job['id']}", ann)
            for name in ("created_at", "updated_at", *(() if body else ("run_at",))):
                said, kept = (datetime.fromisoformat(each.pop(name)) for each in (job, stored))
                assert abs(said - kept) < timedelta(seconds=2)
            assert job == stored

    async def test_attempts_show_before_they_end(self, server: Serving, ann: Headers, other_side: Outside, engine: Engine) -> None:
        async def wait(_: web.Request) -> web.Response:
            await asyncio.sleep(30)
            return web.Response()

        other_side.answer = wait
        job = await make(server, ann, url=other_side.url)
        async for _ in working(server.app):
            await until(lambda: other_side.got)
            _, page = await send(server, "GET", f"/jobs/{job['id']}/attempts", ann)
            [attempt] = page["items"]
            assert (attempt["outcome"], attempt["finished_at"], attempt["status"]) == ("running", None, None)
            status, now = await send(server, "POST", f"/jobs/{job['id']}/cancel", ann)
            assert (status, now["cancel_requested"] or now["state"] == "canceled") == (200, True)
            await engine.ended(UUID(job["id"]), state="canceled")

    async def test_canceled_and_retried(self, server: Serving, ann: Headers) -> None:
        job = await make(server, ann, run_at="2090-01-01T00:00:00Z")
        path = f"/jobs/{job['id']}"
        assert (await send(server, "POST", f"{path}/cancel", ann))[1]["state"] == "canceled"
        status, problem = await send(server, "POST", f"{path}/cancel", ann)
        assert (status, problem["code"]) == (409, "invalid_transition")
        status, now = await send(server, "POST", f"{path}/retry", ann)
        assert (status, now["state"]) == (200, "queued")
        assert (await send(server, "GET", "/jobs?state=canceled", ann))[1]["items"] == []

    async def test_attempts_by_pages(self, server: Serving, ann: Headers, conn: Conn) -> None:
        job = await make(server, ann)
        conn.execute(
            """INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, finished_at)
               SELECT %s, n, 'http_call', 'http', 'failed', false, rota.now() FROM generate_series(1, 7) n""",
            [job["id"]],
        )
        seen, cursor = [], ""
        while True:
            _, page = await send(server, "GET", f"/jobs/{job['id']}/attempts?limit=3{cursor}", ann)
            seen += [each["attempt"] for each in page["items"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert seen == [7, 6, 5, 4, 3, 2, 1]


@pytest.mark.req("H06")
class TestWhoseItIs:
    async def test_anothers_is_like_none(self, server: Serving, ann: Headers, ben: Headers) -> None:
        job = await make(server, ann)
        for method, path in (("GET", ""), ("GET", "/attempts"), ("POST", "/cancel"), ("POST", "/retry")):
            missing = str(new_id())
            status, problem = await send(server, method, f"/jobs/{job['id']}{path}", ben)
            _, of_none = await send(server, method, f"/jobs/{missing}{path}", ben)
            assert status == 404
            for each in (problem, of_none):
                each.pop("request_id")
            assert json.dumps(problem).replace(job["id"], missing) == json.dumps(of_none)
        assert (await send(server, "GET", "/jobs", ben))[1] == {"items": [], "next": None, "count": None}
        assert (await send(server, "GET", f"/jobs/{job['id']}", ann))[1]["state"] == "queued"

    async def test_an_admin_has_no_more_of_them(self, server: Serving, ann: Headers) -> None:
        await people.make(server, "root@example.org", "admin")
        root = await people.jwt(server, "root@example.org")
        job = await make(server, ann)
        assert (await send(server, "GET", f"/jobs/{job['id']}", root))[0] == 404

    async def test_other_jobs_of_theirs_show_nothing_of_their_payload(self, server: Serving, ann: Headers, conn: Conn) -> None:
        """What else was made for them, such as synchronisations of calendars."""
        mine = await make(server, ann)
        conn.execute("UPDATE rota.job SET task = 'other' WHERE id = %s", [mine["id"]])
        [listed] = (await send(server, "GET", "/jobs", ann))[1]["items"]
        assert listed == (await send(server, "GET", f"/jobs/{mine['id']}", ann))[1]
        assert (listed["task"], listed["url"], listed["method"], listed["headers"]) == ("other", None, None, [])

    async def test_nobody_without_signing_in(self, server: Serving) -> None:
        for method, path in (
            ("POST", "/jobs"),
            ("GET", "/jobs"),
            ("GET", f"/jobs/{new_id()}"),
            ("POST", f"/jobs/{new_id()}/retry"),
        ):
            assert (await send(server, method, path, {}, {"url": "x"} if method == "POST" else None))[0] == 401

    async def test_a_token_that_may_only_look(self, server: Serving, ann: Headers) -> None:
        reader = await people.api_token(server, "ann@example.org", "own.read")
        assert (await send(server, "GET", "/jobs", reader))[0] == 200
        assert (await send(server, "POST", "/jobs", reader, {"url": "https://example.org/"}))[0] == 403

    async def test_keys(self, server: Serving, ann: Headers, ben: Headers) -> None:
        """The same key and request is the same job; of another user it is another; with another request it is refused."""
        body = {"url": "https://example.org/", "json": {"a": 1}, "run_at": "2090-01-01T00:00:00Z"}
        first = await send(server, "POST", "/jobs", ann, body, Idempotency_Key="k")
        again = await send(server, "POST", "/jobs", ann, body, Idempotency_Key="k")
        field = await send(server, "POST", "/jobs", ann, {**body, "idempotency_key": "k"})
        assert [status for status, _ in (first, again, field)] == [202, 202, 202]
        assert first[1]["id"] == again[1]["id"] == field[1]["id"]
        assert first[1]["idempotency_key"] == "k"
        other = await send(server, "POST", "/jobs", ben, body, Idempotency_Key="k")
        assert other[1]["id"] != first[1]["id"]
        for change in (
            {"json": {"a": 2}},
            {"url": "https://example.org/x"},
            {"run_at": "2090-01-01T00:00:01Z"},
            {"method": "PUT"},
            {"retry": {"max_attempts": 2}},
            {"timeout_s": 31},
            {"headers": {"X": "y"}},
            {"signing_secret": "x" * 20},
        ):
            status, problem = await send(server, "POST", "/jobs", ann, {**body, **change}, Idempotency_Key="k")
            assert (status, problem["code"]) == (409, "key_reused"), change
        status, _ = await send(server, "POST", "/jobs", ann, {**body, "idempotency_key": "j"}, Idempotency_Key="k")
        assert status == 422

    async def test_a_key_used_at_once_by_many(self, server: Serving, ann: Headers) -> None:
        body = {"url": "https://example.org/"}
        answers = await asyncio.gather(*(send(server, "POST", "/jobs", ann, body, Idempotency_Key="k") for _ in range(20)))
        assert {status for status, _ in answers} == {202}
        assert len({job["id"] for _, job in answers}) == 1

    async def test_lists(self, server: Serving, ann: Headers, ben: Headers, conn: Conn) -> None:
        """Newest first, by pages, live and finished ones."""
        mine = [(await make(server, ann, run_at="2090-01-01T00:00:00Z"))["id"] for _ in range(7)]
        await make(server, ben)
        for id in mine[::2]:
            await send(server, "POST", f"/jobs/{id}/cancel", ann)
        seen, cursor = [], ""
        while True:
            _, page = await send(server, "GET", f"/jobs?limit=3{cursor}", ann)
            seen += [each["id"] for each in page["items"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert seen == mine[::-1]
        canceled = await send(server, "GET", "/jobs?state=canceled", ann)
        assert [each["id"] for each in canceled[1]["items"]] == mine[::-1][::2]
        both = await send(server, "GET", "/jobs?state=canceled&state=queued", ann)
        assert len(both[1]["items"]) == 7
        _, bens = await send(server, "GET", "/jobs?limit=1", ben)
        assert (len(bens["items"]), bens["next"]) == (1, None)  # nor does it say that others have any


REFUSED = [
    ({}, "validation"),
    ({"url": 7}, "validation"),
    ({"url": "x"}, "usage"),
    ({"url": "ftp://x/"}, "usage"),
    ({"url": f"https://u:{CANARY}@x/"}, "usage"),
    ({"url": "http://10.0.0.1/"}, "usage"),
    ({"url": "http://0x7f.1/"}, "usage"),
    ({"url": "http://[::1]/"}, "usage"),
    ({"url": "http://metadata.google.internal/"}, "usage"),
    ({"url": "http://169.254.169.254/"}, "usage"),
    ({"url": "https://x/", "headers": {"Host": CANARY}}, "usage"),
    ({"url": "https://x/", "headers": {"X": f"{CANARY}\r\nY: z"}}, "usage"),
    ({"url": "https://x/", "headers": {"X": 7}}, "validation"),
    ({"url": "https://x/", "method": "TRACE"}, "validation"),
    ({"url": "https://x/", "timeout_s": 0}, "validation"),
    ({"url": "https://x/", "timeout_s": 3601}, "validation"),
    ({"url": "https://x/", "run_at": "2030-01-01T00:00:00"}, "validation"),
    ({"url": "https://x/", "run_at": "soon"}, "validation"),
    ({"url": "https://x/", "run_at": "9999-12-31T23:59:59-23:59"}, "validation"),
    ({"url": "https://x/", "timeout_s": "5"}, "validation"),
    ({"url": "https://x/", "retry": {"max_attempts": 0}}, "validation"),
    ({"url": "https://x/", "retry": {"x": 1}}, "validation"),
    ({"url": "https://x/", "body": "a", "json": 1}, "usage"),
    ({"url": "https://x/", "body_base64": "?"}, "usage"),
    ({"url": "https://x/", "headers": {"Transfer_Encoding": "chunked"}}, "usage"),
    ({"url": "https://x/", "headers": {"content_length": "0"}}, "usage"),
    ({"url": "https://x/", "headers": {"Host": "y"}}, "usage"),
    ({"url": "https://x/", "signing_secret": "short"}, "usage"),
    ({"url": "https://x/", "signing_secret": [CANARY + "x" * 20] * 6}, "validation"),
    ({"url": "https://x/", "more": 1}, "validation"),
    ({"url": "https://x/", "idempotency_key": ""}, "validation"),
    ({"url": "https://x/", "idempotency_key": "\0"}, "validation"),
    ([], "validation"),
    ("x", "validation"),
    (None, "validation"),
]


class TestWhatIsRefused:
    @pytest.mark.req("H01", "H11")
    async def test_with_a_clear_word(self, server: Serving, ann: Headers, conn: Conn) -> None:
        for body, code in REFUSED:
            status, problem = await send(server, "POST", "/jobs", ann, body)
            assert (status, problem.get("code")) == (422, code), body
            assert CANARY not in json.dumps(problem)
        assert conn.execute("SELECT count(*) FROM rota.job").fetchone() == (0,)

    async def test_lone_surrogates_and_nonsense(self, server: Serving, ann: Headers) -> None:
        for data in (b'{"url": "https://x/", "body": "\\ud800"}', b'{"url": "https://x/\\ud800"}', b"{", b"\xff", b'{"url": NaN}'):
            async with server.client.post("/jobs", data=data, headers={**ann, "Content-Type": "application/json"}) as answer:
                assert answer.status in (400, 422)

    async def test_lists_with_nonsense(self, server: Serving, ann: Headers) -> None:
        for path in (
            "/jobs?cursor=x",
            "/jobs?cursor=%00",
            "/jobs?limit=0",
            "/jobs?state=x",
            "/jobs/x",
            "/jobs?cursor=AAAA",
            "/jobs/x/attempts",
        ):
            assert (await send(server, "GET", path, ann))[0] in (400, 422), path

    async def test_switched_off(self, serve: Serve) -> None:
        async with serve() as server:
            await people.make(server, "ann@example.org")
            ann = await people.jwt(server, "ann@example.org")
            status, problem = await send(server, "POST", "/jobs", ann, {"url": "https://x/"})
            assert (status, problem["code"]) == (409, "http_jobs_off")
            assert "enabled = true under [http]" in problem["detail"]
            assert (await send(server, "GET", "/jobs", ann))[0] == 200


@pytest.mark.req("A01")
async def test_one_owners_jobs_are_found_by_their_index(aconn: psycopg.AsyncConnection[Any], conn: Conn) -> None:
    """Whatever else there is: neither list walks through the jobs of others."""
    conn.execute(
        """INSERT INTO rota.job (id, task, queue, owner, payload)
           SELECT rota.uuid7(), 'http_call', 'http', 'user ' || n % 100, '{}' FROM generate_series(1, 10000) n"""
    )
    conn.execute(
        """INSERT INTO rota.run (job_id, attempt, task, queue, outcome, final, payload, owner, finished_at, created_at)
           SELECT rota.uuid7(), 1, 'http_call', 'http', CASE WHEN n % 3 = 0 THEN 'failed' ELSE 'completed' END, true, '{}',
                  'user ' || n % 100, rota.now(), rota.now()
           FROM generate_series(1, 10000) n"""
    )
    conn.execute("ANALYZE rota.job")
    conn.execute("ANALYZE rota.run")
    plans: list[Any] = []
    aconn.add_notice_handler(lambda notice: plans.append((notice.message_primary or "").partition("plan:\n")[2]))
    await aconn.execute("LOAD 'auto_explain'")
    for name, value in {"log_min_duration": "0", "log_analyze": "on", "log_format": "json", "log_level": "notice"}.items():
        await aconn.execute("SELECT set_config(%s, %s, false)", [f"auto_explain.{name}", value])
    for states in ((), ("failed",), ("queued", "completed")):
        plans.clear()
        ids, _ = await search.find(aconn, JobFilter(owner="user 7", states=states), before=None, limit=21)
        assert len(ids) == 21
        scans = [node for plan in plans if plan for node in nodes(json.loads(plan)["Plan"]) if "Scan" in node["Node Type"]]
        tables = [node for node in scans if node.get("Relation Name", "").startswith(("job", "run"))]
        assert tables
        for node in tables:
            used = [node.get("Index Name", "")] + [child.get("Index Name", "") for child in node.get("Plans", [])]
            assert any("owner" in name for name in used) or node["Actual Rows"] == 0, node
