"""Secrets of payloads are bound to the record that they were stored in, and to the origin that they were given for."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr
from tests.support.engine import Engine
from tests.support.outside import Outside
from tests.support.wait import until

from rota import Rota, Secret, every
from rota.engine.worker import Worker
from rota.errors import KeyReused, PayloadError
from rota.model import secret as secret_module
from rota.model.ids import new_id
from rota.model.retry import Retry
from rota.model.secret import use_keys

pytestmark = pytest.mark.req("T07")

Work = Callable[..., AbstractAsyncContextManager[Worker]]
MakeApp = Callable[..., Rota]
BEARER = "Bearer hunter2canary-4711"
OLD, NEW = "o" * 40, "n" * 40
ONCE = Retry(max_attempts=1)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_module, "_keys", (OLD,))
    monkeypatch.setattr(secret_module, "_required", False)


def stored(engine: Engine, id: UUID) -> Any:
    row = engine.conn.execute(
        "SELECT payload FROM rota.job WHERE id = %s UNION ALL SELECT payload FROM rota.run WHERE job_id = %s", [id, id]
    )
    return row.fetchone()[0]  # type: ignore[index]


def error_of(engine: Engine, id: UUID) -> str:
    return str(engine.runs(id)[-1].error["message"])


async def test_ciphertext_of_another_job_is_never_sent(app: Rota, engine: Engine, server: Outside, work: Work) -> None:
    """Not in a job of the thief's own, and not in a schedule."""
    job = await app.ahttp_job(server.url, headers={"Authorization": BEARER}, owner="ann", delay="1h")
    async with work(app):
        copied, stolen = new_id(), json.dumps(stored(engine, job.id))
        engine.conn.execute(
            "INSERT INTO rota.job (id, task, payload, queue, owner, max_attempts) VALUES (%s, 'http_call', %s, 'http', 'eve', 1)",
            [copied, stolen],
        )
        engine.conn.execute(
            "INSERT INTO rota.schedule (name, task, payload, strategy, every, next_run_at, max_attempts)"
            " VALUES ('eve', 'http_call', %s, 'interval', '1 h', 'infinity', 1) RETURNING id",
            [stolen],
        )
        fired = await app.schedules.arun("eve")
        await engine.ended(copied, fired, state="failed")
    assert "secret /headers/Authorization cannot be read: it was sealed for another record" in error_of(engine, copied)
    assert "was sealed for another record" in error_of(engine, fired)
    assert server.got == []


async def test_another_origin_or_field_makes_no_call(app: Rota, engine: Engine, server: Outside, work: Work) -> None:
    jobs = [await app.ahttp_job(server.url, headers={"Authorization": BEARER}, delay="1h", retry=ONCE) for _ in range(2)]
    for job, text in zip(jobs, ('"url":"http://evil.example/', '"X-Echo":'), strict=True):
        was = '"url":"' + server.url.rpartition("/")[0] + "/" if "url" in text else '"Authorization":'
        engine.conn.execute(
            "UPDATE rota.job SET payload = replace(payload::text, %s, %s)::json, run_at = now() WHERE id = %s", [was, text, job.id]
        )
    async with work(app):
        await engine.ended(*(job.id for job in jobs), state="failed")
    assert all("was sealed for another record, owner, field or origin" in error_of(engine, job.id) for job in jobs)
    assert server.got == []


async def test_schedules_and_defaults_have_their_secrets_sealed(
    make_app: MakeApp, engine: Engine, server: Outside, work: Work
) -> None:
    app = make_app()
    seen: list[str] = []

    @app.task(default_payload={"token": "default-canary"})
    async def use(token: Secret) -> None:
        seen.append(token.get_secret_value())

    @app.recurring(key="row")
    async def recur(token: Secret) -> None:
        seen.append(token.get_secret_value())

    async with app, work(app):
        call = {"url": server.url, "headers": {"Authorization": BEARER}, "secrets": ["signing-canary-0815"]}
        record = await app.schedules.acreate("ping", "http_call", every("1h"), payload=call)
        await app.schedules.acreate("own", "use", every("1h"), payload={"token": "schedule-canary"})
        await app.schedules.acreate("plain", "use", every("1h"))
        await app.control.update("use", default_payload={"token": "operator-canary"})
        rows = list(engine.conn.execute("SELECT s::text FROM rota.schedule s UNION ALL SELECT t::text FROM rota.task t"))
        assert "canary" not in str(rows)
        assert record.payload["headers"] == {"Authorization": "[redacted]"}
        jobs = [await app.schedules.arun(name) for name in ("ping", "own", "plain")]
        jobs.append(await app.control.trigger("use"))
        await engine.ended(*jobs)
        await recur.aensure(token=SecretStr("row-canary"))
        await until(lambda: "row-canary" in seen)
    assert server.got[0].headers["authorization"] == BEARER
    assert "webhook-signature" in server.got[0].headers
    assert sorted(seen[:3]) == ["operator-canary", "operator-canary", "schedule-canary"]


