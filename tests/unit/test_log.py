"""Logs: one format for all loggers, and no secret in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from rota.config import LogSettings
from rota.log import configure_logging, redact


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


@pytest.mark.req("O01")
def test_json_where_there_is_no_terminal(written: io.StringIO) -> None:
    configure_logging(LogSettings(), written)
    structlog.get_logger().info("sent", component="mail", user_id=7)
    logging.getLogger("shop.orders").warning("late by %d s", 5)
    ours, theirs = lines(written)
    assert ours == {"event": "sent", "component": "mail", "user_id": 7, "level": "info", "at": ours["at"]}
    assert theirs == {"event": "late by 5 s", "component": "shop.orders", "level": "warning", "at": theirs["at"]}
    assert ours["at"].endswith("Z")


@pytest.mark.req("O01", "T12")
def test_json_is_for_staging_and_production_and_text_for_local(written: io.StringIO) -> None:
    for env in ("staging", "production"):
        configure_logging(LogSettings(), written, env=env)
        structlog.get_logger().info("sent", env=env)
    assert [line["env"] for line in lines(written)] == ["staging", "production"]


@pytest.mark.req("O01", "T12")
@pytest.mark.parametrize("settings", [{"format": "text"}, {"env": "local"}], ids=["asked for", "local"])
def test_text_when_asked_for_or_local(written: io.StringIO, settings: dict[str, str]) -> None:
    configure_logging(LogSettings(format=settings.get("format", "auto")), written, env=settings.get("env", "production"))
    structlog.get_logger().info("sent", user_id=7)
    logging.getLogger("shop").error("broken")
    first, second = written.getvalue().splitlines()
    assert "sent" in first
    assert "user_id=7" in first
    assert "broken" in second
    assert "\x1b" not in written.getvalue()


def test_the_level_holds_for_both_kinds_of_loggers(written: io.StringIO) -> None:
    configure_logging(LogSettings(level="warning"), written)
    structlog.get_logger().info("quiet")
    logging.getLogger("shop").info("quiet")
    structlog.get_logger().warning("loud")
    logging.getLogger("shop").warning("loud")
    assert [line["event"] for line in lines(written)] == ["loud", "loud"]


def test_an_exception_stays_one_line_of_json(written: io.StringIO) -> None:
    configure_logging(LogSettings(), written)
    try:
        raise ValueError("no such user")
    except ValueError:
        structlog.get_logger().exception("failed")
        logging.getLogger("shop").exception("failed")
    for line in lines(written):
        assert line["exception"].endswith("ValueError: no such user")


@pytest.mark.fault(11)
@pytest.mark.parametrize("value", [2**70, "\ud800", float("nan"), b"\x00", object(), {1: {2: 3}}])
def test_no_value_breaks_a_line(written: io.StringIO, value: Any) -> None:
    configure_logging(LogSettings(), written)
    structlog.get_logger().info("odd", value=value)
    assert lines(written)[0]["event"].strip("'") == "odd"


@pytest.mark.req("O01")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x"}, {"password": "[redacted]"}),
        ({"smtp_passwd": "x", "Authorization": "Bearer x"}, {"smtp_passwd": "[redacted]", "Authorization": "[redacted]"}),
        ({"headers": {"Set-Cookie": "a=b"}, "api_key": b"k"}, {"headers": {"Set-Cookie": "[redacted]"}, "api_key": "[redacted]"}),
        ({"tokens": ["a", "b"]}, {"tokens": ["[redacted]", "[redacted]"]}),
        ({"token": 7, "passed": "yes"}, {"token": 7, "passed": "yes"}),
        ({"url": "postgresql://me:s3cret@db/x"}, {"url": "postgresql://me:[redacted]@db/x"}),
        ({"event": "cannot reach redis://:pw@host"}, {"event": "cannot reach redis://:[redacted]@host"}),
        ({"url": "https://example.org:8000/a@b"}, {"url": "https://example.org:8000/a@b"}),
    ],
)
def test_secrets_are_hidden(value: dict[str, Any], shown: dict[str, Any]) -> None:
    assert redact(None, "info", value) == shown
