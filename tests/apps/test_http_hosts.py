"""How many calls a host gets at a time, and when it is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from aiohttp import web
from tests.support.engine import Engine
from tests.support.outside import Outside
from tests.support.wait import until

from rota import Retry, Rota
from rota.apps.http_call import hosts as hosts_module
from rota.apps.http_call.hosts import Host, Hosts, Place
from rota.engine.worker import Worker

pytestmark = pytest.mark.req("H04")

Work = Callable[..., AbstractAsyncContextManager[Worker]]
MakeApp = Callable[..., Rota]

ONCE = Retry(max_attempts=1)


class Time:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def hosts(time: Time) -> Hosts:
    return Hosts(per_host=2, failures=3, rest_s=30, clock=time)


class TestBreaker:
    def test_it_opens_after_failures_in_a_row(self, hosts: Hosts) -> None:
        host = hosts.get("x", 80)
        for _ in range(2):
            hosts.failed(host)
        hosts.succeeded(host)
        for _ in range(2):
            hosts.failed(host)
        assert hosts.rest_s(host) is None
        hosts.failed(host)
        rest_s = hosts.rest_s(host)
        assert rest_s is not None
        assert 30 <= rest_s <= 33
        assert hosts.rest_s(hosts.get("y", 80)) is None

    def test_when_its_rest_is_over_one_tries(self, hosts: Hosts, time: Time) -> None:
        host = self._open(hosts)
        time.now += 30
        assert hosts.rest_s(host) is None
        with Place(host):
            assert hosts.rest_s(host) is not None  # for all others
            hosts.failed(host)
        assert hosts.rest_s(host) is not None
        time.now += 30
        with Place(host):
            hosts.succeeded(host)
            assert hosts.rest_s(host) is None
        assert (host.failures, host.probing) == (0, False)

    def test_one_that_tries_and_is_stopped_leaves_it_to_the_next(self, hosts: Hosts, time: Time) -> None:
        host = self._open(hosts)
        time.now += 30
        with pytest.raises(KeyError), Place(host):
            raise KeyError
        assert hosts.rest_s(host) is None

    def _open(self, hosts: Hosts) -> Host:
        host = hosts.get("x", 80)
        for _ in range(3):
            hosts.failed(host)
        return host


class TestPlaces:
    async def test_who_finds_none_gives_up_soon(self, hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hosts_module, "PLACE_WITHIN_S", 0.05)
        host = hosts.get("x", 80)
        with Place(host), Place(host):
            assert await hosts.wait(host) is False
            assert not hosts.is_full(hosts.get("y", 80))
        assert await hosts.wait(host) is True
        assert (host.open, host.waiting) == (0, 0)

    async def test_who_waits_gets_the_next_one(self, hosts: Hosts) -> None:
        host = hosts.get("x", 80)
        with Place(host):
            with Place(host):
                waiting = asyncio.create_task(hosts.wait(host))
                await asyncio.sleep(0)
                assert not waiting.done()
            assert await waiting is True

    def test_few_are_remembered(self, hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hosts_module, "MAX_HOSTS", 3)
        busy = hosts.get("busy", 80)
        with Place(busy):
            for number in range(100):
                hosts.get(str(number), 80)
            assert len(hosts._hosts) <= 4
            assert hosts.get("busy", 80) is busy


class TestInAWorker:
    async def test_a_broken_host_is_left_alone_and_its_jobs_pay_nothing(
        self, make_app: MakeApp, engine: Engine, server: Outside, work: Work
    ) -> None:
        server.answers(500)
        async with make_app(http_breaker_failures=3, http_breaker_s=60) as app, work(app):
            first = [await app.ahttp_job(server.url, retry=ONCE) for _ in range(3)]
            await engine.ended(*(job.id for job in first), state="failed")
            assert len(server.got) == 3
            later = [await app.ahttp_job(server.url, retry=ONCE) for _ in range(5)]
            await until(lambda: all(engine.outcomes(job.id) == ["snoozed"] for job in later))
            other = await app.ahttp_job(f"http://127.0.0.1:{server.port + 1}/", retry=ONCE)  # another port is another host
            await engine.ended(other.id, state="failed")
            assert len(server.got) == 3
            for job in later:
                row = engine.row(job.id)
                assert (row.state, row.attempt - row.forgiven) == ("delayed", 0)
                assert 55 < (row.run_at - row.updated_at).total_seconds() < 70

    async def test_a_host_comes_back(self, make_app: MakeApp, engine: Engine, server: Outside, work: Work) -> None:
        server.answers(503)
        async with make_app(http_breaker_failures=2, http_breaker_s=1) as app, work(app):
            first = [await app.ahttp_job(server.url, retry=ONCE) for _ in range(2)]
            await engine.ended(*(job.id for job in first), state="failed")
            server.answers(200)
            later = [await app.ahttp_job(server.url, retry=ONCE) for _ in range(5)]
            await engine.ended(*(job.id for job in later))
        assert len(server.got) == 7

    async def test_4xx_is_an_answer(self, make_app: MakeApp, engine: Engine, server: Outside, work: Work) -> None:
        server.answers(404)
        async with make_app(http_breaker_failures=2) as app, work(app):
            jobs = [await app.ahttp_job(server.url, retry=ONCE) for _ in range(6)]
            await engine.ended(*(job.id for job in jobs), state="failed")
        assert len(server.got) == 6

    @pytest.mark.req("Q12")
    async def test_more_at_a_time_than_the_worker_has_slots_but_not_of_one_host(
        self, make_app: MakeApp, engine: Engine, server: Outside, work: Work, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A worker with one slot has many calls open, no more than allowed of one host, and a slot for other tasks."""
        monkeypatch.setattr(hosts_module, "PLACE_WITHIN_S", 0.05)
        go = asyncio.Event()

        async def wait(_: web.Request) -> web.Response:
            await go.wait()
            return web.Response()

        server.answer = wait
        async with make_app(http_per_host=6, http_concurrency=20) as app:

            @app.task
            async def other() -> None: ...

            async with work(app, concurrency=1):
                jobs = [await app.ahttp_job(server.url) for _ in range(10)]
                await until(lambda: len(server.got) == 6)
                await engine.ended((await other.aenqueue()).id)
                await until(lambda: sum("snoozed" in engine.outcomes(job.id) for job in jobs) >= 4)
                assert len(server.got) == 6
                go.set()
                await engine.ended(*(job.id for job in jobs))
        assert len(server.got) == 10
