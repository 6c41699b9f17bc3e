"""Whether a value comes back from JSON as it went in."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

_UNION_OF = {int, str, float, bool, type(None)}
_SCALARS = {int, str, float, bool, type(None)}
_CONTAINERS = (dict, list, tuple, set, frozenset, BaseModel)
# An escape of NUL, and not a backslash followed by the letters.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def has_nul(text: str) -> bool:
    """Whether JSON text has the one character that PostgreSQL stores as an escape but fails on when it is looked at."""
    return "\\u0000" in text and _NUL.search(text) is not None


def is_plain(hint: Any) -> bool:
    """Whether every value of this type is known to survive, so that nobody need look."""
    if hint in _UNION_OF or hint is UUID or hint is None:
        return True
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return all(type(value) in _UNION_OF for value in typing.get_args(hint))
    # No UUID here: text that looks like one would come back as one.
    return origin in (typing.Union, types.UnionType) and all(part in _UNION_OF for part in typing.get_args(hint))


def difference(sent: Any, arrived: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """The first place where what arrived is not what was sent: its path and both values."""
    kind = type(sent)
    if kind in _SCALARS and kind is type(arrived):
        return None if sent == arrived else (where, sent, arrived)
    if isinstance(sent, _CONTAINERS) or dataclasses.is_dataclass(sent):
        if kind is not type(arrived):
            return where, sent, arrived
        return _difference_inside(sent, arrived, where)
    if isinstance(sent, datetime) and isinstance(arrived, datetime):
        # A zone arrives as its offset, and == is false for a time of day that a zone skips.
        same = sent.replace(tzinfo=None) == arrived.replace(tzinfo=None) and sent.utcoffset() == arrived.utcoffset()
        return None if same else (where, sent, arrived)
    # A str or int subclass (an enum member for a parameter that is a str) may arrive as the plain value it is equal to.
    same = isinstance(sent, type(arrived)) and bool(sent == arrived)
    return None if same else (where, sent, arrived)


def _difference_inside(sent: Any, arrived: Any, where: str) -> tuple[str, Any, Any] | None:
    if isinstance(sent, set | frozenset):
        # 1 and 1.0 are one member of a set, hence the types.
        same = {(type(item), item) for item in sent} == {(type(item), item) for item in arrived}
        return None if same else (where, sent, arrived)
    if isinstance(sent, list | tuple):
        if len(sent) != len(arrived):
            return where, sent, arrived
        pairs = ((f"{where}[{at}]", one, other) for at, (one, other) in enumerate(zip(sent, arrived, strict=True)))
    else:
        here, there = _items(sent), _items(arrived)
        if here.keys() != there.keys():
            return where, sent, arrived
        pairs = ((f"{where}.{key}", value, there[key]) for key, value in here.items())
    for place, one, other in pairs:
        if (found := difference(one, other, place)) is not None:
            return found
    return None


def _items(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def show(value: Any) -> str:
    """`repr`, short and never failing, for messages."""
    try:
        text = repr(value)
    except Exception as error:  # a user's own __repr__, an int of 5,000 digits, a list inside itself
        return f"<{type(value).__name__}: {error}>"
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
