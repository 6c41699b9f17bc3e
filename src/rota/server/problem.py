"""Every error over HTTP: one form (`application/problem+json`), a stable code, and all of the words in one place."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from psycopg_pool import PoolClosed, PoolTimeout
from pydantic_core import PydanticSerializationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rota.db.connection import is_disconnect
from rota.db.failures import not_migrated
from rota.errors import AuthError, ConfigError, DatabaseError, NotMigrated, RateLimited, RotaError
from rota.model.redact import redact_text
from rota.server.scope import REQUEST_ID

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
MAX_DETAIL = 2000
MAX_ERRORS = 50

log = logging.getLogger("rota.server")

# What a status means where nothing more is known. The codes are part of the interface: clients decide by them.
CODES: Mapping[int, tuple[str, str]] = {
    400: ("bad_request", "the request cannot be read"),
    401: ("auth", "sign in first: by a link, whose page sets a cookie, or with a bearer token"),
    403: ("forbidden", "this is not allowed for who is signed in"),
    404: ("not_found", "there is nothing here"),
    405: ("method_not_allowed", "this address does not know that method; the header Allow names those it does"),
    406: ("not_acceptable", "this address has no such form of an answer"),
    408: ("request_timeout", "the request did not arrive in time"),
    409: ("conflict", "what is there already forbids it: `detail` says what, and what to do"),
    410: ("gone", "it was here and is no more"),
    411: ("length_required", "say how long the body is, with Content-Length"),
    412: ("stale", "it has been changed meanwhile: look at it again, and send its new ETag in If-Match"),
    413: ("too_large", "the request is longer than this server takes"),
    415: ("media_type", "the body must be JSON, with `Content-Type: application/json`"),
    422: ("validation", "the request does not fit: `errors` says where"),
    428: ("precondition_required", "send the ETag of what is to be changed in If-Match"),
    429: ("rate_limited", "too many requests: wait as long as Retry-After says"),
    500: ("internal", "something went wrong here; the server's log has it under the request_id"),
    503: ("unavailable", "this cannot be answered now: try again in a moment"),
}
AWAY = "the database cannot be reached now: try again in a moment"
TOO_SLOW = "the database took too long to answer this: ask for less, with a narrower filter or a smaller limit"
LOCKED = "somebody else is changing the same thing: try again in a moment"
NOT_SET_UP = "this server is not set up for that: its log says which setting is missing"
FASTAPIS_OWN = "There was an error parsing the body"  # for which we have our own words
BAD_TEXT = "text with NUL characters or lone surrogates cannot be stored"


def problem(
    status: int,
    code: str | None = None,
    detail: str | None = None,
    *,
    request_id: str | None = None,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer that says what is wrong."""
    usual_code, usual_detail = CODES.get(status, ("error", "this cannot be done"))
    code = code or usual_code
    body: dict[str, Any] = {
        "type": f"urn:rota:problem:{code}",
        "title": _title(status),
        "status": status,
        "code": code,
        "detail": _clean(detail) if detail else usual_detail,
        "request_id": request_id,
    }
    if errors:
        body["errors"] = list(errors)
    answer = Response(json.dumps(body).encode(), status, dict(headers or {}), MEDIA_TYPE)
    if status == 503:
        answer.headers.setdefault("retry-after", str(RETRY_AFTER_S))
    return answer


def of_error(error: Exception, request_id: str | None = None) -> Response:
    """The answer that an error becomes: the one place where errors are mapped to HTTP."""
    if isinstance(error, RotaError):
        return _of_ours(error, request_id)
    if isinstance(error, psycopg.Error) and (missing := not_migrated(error)) is not None:
        return _of_ours(missing.with_traceback(error.__traceback__), request_id)
    if isinstance(error, psycopg.errors.QueryCanceled):
        return problem(503, "too_slow", TOO_SLOW, request_id=request_id)
    if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure):
        return problem(503, "locked", LOCKED, request_id=request_id)
    if is_disconnect(error) or isinstance(error, PoolTimeout | PoolClosed):
        log.warning("a request lost the database: %s", error)
        return problem(503, DatabaseError.code, AWAY, request_id=request_id)
    if isinstance(error, psycopg.DataError | UnicodeError | PydanticSerializationError) and _is_input(
        error
    ):  # what got past the checks: NUL, a lone surrogate, a number too long
        return problem(422, "validation", BAD_TEXT if _is_bad_text(error) else None, request_id=request_id)
    if isinstance(error, HTTPException):
        detail = None if error.detail in (_title(error.status_code), FASTAPIS_OWN) else error.detail
        return problem(error.status_code, None, detail, request_id=request_id, headers=error.headers)
    if isinstance(error, RequestValidationError):
        return problem(422, request_id=request_id, errors=_fields(error))
    return unexpected(error, request_id)


def _of_ours(error: RotaError, request_id: str | None) -> Response:
    if isinstance(error, NotMigrated):
        log.error("a request needs what the database lacks: %s", error, exc_info=error)  # or it is a mistake in its SQL
        return problem(503, error.code, str(error), request_id=request_id)
    if isinstance(error, DatabaseError):
        # What the driver says names hosts and users, which are nobody's business.
        log.warning("a request found no database: %s", error)
        return problem(503, error.code, AWAY, request_id=request_id)
    if error.http_status == 500:
        if not isinstance(error, ConfigError):
            return unexpected(error, request_id)
        log.error("a request needs what is not set up: %s", error)
        return problem(500, error.code, NOT_SET_UP, request_id=request_id)
    headers, errors, words = {}, [], redact_text(str(error))
    if isinstance(error, RateLimited):
        headers["retry-after"] = str(math.ceil(max(1, error.retry_after_s)))
    elif error.http_status == 401:
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, AuthError):
        words = str(error)  # which tells how to sign in, and looks like a secret for that
    if error.field is not None:
        errors.append({"field": error.field, "code": error.code, "detail": _clean(words)})
    return problem(error.http_status, error.code, words, request_id=request_id, errors=errors, headers=headers)


def unexpected(error: Exception, request_id: str | None = None) -> Response:
    """The answer to an error of ours: nothing of it is said, all of it is logged."""
    log.error("a request failed", exc_info=error)
    return problem(500, request_id=request_id)


def install(asgi: FastAPI) -> None:
    """Lets every error of a route, and of the router itself, be answered as a problem."""

    async def answer(request: Request, error: Exception) -> Response:
        return of_error(error, request.scope.get(REQUEST_ID))

    for kind in (
        RotaError,
        psycopg.Error,
        PoolTimeout,
        PoolClosed,
        UnicodeError,
        PydanticSerializationError,
        HTTPException,
        RequestValidationError,
    ):
        asgi.add_exception_handler(kind, answer)


def _fields(error: RequestValidationError) -> list[dict[str, Any]]:
    """Which fields, and what is wrong with them; never what was sent, which may be secret."""
    return [
        {"field": ".".join(_clean(str(part))[:100] for part in each["loc"]), "code": each["type"], "detail": _clean(each["msg"])}
        for each in error.errors()[:MAX_ERRORS]
    ]


def _clean(text: str) -> str:
    whole = text.encode("utf-8", "backslashreplace").decode()
    return whole if len(whole) <= MAX_DETAIL else whole[: MAX_DETAIL - 1] + "…"


def _is_input(error: Exception) -> bool:
    return not isinstance(error, PydanticSerializationError) or "surrogates" in str(
        error
    )  # what was sent, and is to be shown again


def _is_bad_text(error: Exception) -> bool:
    return not isinstance(error, psycopg.DataError) or any(sign in str(error) for sign in ("NUL", "0x00", "\\u0000"))


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
