"""Requests to a server of Rota: a connection each, nothing sent twice, and errors as they are without a network between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import rota
from rota.errors import AuthError, Conflict, DatabaseError, Forbidden, NotFound, RotaError, Unreachable, UsageError
from rota.model.filters import check_text

CONNECT_S = 10.0
ANSWER_S = 60.0

BY_STATUS: Mapping[int, type[RotaError]] = {
    400: UsageError,
    401: AuthError,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: UsageError,
    415: UsageError,
    422: UsageError,
    502: Unreachable,
    503: DatabaseError,
    504: Unreachable,
}


class Transport:
    """The way to one server, as who has the token."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = _check_url(url)
        self._token = _check_token(token)

    def request(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """What the server answers, read from JSON; None where it answers nothing."""
        target = self._url.path.rstrip("/") + path
        if query and (chosen := [(name, each) for name, value in query.items() for each in _texts(value)]):
            for name, text in chosen:
                check_text(name, text)
            target += "?" + urlencode(chosen)
        headers = {"Accept": "application/json", "User-Agent": f"rota/{rota.__version__}", "Connection": "close"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        content = None if body is None else json.dumps(body, default=_plain).encode()
        answer, data = self._exchange(method, target, content, headers)
        return self._read(answer, data)

    def _exchange(self, method: str, target: str, content: bytes | None, headers: dict[str, str]) -> tuple[HTTPResponse, bytes]:
        where = f"{self._url.scheme}://{self._url.netloc}"
        connection = self._connection()
        try:
            connection.connect()
        except OSError as error:
            raise Unreachable(f"{where} cannot be reached: {error.strerror or error}; check --url or ROTA_URL") from error
        try:
            connection.sock.settimeout(ANSWER_S)
            connection.request(method, target, content, headers)
            answer = connection.getresponse()
            return answer, answer.read()
        except (OSError, HTTPException) as error:
            why = f"no answer within {ANSWER_S:g} s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            doubt = "" if method == "GET" else ": it may have been done all the same, so look before you try again"
            raise Unreachable(f"the connection to {where} broke: {why}{doubt}") from error
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return HTTPConnection(host, port, timeout=CONNECT_S)
        import ssl

        return HTTPSConnection(host, port, timeout=CONNECT_S, context=ssl.create_default_context())

    def _read(self, answer: HTTPResponse, data: bytes) -> Any:
        if answer.status == 204 or (200 <= answer.status < 300 and not data):
            return None
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if 200 <= answer.status < 300 and document is not None:
            return document
        if isinstance(document, dict) and isinstance(document.get("code"), str):
            raise self._error(answer.status, document)
        kind = BY_STATUS.get(answer.status, Unreachable)
        if kind is NotFound:
            kind = Unreachable  # it is not our 404: there is something else at this address
        redirect = f", a redirect to {answer.getheader('location')}" if 300 <= answer.status < 400 else ""
        raise kind(
            f"{self._url.scheme}://{self._url.netloc}{self._url.path} does not answer as a server of Rota: "
            f"it says {answer.status}{redirect}; check --url or ROTA_URL"
        )

    def _error(self, status: int, problem: dict[str, Any]) -> RotaError:
        message = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
        fields = problem.get("errors")
        if isinstance(fields, list) and problem["code"] == "validation":
            shown = [f"{each.get('field')}: {each.get('detail')}" for each in fields if isinstance(each, dict)]
            message = f"the server does not take this: {'; '.join(shown)}"
        if status == 401:
            sent = "the server does not take this token" if self._token else "no token was sent"
            message += f" ({sent}: give one with --token or ROTA_TOKEN; `rota tokens create` makes one)"
        if status >= 500 and problem.get("request_id"):
            message += f" (request {problem['request_id']})"
        kind = _KINDS.get(problem["code"])
        if kind is None or (status >= 500 and not issubclass(kind, DatabaseError)):  # what is wrong there is not wrong here
            kind = BY_STATUS.get(status, RotaError)
        return kind(message)


def path_of(*parts: object) -> str:
    """A path of these parts, whatever characters they have."""
    for part in parts:
        check_text("name", str(part))
        if str(part) in (".", "..", ""):  # which would lead elsewhere, quoted or not
            raise NotFound(f"there is nothing that is called {str(part)!r}")
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def _check_url(url: str) -> SplitResult:
    advice = "write it as https://host or https://host/path"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"--url is not one: {error}; {advice}") from None
    if "@" in parts.netloc:
        raise UsageError(f"--url has a user or password in it: give the token with --token or ROTA_TOKEN; {advice}")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or not url.isascii() or " " in url:
        raise UsageError(f"--url={url!r} is not the address of a server: {advice}")
    return parts


def _check_token(token: str | None) -> str | None:
    token = token and token.strip()
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise UsageError("--token or ROTA_TOKEN is not a token: it has spaces, or characters that no token has")
    return token or None


def _texts(value: Any) -> list[str]:
    """How a value is written in a query: nothing for None, several times for a list."""
    if value is None:
        return []
    if isinstance(value, list | tuple | set | frozenset):
        return [_text(each) for each in value]
    return [_text(value)]


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return value.astimezone(UTC).isoformat()
        case timedelta():
            return f"{value.total_seconds():f}".rstrip("0").rstrip(".") + "s"
    return str(value)


def _plain(value: Any) -> Any:
    """How a value that JSON has not is written in a body."""
    return value.total_seconds() if isinstance(value, timedelta) else _text(value)


def _kinds(kind: type[RotaError]) -> Iterator[tuple[str, type[RotaError]]]:
    for each in kind.__subclasses__():
        # One that is made from more than words is as good as its parent here.
        yield each.code, kind if "__init__" in vars(each) else each
        yield from _kinds(each)


_KINDS = dict(_kinds(RotaError))
