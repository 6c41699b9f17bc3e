"""The kinds of values that requests are made of: strict about what they are, bounded, and never what PostgreSQL cannot store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rota.errors import UsageError
from rota.model.duration import parse_duration
from rota.model.email import MAX_EMAIL, parse_email
from rota.model.filters import check_text
from rota.model.job_query import read_moment
from rota.model.payload import MAX_PAYLOAD_BYTES
from rota.server.other_names import documented, other_names, with_own_names

MAX_INT = 2**63 - 1


class Body(BaseModel):
    """The body of a request: nothing that is not known, nothing that is not a number in JSON."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    other_names: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.other_names = other_names(cls)

    @model_validator(mode="before")
    @classmethod
    def _read_other_names(cls, given: Any) -> Any:
        return with_own_names(given, cls.other_names)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler(schema)
        if cls.other_names:
            properties = handler.resolve_ref_schema(made)["properties"]
            properties.update(documented(properties, cls.other_names))
        return made


def _storable(text: str) -> str:
    try:
        check_text("it", text)
    except UsageError as error:
        raise ValueError("it has a character that cannot be stored: NUL, or half of a pair") from error
    return text


def _moment(value: Any) -> datetime | timedelta:
    if isinstance(value, datetime | timedelta):
        return value
    if not isinstance(value, str) or len(value) > 50:
        raise ValueError("write a time such as 2026-02-22T10:00:00Z, or 1h for an hour ago")
    return read_moment("it", value)


def _time(value: Any) -> datetime:
    if not isinstance(value, str) or len(value) > 50 or len(value) < 10:
        raise ValueError("write a time as text with its zone: 2026-02-22T10:00:00Z")
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("write a time as text with its zone: 2026-02-22T10:00:00Z") from None
    if at.tzinfo is None:
        raise ValueError("it has no zone: write 2026-02-22T10:00:00Z")
    if not 1971 <= at.year <= 9998:
        raise ValueError("it is out of range: in the years 1971 to 9998")
    return at.astimezone(UTC)


def _day(value: Any) -> date:
    if isinstance(value, str) and len(value) == 10:
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError("write a day as 2026-02-22")


def _duration(value: Any) -> timedelta:
    return parse_duration(value, name="it")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError('it must be a JSON object such as {"user_id": 7}')
    try:
        size = len(json.dumps(value, allow_nan=False, ensure_ascii=False).encode())
    except (ValueError, RecursionError):
        raise ValueError("it has NaN, an infinity, half of a pair of characters, or is nested too deep") from None
    if size > MAX_PAYLOAD_BYTES:
        raise ValueError(f"it has {size} bytes: at most {MAX_PAYLOAD_BYTES}")
    if _has_nul(value):
        raise ValueError("it has a NUL character, which cannot be stored")
    return value


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in key or _has_nul(each) for key, each in value.items())
    return isinstance(value, list) and any(map(_has_nul, value))


Text = Annotated[StrictStr, Field(min_length=1, max_length=500), AfterValidator(_storable)]
LongText = Annotated[StrictStr, Field(min_length=1, max_length=2000), AfterValidator(_storable)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=400), AfterValidator(_storable)]  # or task and key of a recurring row
Flag = StrictBool
Whole = Annotated[StrictInt, Field(ge=-MAX_INT, le=MAX_INT)]
Count = Annotated[StrictInt, Field(ge=1, le=MAX_INT)]
Number = Annotated[int, Field(ge=1, le=MAX_INT)]  # in a path or query, where everything is text
Time = Annotated[
    datetime,
    BeforeValidator(_time),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-02-22T10:00:00Z"]}),
]
Day = Annotated[date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date", "examples": ["2026-02-22"]})]
Moment = Annotated[
    datetime | timedelta,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "maxLength": 50, "examples": ["1h", "2026-02-22T10:00:00Z"]}),
]
Span = Annotated[
    timedelta,
    BeforeValidator(_duration),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "maxLength": 50}],
            "description": "Seconds, or text such as 30s, 5m, 1h30m.",
            "examples": ["5m"],
        }
    ),
]
Object = Annotated[dict[str, Any], BeforeValidator(_object)]
Email = Annotated[
    str,
    AfterValidator(parse_email),
    Field(max_length=MAX_EMAIL, examples=["ada@example.org"], json_schema_extra={"format": "email"}),
]
Who = Annotated[  # somebody's account
    UUID | Email,
    Field(union_mode="left_to_right"),
    WithJsonSchema(
        {"type": "string", "maxLength": MAX_EMAIL, "description": "Its number or address.", "examples": ["ada@example.org"]}
    ),
]
