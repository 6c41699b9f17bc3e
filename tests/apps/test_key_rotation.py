"""Keys are changed while servers and workers run: no secret is lost, no job fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.support import people
from tests.support.engine import Engine
from tests.support.outside import Outside
from tests.support.processes import WorkerProcess
from tests.support.shop import Shop, open_shop
from tests.support.wait import until

from rota import seal
from rota.control import doctor
from rota.control.rotation import HISTORY, LIVE, key_uses, rotate
from rota.model import secret as secret_module
from rota.model.secret import key_id

pytestmark = pytest.mark.req("T07")

OLD, NEW = "o" * 40, "n" * 40
BEARER = "Bearer hunter2canary"
COLUMNS = [*LIVE, *HISTORY]

AConn = psycopg.AsyncConnection[Any]


def given(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    """Give this process these keys, as if it had been started with them."""
    monkeypatch.setattr(secret_module, "_keys", keys)


def worker(dsn: str, *keys: str) -> WorkerProcess:
    env = {"ROTA_HTTP_ENABLED": "true", "ROTA_HTTP_ALLOW": "127.0.0.1", "ROTA_SECRETS_KEY": ",".join(keys)}
    return WorkerProcess("tests.support.http_app:app", dsn, env=env, queues={"http": 1})


@pytest.fixture
async def shop(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    async with open_shop(dsn, http_enabled=True, http_allow="127.0.0.1", secrets_key=OLD) as shop:
        await people.make(shop.server, "ann@example.org")
        yield shop


async def test_a_rotation_under_load_loses_nothing(
    dsn: str, aconn: AConn, engine: Engine, server: Outside, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await people.jwt(shop.server, "ann@example.org")

    async def ask(number: int, **more: Any) -> None:
        body = {"url": f"{server.url}?n={number}", "headers": {"Authorization": BEARER}, "json": {"n": number}, **more}
        status, made = await people.call(shop.server, ann, "POST", "/jobs", body)
        assert status == 202, made

    later = {"run_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    with worker(dsn, OLD) as first:
        for number in range(10):
            await ask(number)
        await ask(10, **later)
        with worker(dsn, OLD, NEW):  # every process learns to read the new key
            first.stop()
            given(monkeypatch, OLD, NEW)
            await ask(11)
            with worker(dsn, NEW, OLD):  # then every process writes with it
                given(monkeypatch, NEW, OLD)
                await ask(12, **later)
                for number in range(13, 30):
                    await ask(number)
                done = await rotate(aconn, COLUMNS)
                assert (done.key, done.left) == (key_id(NEW), 0)
                await until(lambda: len(server.got) == 28)
    with worker(dsn, NEW):
        given(monkeypatch, NEW)
        engine.conn.execute("UPDATE rota.job SET run_at = rota.now()")
        await until(lambda: len(server.got) == 30)
        await until(lambda: engine.count("rota.job WHERE queue = 'http'") == 0)
    assert {got.headers["authorization"] for got in server.got} == {BEARER}
    assert sorted(json.loads(got.body)["n"] for got in server.got) == [*range(30)]
    assert engine.count("rota.run WHERE outcome <> 'completed'") == 0
    assert [(use.id, use.known) for use in await key_uses(aconn, COLUMNS) if use.secrets] == [(key_id(NEW), True)]


async def test_every_place_is_rotated(dsn: str, aconn: AConn, engine: Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs, history, edits, schedules, defaults, webhooks and columns of applications, also in rows that others have locked."""
    call = {"url": "https://example.org/", "headers": {"Authorization": BEARER}}
    await shop.post("/schedules", {"name": "s", "task": "http_call", "every": "1h", "payload": call}, status=201)
    await shop.post("/webhooks", {"url": "https://example.org/hook"}, status=201)
    job = (await shop.post("/jobs", {"task": "http_call", "payload": call, "delay": "1h"}, status=201))["id"]
    await shop.post(f"/jobs/{job}/edit", {"changes": {"method": "PUT"}})
    await shop.post(f"/jobs/{job}/cancel")
    await shop.post("/jobs", {"task": "http_call", "payload": call, "delay": "1h"}, status=201)
    await aconn.execute("CREATE TABLE mailbox (id integer, password text)")
    await aconn.execute("INSERT INTO mailbox SELECT 1, %s", [seal("canary", kind="mailbox", id=1, field="password")])
    columns = [*COLUMNS, "public.mailbox.password", "public.gone.password"]
    [before] = await key_uses(aconn, columns)
    assert (before.id, before.secrets) == (key_id(OLD), 6)

    given(monkeypatch, NEW, OLD)
    assert [finding.next for finding in await doctor_says(dsn)] == ["rota secrets rotate"]
    with psycopg.connect(dsn) as other:
        other.execute("SELECT FROM rota.job FOR UPDATE")
        assert (await rotate(aconn, columns)).left == 1
    assert (await rotate(aconn, columns)).left == 0
    assert [use.secrets for use in await key_uses(aconn, columns)] == [6, 0]
    assert [finding.level for finding in await doctor_says(dsn)] == ["ok"]

    given(monkeypatch, OLD)
    [finding] = await doctor_says(dsn)
    assert (finding.level, finding.sentence) == (
        "fail",
        f"3 secrets encrypted with key {key_id(NEW)}, which is not in secrets.key here",
    )


async def test_doctor_says_that_tasks_with_secrets_have_no_key(dsn: str, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch)
    monkeypatch.setattr(secret_module, "_required", True)
    [finding] = await doctor_says(dsn)
    assert (finding.level, finding.sentence) == ("warn", "1 task with secrets and no secrets.key: jobs with a secret are refused")


async def doctor_says(dsn: str) -> list[Any]:
    return [finding async for finding in doctor.examine(dsn) if finding.check == "secrets"]
