"""The loggers of handlers: `ctx.log`, and the ears for what they say by other loggers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rota.lean import structlog
from rota.log import LEVELS, exception_field, forwarding
from rota.model.redact import redact, redact_text, secrets_known
from rota.model.roundtrip import show
from rota.model.run import Run, current_run

_nothing: AbstractContextManager[None] = nullcontext()


class RunLogger:
    """`ctx.log`: to the process log at once, and into the database with the run."""

    __slots__ = ("_fields", "_inner", "_run")

    def __init__(self, run: Run, inner: Any = None, fields: Mapping[str, Any] | None = None) -> None:
        self._run = run
        self._inner = inner or structlog.get_logger("rota.task").bind(component="task", **run.identity)
        self._fields = fields or {}

    def bind(self, **fields: Any) -> RunLogger:
        """A logger that says these fields in each line."""
        fields = _clean(self._run, fields)
        return RunLogger(self._run, self._inner.bind(**fields), {**self._fields, **fields})

    def unbind(self, *names: str) -> RunLogger:
        """A logger that no longer says these fields."""
        kept = {name: value for name, value in self._fields.items() if name not in names}
        return RunLogger(self._run, self._inner.try_unbind(*(name for name in names if name in self._fields)), kept)

    def debug(self, event: object, /, *args: Any, **fields: Any) -> None:
        """Says what only who looks into it wants to know."""
        self._say("debug", event, args, fields)

    def info(self, event: object, /, *args: Any, **fields: Any) -> None:
        """Says what happens."""
        self._say("info", event, args, fields)

    def warning(self, event: object, /, *args: Any, **fields: Any) -> None:
        """Says what should not happen."""
        self._say("warning", event, args, fields)

    def error(self, event: object, /, *args: Any, **fields: Any) -> None:
        """Says what went wrong."""
        self._say("error", event, args, fields)

    def critical(self, event: object, /, *args: Any, **fields: Any) -> None:
        """Says what went so wrong that somebody must look now."""
        self._say("critical", event, args, fields)

    def exception(self, event: object, /, *args: Any, **fields: Any) -> None:
        """Says what went wrong, with the exception that is being handled."""
        self._say("error", event, args, {"exc_info": True, **fields})

    def log(self, level: int | str, event: object, /, *args: Any, **fields: Any) -> None:
        """Says something at a level that is given by name, or by its number in the standard library."""
        number = LEVELS.get(level.lower(), 20) if isinstance(level, str) else level
        name = max((each for each in LEVELS if LEVELS[each] <= number), key=LEVELS.__getitem__, default="debug")
        self._say(name, event, args, fields)

    def _say(self, level: str, event: object, args: tuple[Any, ...], fields: dict[str, Any]) -> None:
        run = self._run
        try:
            message = str(event) % args if args else str(event)
        except Exception:  # a handler does not fail by what it says
            message = f"{show(event)} {show(args)}"
        if exc_info := fields.pop("exc_info", None):
            fields |= exception_field(exc_info)
        with _secrets_of(run):
            message, fields = redact_text(message), redact(fields)
        if run.book is not None:
            run.book.write(run, LEVELS[level], message, {**self._fields, **fields} if self._fields else fields)
        forwarding.now = True
        try:
            getattr(self._inner, level)(message, **fields)
        except Exception as error:
            logging.getLogger("rota.log").warning("a line of %s could not be written: %r", run.task, error)
        finally:
            forwarding.now = False


def _clean(run: Run, fields: dict[str, Any]) -> dict[str, Any]:
    with _secrets_of(run):
        return redact(fields)  # type: ignore[no-any-return]


def _secrets_of(run: Run) -> AbstractContextManager[None]:
    # They are known in the run's own context; this may be a thread that the handler has started by itself.
    return secrets_known(run.secrets) if run.secrets else _nothing


class Capture(logging.Handler):
    """What a handler says by the standard library's loggers is kept with its run."""

    # What every record has; whatever else there is, somebody gave as `extra`.
    _USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def emit(self, record: logging.LogRecord) -> None:
        run = current_run.get()
        # One pair of ears is enough where several workers share a process.
        if run is None or run.book is None or forwarding.now or _first_ears() is not self:
            return
        try:
            message = record.getMessage()
        except Exception:  # logging's own complaint about it goes to standard error
            message = f"{show(record.msg)} {show(record.args)}"
        fields = {name: value for name, value in vars(record).items() if name not in self._USUAL}
        if record.exc_info:
            fields |= exception_field(record.exc_info)
        run.book.write(run, record.levelno, redact_text(message), redact({"logger": record.name, **fields}))


def _first_ears() -> logging.Handler | None:
    return next((handler for handler in logging.getLogger().handlers if isinstance(handler, Capture)), None)


@contextmanager
def listening() -> Iterator[None]:
    """Hears the standard library's loggers within the block, however many workers of a process do so at once."""
    root = logging.getLogger()
    ears = Capture()
    root.addHandler(ears)
    try:
        yield
    finally:
        root.removeHandler(ears)
