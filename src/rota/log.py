"""What is written to standard error: text on a terminal, JSON elsewhere, one line each, without secrets."""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from rota.config import LogSettings
from rota.lean import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger


HIDDEN = "***"
# The names under which secrets travel, and the one place where they hide inside other text.
_SECRET_NAME = re.compile(r"passw|passphrase|pwd|secret|token|authorization|cookie|api_?key|private_?key|credential", re.I)
_URL_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):[^@/\s]+@")
_DEEPEST = 4

configured: LogSettings | None = None  # what this process logs by, for the processes it starts


def configure_logging(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Sends structlog and the standard library's loggers to one stream (standard error) in one format."""
    global configured
    configured = settings
    stream = stream or sys.stderr
    on_terminal = stream.isatty()
    as_json = settings.format == "json" or (settings.format == "auto" and not on_terminal)
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json, key="at"),
    ]
    last: list[Processor] = [redact, *(_json_renderer() if as_json else _text_renderer(colors=on_terminal))]
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*first, _add_component],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hides values that are named like secrets, and passwords inside URLs."""
    return {name: _redacted(name, value, _DEEPEST) for name, value in event.items()}


def _redacted(name: object, value: Any, deepest: int) -> Any:
    # Numbers are never hidden: a count of tokens is no token.
    if isinstance(value, str):
        if isinstance(name, str) and _SECRET_NAME.search(name):
            return HIDDEN
        return _URL_PASSWORD.sub(rf"\1:{HIDDEN}@", value) if "://" in value else value
    if isinstance(value, bytes) and isinstance(name, str) and _SECRET_NAME.search(name):
        return HIDDEN
    if deepest and isinstance(value, dict):
        return {key: _redacted(key, each, deepest - 1) for key, each in value.items()}
    if deepest and isinstance(value, list | tuple):
        return [_redacted(name, each, deepest - 1) for each in value]
    return value


def _add_component(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["component"] = event["_record"].name
    return event


def _json_renderer() -> list[Processor]:
    def dump(event: EventDict, **_: Any) -> str:
        try:
            return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:  # an integer beyond 64 bits, a lone surrogate, a dict within itself: a log line never fails
            return orjson.dumps({name: repr(value) for name, value in event.items()}).decode()

    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(dump)]


def _text_renderer(*, colors: bool) -> list[Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors=colors and "NO_COLOR" not in os.environ,
            timestamp_key="at",
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]
