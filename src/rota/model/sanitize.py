"""What handlers return, raise and say, made safe to store. Nothing here may fail: it would strand the job."""

from __future__ import annotations

import json
import os
import re
import traceback
from types import TracebackType
from typing import Any

from pydantic_core import to_json

from rota.errors import CallFailed, HandlerFailed
from rota.model.fingerprint import fingerprint
from rota.model.redact import redact_text

MAX_RESULT_BYTES = 64 * 1024
MAX_MESSAGE_CHARS = 8 * 1024
MAX_TRACEBACK_CHARS = 32 * 1024
MAX_CAUSES = 5  # of an error, and members of a group of them
MAX_DEPTH = 2  # of groups within groups
MEMBER_SHARE = 8  # a member of a group has so much less room than an error of its own
MAX_TYPE_CHARS = 200
_ENGINE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "engine", "")
_MODULES_UNSAID = ("builtins", "rota.errors", "__main__", "__mp_main__")
_STRICT = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))  # json.dumps would make one each time
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # the escape, not the text of it


def clean_text(text: str, limit: int = MAX_MESSAGE_CHARS, *, beyond: int = 0) -> str:
    """Text that PostgreSQL can store: without NUL and lone surrogates, and bounded; `beyond` more characters are cut already."""
    if "\x00" in text:
        text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-8", "replace").decode("utf-8")
    more = len(text) + beyond - limit
    return text if more <= 0 else f"{text[:limit]}… ({more} more characters)"


def describe_error(error: BaseException) -> dict[str, Any]:
    """An exception as it is kept, without secrets: type, message, traceback, what caused it, and what it is grouped by."""
    if isinstance(error, HandlerFailed):
        return dict(error.described)  # another process has done all of this
    try:
        return _describe_whole(error)
    except Exception as broken:  # an exception class can do anything when it is looked at
        return {"type": type(error).__name__, "message": f"(it could not be described: {type(broken).__name__})"}


def _describe_whole(error: BaseException) -> dict[str, Any]:
    described = _describe(error, MAX_DEPTH)
    causes: list[dict[str, Any]] = []
    seen = {id(error)}
    cause = _cause_of(error)
    while cause is not None and id(cause) not in seen and len(causes) < MAX_CAUSES:
        seen.add(id(cause))
        causes.append(_describe(cause, 0))
        cause = _cause_of(cause)
    if causes:
        described["causes"] = causes
    if (group := fingerprint(error)) is not None:
        described["fingerprint"] = group
    return described


def _cause_of(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _describe(error: BaseException, depth: int, share: int = 1) -> dict[str, Any]:
    if isinstance(error, HandlerFailed):
        return dict(error.described)
    kind = type(error)
    try:
        message = str(error)
    except Exception as broken:
        message = f"(its message could not be read: {type(broken).__name__})"
    described: dict[str, Any] = {
        "type": clean_text(kind.__name__, MAX_TYPE_CHARS),
        "message": _clean(message, MAX_MESSAGE_CHARS // share),
    }
    if isinstance(kind.__module__, str) and kind.__module__ not in _MODULES_UNSAID:
        described["module"] = clean_text(kind.__module__, MAX_TYPE_CHARS)
    if isinstance(error, CallFailed):
        described["call"] = error.call  # made safe by who made the call
        if error.retry_after_s is not None:
            described["retry_after_s"] = error.retry_after_s
    elif error.__traceback__ is not None:
        # The last lines are where it happened, so a long traceback loses its beginning.
        lines = "".join(traceback.format_tb(_from_handler(error.__traceback__), limit=-50))[-4 * MAX_TRACEBACK_CHARS :]
        room = MAX_TRACEBACK_CHARS // share
        described["traceback"] = clean_text(redact_text(lines)[-room:], room)
    if isinstance(error, BaseExceptionGroup) and depth:
        described["errors"] = [_describe(each, depth - 1, MEMBER_SHARE) for each in error.exceptions[:MAX_CAUSES]]
    return described


def _from_handler(trace: TracebackType) -> TracebackType:
    """The part of a traceback that begins with the handler: how the engine came to call it says nothing about the error."""
    step: TracebackType | None = trace
    while step is not None and step.tb_frame.f_code.co_filename.startswith(_ENGINE):
        step = step.tb_next
    return step or trace


def _clean(text: str, limit: int) -> str:
    # Cut far beyond the limit first, so that half a secret at the cut, which nothing would know, is not kept.
    return clean_text(redact_text(text[: 8 * limit]), limit, beyond=max(len(text) - 8 * limit, 0))


def encode_result(value: Any) -> str:
    """A handler's result as JSON text; what JSON cannot hold is kept as its text, what is too long is only described."""
    try:
        # The strict way first: plain values, and NaN refused rather than turned into null.
        text = _STRICT.encode(value)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        text = _encode_loosely(value)
    if "\\u0000" in text:
        text = _NUL.sub("\\1\N{REPLACEMENT CHARACTER}", text)
    size = len(text.encode("utf-8"))
    if size > MAX_RESULT_BYTES:
        return json.dumps({"truncated": True, "bytes": size, "head": clean_text(text, 1000)})
    return text


def _encode_loosely(value: Any) -> str:
    try:
        return to_json(value, fallback=repr, inf_nan_mode="strings", serialize_unknown=True).decode()
    except Exception:
        try:
            return json.dumps(clean_text(repr(value)))
        except Exception:
            return json.dumps(f"(a {type(value).__name__} that could not be stored)")
