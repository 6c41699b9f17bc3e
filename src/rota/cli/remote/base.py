"""What every part of the remote control plane stands on: requests, and answers read into the records that they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from rota.cli.remote.transport import Transport, path_of
from rota.errors import Unreachable

PREFIX = "/api/admin"
PAGE = 1000  # items that the server gives at most in one answer

Record = TypeVar("Record")

_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}  # one takes a while to make


class Remote:
    """A part of the control plane, over one server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _get(self, kind: type[Record], *path: object, query: Mapping[str, Any] | None = None) -> Record:
        """What is at a path."""
        return read(kind, self._transport.request("GET", PREFIX + path_of(*path), query=query))

    def _post(self, kind: type[Record], *path: object, body: Any = None) -> Record:
        """What comes of posting something."""
        return read(kind, self._transport.request("POST", PREFIX + path_of(*path), body=body))

    def _put(self, kind: type[Record], *path: object, body: Any) -> Record:
        return read(kind, self._transport.request("PUT", PREFIX + path_of(*path), body=body))

    def _patch(self, kind: type[Record], *path: object, body: Any) -> Record:
        return read(kind, self._transport.request("PATCH", PREFIX + path_of(*path), body=body))

    def _delete(self, kind: type[Record], *path: object, query: Mapping[str, Any] | None = None) -> Record:
        return read(kind, self._transport.request("DELETE", PREFIX + path_of(*path), query=query))

    def _page(self, kind: type[Record], *path: object, query: Mapping[str, Any]) -> tuple[list[Record], str | None]:
        """Some of a list, and where the next page begins."""
        document = self._transport.request("GET", PREFIX + path_of(*path), query=query)
        items = document.get("items") if isinstance(document, dict) else None
        return [read(kind, each) for each in read(list[Any], items)], read(str | None, document.get("next"))  # type: ignore[arg-type]

    def _all(self, kind: type[Record], *path: object, limit: int, query: Mapping[str, Any] | None = None) -> list[Record]:
        """So many of a list, page by page."""
        found: list[Record] = []
        cursor: str | None = None
        while True:
            wanted = {**(query or {}), "cursor": cursor, "limit": min(limit - len(found), PAGE)}
            items, cursor = self._page(kind, *path, query=wanted)
            found += items
            if cursor is None or len(found) >= limit:
                return found


def read(kind: type[Record], document: Any) -> Record:
    """A record as it was before it was sent."""
    try:
        found: Record = _adapter(kind).validate_python(document)
        return found
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise Unreachable(
            f"the server answers in a way that this version does not know ({where}): is it of the same version?"
        ) from error


def given(**values: Any) -> dict[str, Any]:
    """What is not None, for the body of a request."""
    return dict(_given(values))


def _given(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in values.items() if value is not None)


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
