"""A secret is used by its handler and read by nobody else: not in the database, not in logs, not in alerts."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
import structlog
from psycopg import sql
from pydantic import BaseModel, SecretStr
from tests.support import isolated
from tests.support.engine import Engine, spec
from tests.support.wait import until

from rota import Secret
from rota.config import LogSettings
from rota.control import alerts
from rota.errors import ConfigError, PayloadError
from rota.log import configure_logging
from rota.model import redact, secret
from rota.model.secret import SEALED, Record, use_keys
from rota.model.vault import seal_payload

CANARY = 'Plain c4n4ry/5ecr3t"with quotes"'  # no pattern knows it
KEY = "k" * 40
MINE = Record("job", "7")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "_keys", (KEY,))
    monkeypatch.setenv("ROTA_SECRETS_KEY", KEY)  # for the processes of isolated handlers


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(LogSettings(format="json", level="debug"), stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def places_with(conn: psycopg.Connection[Any], text: str) -> list[str]:
    """Every column of every table of Rota's, whatever its type, in which this text is found."""
    columns = conn.execute(
        """SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
           WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped"""
    ).fetchall()
    found = []
    for table, column in columns:
        query = sql.SQL("SELECT count(*) FROM rota.{} WHERE position(%s in {}::text) > 0")
        row = conn.execute(query.format(sql.Identifier(table), sql.Identifier(column)), [text]).fetchone()
        if row is not None and row[0]:
            found.append(f"{table}.{column}")
    return sorted(found)


def spill_jobs(engine: Engine, header: str) -> dict[tuple[str, str], UUID]:
    made = {}
    for name in ("spill_async", "spill_in_thread", "spill_isolated"):
        for how in ("raise", "cancel", "retry"):
            payload = engine.tasks[name].payload.encode(kwargs={"headers": {"Authorization": SecretStr(header)}, "how": how})
            made[name, how] = engine.enqueue_sealed(name, payload, max_attempts=1)
    return made


async def spill(engine: Engine) -> None:
    """Let every kind of handler try, and wait until everything is written down."""
    engine.tasks.update(isolated.app.tasks)
    made = spill_jobs(engine, CANARY)
    async with engine.worker():
        await until(lambda: engine.count("rota.run") >= len(made))
    raised = [id for (_, how), id in made.items() if how == "raise"]
    assert {engine.runs(id)[0].error["type"] for id in raised} == {"RuntimeError"}
    for id in raised:
        assert engine.count(f"rota.log WHERE job_id = '{id}'") >= 7


@pytest.mark.req("C07", "O01", "Y05")
async def test_it_is_read_by_nobody(
    engine: Engine, aconn: psycopg.AsyncConnection[Any], written: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    await spill(engine)
    assert places_with(engine.conn, "RuntimeError")
    await alerts.count_signals(aconn)
    assert {alert.kind for alert in await alerts.list_alerts(aconn, all=True)} == {"job_failed"}
    for part in ("c4n4ry", "5ecr3t"):
        assert places_with(engine.conn, part) == []
        assert part not in written.getvalue()
        assert part not in capfd.readouterr().err
    assert "calling with" in written.getvalue()
    assert places_with(engine.conn, SEALED)  # it is there, encrypted


@pytest.mark.req("C07")
async def test_a_handler_that_takes_it_out_of_its_arguments(engine: Engine) -> None:
    @engine.task
    async def call(headers: dict[str, Secret]) -> None:
        raise RuntimeError(headers.pop("Authorization").get_secret_value())

    payload = engine.tasks["call"].payload.encode(kwargs={"headers": {"Authorization": SecretStr(CANARY)}})
    async with engine.worker():
        await engine.ended(engine.enqueue_sealed("call", payload, max_attempts=1), state="failed")
    assert places_with(engine.conn, "RuntimeError")
    assert places_with(engine.conn, "c4n4ry") == []


async def test_the_test_can_see(engine: Engine, written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the redaction, the same handlers tell everybody."""
    monkeypatch.setattr(redact, "_hide_known", lambda text: text)
    await spill(engine)
    places = {place.split(".")[1] for place in places_with(engine.conn, "c4n4ry")}
    assert {"message", "error", "progress"} <= places
    assert "c4n4ry" in written.getvalue()


class Request(BaseModel):
    url: str
    headers: dict[str, Secret] = {}
    password: Secret | None = None


def test_what_is_stored_is_what_the_handler_gets() -> None:
    async def call(request: Request) -> None: ...

    async def send(to: str, key: Secret, keys: list[Secret]) -> None: ...

    request = Request(url="x", headers={"Authorization": SecretStr(CANARY)}, password=SecretStr(""))
    for task, values in (
        (spec(call), {"request": request}),
        (spec(send), {"to": "me", "key": SecretStr("é" * 100), "keys": [SecretStr("a"), SecretStr("b")]}),
    ):
        assert task.payload.has_secrets
        text = seal_payload(task.payload.encode(kwargs=values), MINE, task.name)
        assert "c4n4ry" not in text
        assert task.payload.decode(text, {"job": MINE}) == values
        assert seal_payload(task.payload.encode_json(text, {"job": MINE}), MINE, task.name) == text


def test_without_a_key_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(key: Secret) -> None: ...

    async def call(request: Request) -> None: ...

    schema = spec(send).payload
    stored = seal_payload(schema.encode(kwargs={"key": SecretStr(CANARY)}), MINE, "send")
    monkeypatch.setattr(secret, "_keys", ())
    monkeypatch.delenv("ROTA_SECRETS_KEY")
    with pytest.raises(PayloadError, match="ROTA_SECRETS_KEY") as refused:
        schema.encode(kwargs={"key": SecretStr(CANARY)})
    assert CANARY not in str(refused.value)
    with pytest.raises(PayloadError, match="no key is set"):
        schema.decode(stored, {"job": MINE})
    spec(call).payload.encode(kwargs={"request": Request(url="x")})  # nothing secret in it
    monkeypatch.setattr(secret, "_keys", ("o" * 40,))
    with pytest.raises(PayloadError, match=r"was encrypted with key \w+, and known are"):
        schema.decode(stored, {"job": MINE})


def test_keys_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(key: Secret) -> None: ...

    schema = spec(send).payload
    stored = seal_payload(schema.encode(kwargs={"key": SecretStr(CANARY)}), MINE, "send")
    monkeypatch.setattr(secret, "_keys", ())
    use_keys(f"{'n' * 40}, {KEY}")
    assert schema.decode(stored, {"job": MINE})["key"].get_secret_value() == CANARY
    assert seal_payload(schema.encode(kwargs={"key": SecretStr(CANARY)}), MINE, "send") != stored
    with pytest.raises(ConfigError, match="fewer than 32 characters"):
        use_keys("short")


def test_pydantics_own_type_is_refused() -> None:
    """It would be stored as stars: better said than found out."""

    async def send(key: SecretStr) -> None: ...

    with pytest.raises(PayloadError, match="would arrive as"):
        spec(send).payload.encode(kwargs={"key": SecretStr("abc")})


def test_plain_text_from_sql_is_taken_as_it_is() -> None:
    async def send(key: Secret) -> None: ...

    assert spec(send).payload.decode('{"key": "plain"}')["key"].get_secret_value() == "plain"
    for text in (f"{SEALED}nonsense", f"{SEALED}12345678:job:nonsense"):
        with pytest.raises(PayloadError):
            spec(send).payload.decode(f'{{"key": "{text}"}}', {"job": MINE})
