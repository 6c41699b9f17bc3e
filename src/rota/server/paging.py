"""Lists over HTTP: some of the items, and an opaque word for where the next page begins.

A cursor says after which item to go on, and not how many to pass over: rows that come and go in between make no item appear twice
or be left out. It is nothing but a place, so it is checked and not signed: whoever makes one up sees no more than by asking.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field

from rota.errors import InvalidCursor
from rota.model.capped import Capped
from rota.model.filters import check_text

MAX_LIMIT = 1000
MAX_CURSOR = 2000

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """Some of the items. A page can be short, even empty, and still have a next one: a search for rare ones ends after so many."""

    items: list[Item]
    next: str | None = Field(description="Where the next page begins: `cursor` of the next request. Null: there is none.")
    count: Capped | None = Field(
        default=None, description="How many there are in all, where that was asked for; with `capped` there are more than that."
    )


Limit = Annotated[
    int,
    AfterValidator(lambda limit: min(limit, MAX_LIMIT)),
    Field(ge=1, description=f"At most so many items; more than {MAX_LIMIT} are as {MAX_LIMIT}."),
]
CursorText = Annotated[
    str | None, Field(max_length=MAX_CURSOR, description="`next` of the page before; a page begins after its last item.")
]


def encode_cursor(kind: str, *place: UUID | datetime | int | str) -> str:
    """A place in a list of this kind as an opaque word."""
    values = [kind, *(value if isinstance(value, int) else _write(value) for value in place)]
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode().rstrip("=")


def next_cursor(kind: str, place: UUID | str | None) -> str | None:
    """The cursor for what a page says of where the next one begins; None where there is none."""
    return None if place is None else encode_cursor(kind, place)


def decode_id(kind: str, text: str | None) -> UUID | None:
    """The id that a cursor of this kind says; None for no cursor."""
    place = decode_cursor(kind, text, UUID)
    return place[0] if place else None


def decode_cursor(kind: str, text: str | None, *types: type) -> tuple[Any, ...] | None:
    """The place that a cursor of this kind says; None for no cursor. Anything else than what a list gave is refused."""
    if text is None:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found, *values = json.loads(raw)
        if found != kind or len(values) != len(types):
            raise ValueError(kind)
        place = tuple(_read(value, kind_of) for value, kind_of in zip(values, types, strict=True))
        if encode_cursor(kind, *place) != text:
            raise ValueError(text)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, binascii.Error):
        error = InvalidCursor(f"cursor is not one of this list: give `next` of a page of {kind}, or none to begin")
        error.field = "cursor"
        raise error from None
    return place


def _write(value: UUID | datetime | str) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


def _read(value: Any, kind: type) -> Any:
    if kind is int:
        if type(value) is not int or not -(2**63) <= value < 2**63:
            raise ValueError(value)
        return value
    if not isinstance(value, str):
        raise TypeError(value)
    if kind is UUID:
        return UUID(value)
    if kind is datetime:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            raise ValueError(value)
        return at
    check_text("cursor", value)
    return value