async def test_a_schedules_edit_keeps_what_is_redacted(app: Rota, engine: Engine, server: Outside, work: Work) -> None:
    call = {"url": server.url, "headers": {"Authorization": BEARER}}
    async with work(app):
        record = await app.schedules.acreate("ping", "http_call", every("1h"), payload=call)
        changed = {**record.payload, "method": "PUT"}
        assert (await app.schedules.aupdate("ping", payload=changed)).payload["headers"] == {"Authorization": "[redacted]"}
        await engine.ended(await app.schedules.arun("ping"))
        with pytest.raises(PayloadError, match="/headers/Authorization cannot be kept, because the URL has another origin"):
            await app.schedules.aupdate("ping", payload={**changed, "url": "http://evil.example/"})
    assert [(got.method, got.headers["authorization"]) for got in server.got] == [("PUT", BEARER)]


async def test_an_edit_keeps_secrets_at_their_origin_only(app: Rota, engine: Engine, server: Outside, work: Work) -> None:
    await app.control.sync_definitions()
    there = f"http://127.0.0.1:{server.port}"
    job = await app.ahttp_job(f"{there}/a?key=canary", headers={"Authorization": BEARER}, body="canary", delay="1h", owner="ann")
    edited = await app.control.edit_and_retry(job.id, changes={"url": f"{there}/b", "headers": {"Authorization": "[redacted]"}})
    assert edited.dropped_secrets == []
    async with work(app):
        await engine.ended(job.id)
    assert [(f"{got.path}?{got.query}", got.headers["authorization"], got.body) for got in server.got] == [
        ("/b?key=canary", BEARER, b"canary")
    ]

    other = await app.ahttp_job("http://evil.example/", headers={"Authorization": BEARER}, body="canary", delay="1h", owner="ann")
    edited = await app.control.edit_and_retry(other.id, changes={"url": f"{there}/c"})
    assert edited.dropped_secrets == ["/headers/Authorization", "/body"]
    async with work(app):
        await engine.ended(other.id)
    assert (server.got[-1].path, server.got[-1].body) == ("/c", b"")
    assert "authorization" not in server.got[-1].headers


async def test_a_repeated_request_is_known_across_keys(app: Rota) -> None:
    first = await app.ahttp_job("https://example.org/", body="one", key="k", owner="ann")
    use_keys(f"{NEW},{OLD}")
    again = await app.ahttp_job("https://example.org/", body="one", key="k", owner="ann")
    assert (again.id, again.created) == (first.id, False)
    with pytest.raises(KeyReused):
        await app.ahttp_job("https://example.org/", body="two", key="k", owner="ann")


async def test_outside_local_nothing_secret_is_stored_without_a_key(make_app: MakeApp, engine: Engine, monkeypatch: Any) -> None:
    monkeypatch.setattr(secret_module, "_keys", ())
    async with make_app(app_env="production") as app:
        with pytest.raises(PayloadError, match="Set ROTA_SECRETS_KEY"):
            await app.ahttp_job("https://example.org/", headers={"Authorization": BEARER})
        await app.ahttp_job("https://example.org/")  # has none
    assert engine.count("rota.job") == 1


def test_a_job_that_is_not_stored_yet_does_not_show_its_secrets(make_app: MakeApp) -> None:
    with make_app() as app:
        new = app.call("https://x.org/?canary")
    assert '"query":"[redacted]"' in repr(new)


def test_the_table_refuses_a_secret_that_was_not_sealed(engine: Engine, make_app: MakeApp) -> None:
    with make_app() as app, pytest.raises(Exception, match="job_payload_sealed"):
        engine.enqueue("http_call", json.loads(app.call("https://example.org/", body="canary-body").payload))


async def test_jobs_that_are_copied_in_bulk_are_sealed_each_for_itself(
    app: Rota, engine: Engine, server: Outside, work: Work
) -> None:
    calls = [app.call(server.url, headers={"Authorization": BEARER}, body=f"body {n}") for n in range(60)]
    jobs = await app.aenqueue_many(calls)
    assert len({stored(engine, job.id)["headers"]["Authorization"] for job in jobs}) == 60
    async with work(app):
        await engine.ended(*(job.id for job in jobs))
    assert {got.headers["authorization"] for got in server.got} == {BEARER}
    assert sorted(got.body for got in server.got) == sorted(f"body {n}".encode() for n in range(60))


async def test_a_repeated_request_of_an_operator_is_known(app: Rota, engine: Engine, server: Outside, work: Work) -> None:
    await app.control.sync_definitions()
    call = {"url": server.url, "headers": {"Authorization": BEARER}}
    first, created = await app.control.enqueue("http_call", call, key="k")
    assert await app.control.enqueue("http_call", call, key="k") == (first, False)
    assert created
    async with work(app):
        await engine.ended(first)
    assert [got.headers["authorization"] for got in server.got] == [BEARER]
