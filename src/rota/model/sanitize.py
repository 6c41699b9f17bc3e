"""What handlers return, raise and say, made safe to store. Nothing here may fail: it would strand the job."""

from __future__ import annotations

import json
import re
import traceback
from typing import Any

from pydantic_core import to_json

from rota.errors import HandlerFailed

MAX_RESULT_BYTES = 64 * 1024
MAX_MESSAGE_CHARS = 8 * 1024
MAX_TRACEBACK_CHARS = 32 * 1024
MAX_CAUSES = 5
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # the escape, not the text of it


def clean_text(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Text that PostgreSQL can store: without NUL and lone surrogates, and bounded."""
    if "\x00" in text:
        text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def describe_error(error: BaseException) -> dict[str, Any]:
    """An exception as it is kept: type, message, traceback and what caused it."""
    described = _describe(error)
    causes: list[dict[str, Any]] = []
    seen = {id(error)}
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while cause is not None and id(cause) not in seen and len(causes) < MAX_CAUSES:
        seen.add(id(cause))
        causes.append(_describe(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    if causes:
        described["causes"] = causes
    return described


def _describe(error: BaseException) -> dict[str, Any]:
    if isinstance(error, HandlerFailed):
        return dict(error.described)
    try:
        message = str(error)
    except Exception as broken:
        message = f"(its message could not be read: {type(broken).__name__})"
    described = {"type": type(error).__name__, "message": clean_text(message)}
    if error.__traceback__ is not None:
        # The last lines are where it happened, so a long traceback loses its beginning.
        lines = "".join(traceback.format_tb(error.__traceback__, limit=-50))
        described["traceback"] = clean_text(lines[-MAX_TRACEBACK_CHARS:], MAX_TRACEBACK_CHARS)
    return described


def encode_result(value: Any) -> str:
    """A handler's result as JSON text; what JSON cannot hold is kept as its text, what is too long is only described."""
    try:
        # The strict way first: plain values, and NaN refused rather than turned into null.
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
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
