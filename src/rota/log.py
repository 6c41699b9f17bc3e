"""What is written to standard error: text on a terminal and in a local environment, else JSON; one line each, without secrets."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from rota.config import LogSettings
from rota.lean import structlog
from rota.model import redact as model
from rota.model.run import current_run

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger


LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_SAID_ELSEWHERE = ("event", "level", "at", "task", "job_id", "attempt", "correlation_id", "exc_info", "stack_info")

configured: LogSettings | None = None  # what this process logs by, for the processes it starts


def configure_logging(settings: LogSettings, stream: TextIO | None = None, *, env: str = "production") -> None:
    """Sends structlog and the standard library's loggers to one stream (standard error) in one format."""
    global configured
    stream = stream or sys.stderr
    on_terminal = stream.isatty()
    as_json = settings.format == "json" or (settings.format == "auto" and env != "local" and not on_terminal)
    configured = settings.model_copy(update={"format": "json" if as_json else "text"})
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    first: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _add_run,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json, key="at"),
    ]
    # Exceptions become text first: what they say is looked through like everything else.
    renderer = _json_renderer() if as_json else _text_renderer(colors=on_terminal)
    last: list[Processor] = [structlog.processors.format_exc_info, redact, *renderer]
    structlog.configure(
        processors=[*first, _capture, *last],
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
    """Hides values that are named like secrets, and secrets inside text."""
    clean: EventDict = model.redact(event)
    return clean


class Forwarding(threading.local):
    """Whether this thread is passing a line on that the book of its run has already."""

    now = False


forwarding = Forwarding()


def _add_run(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if (run := current_run.get()) is not None:
        event = {**run.identity, "component": "task", **event}
    return event


def _capture(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """What a handler says by structlog is kept with its run."""
    run = current_run.get()
    if run is not None and run.book is not None and not forwarding.now:
        fields = {name: value for name, value in event.items() if name not in _SAID_ELSEWHERE}
        if fields.get("component") == "task":
            del fields["component"]
        if event.get("exc_info"):
            fields |= exception_field(event["exc_info"])
        message = model.redact_text(str(event.get("event", "")))
        run.book.write(run, LEVELS.get(event.get("level", method), 20), message, model.redact(fields))
    return event


def exception_field(exc_info: Any) -> dict[str, Any]:
    """An exception as a field of a line: its traceback as text."""
    formatted = structlog.processors.format_exc_info(None, "", {"exc_info": exc_info})
    return {"exception": formatted["exception"]} if "exception" in formatted else {}


def _add_component(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["component"] = event["_record"].name
    return event


def _json_renderer() -> list[Processor]:
    def dump(event: EventDict, **_: Any) -> str:
        try:
            return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:  # an integer beyond 64 bits, a lone surrogate, a dict within itself: a log line never fails
            return orjson.dumps({name: repr(value) for name, value in event.items()}).decode()

    return [structlog.processors.JSONRenderer(dump)]


def _text_renderer(*, colors: bool) -> list[Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors=colors and "NO_COLOR" not in os.environ,
            timestamp_key="at",
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]
