"""Payloads come back exactly as they went in, or are refused with the reason."""

from __future__ import annotations

import enum
import math
import re
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from rota.errors import PayloadError, UsageError
from rota.model.payload import MAX_PAYLOAD_BYTES, PayloadSchema

if TYPE_CHECKING:
    from rota.engine.context import Context


class Colour(enum.Enum):
    RED = "red"


class Level(enum.StrEnum):
    HIGH = "high"


class Line(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    number: int
    lines: list[Line] = []
    at: datetime | None = None


class SpecialOrder(Order):
    reason: str


@dataclass
class Point:
    x: int
    y: float


class Shape(TypedDict):
    points: list[tuple[int, int]]


def schema(handler: Any) -> PayloadSchema:
    return PayloadSchema.from_handler(handler)[0]


def welcome(user_id: int, lang: str = "en") -> None: ...
def anything(value: Any) -> None: ...
def place(order: Order) -> None: ...


WELCOME = schema(welcome)
ANYTHING = schema(anything)


def nest(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_it_works():
    assert WELCOME.encode((7,), {"lang": "de"}) == '{"user_id":7,"lang":"de"}'
    assert WELCOME.decode('{"user_id":7}') == {"user_id": 7}  # the handler's own default applies


def test_schema_says_what_fits():
    assert WELCOME.json_schema["required"] == ["user_id"]
    assert set(WELCOME.json_schema["properties"]) == {"user_id", "lang"}
    assert WELCOME.json_schema["additionalProperties"] is False


class TestSignature:
    def test_context_is_not_payload(self):
        def handler(ctx: Context, user_id: int) -> None: ...

        found, wants_context = PayloadSchema.from_handler(handler)
        assert wants_context
        assert found.encode((7,)) == '{"user_id":7}'

    def test_context_by_its_class(self):
        from rota.engine.context import Context as Real

        def handler(anything_you_like): ...

        handler.__annotations__ = {"anything_you_like": Real}
        assert PayloadSchema.from_handler(handler)[1]

    def test_classes_of_the_defining_function_are_found(self):
        class Local(BaseModel):
            name: str

        def handler(first: Local, second: Local) -> None: ...

        found = schema(handler)
        assert found.decode(found.encode((Local(name="a"), Local(name="b")))) == {
            "first": Local(name="a"),
            "second": Local(name="b"),
        }

    def test_return_annotation_is_not_looked_at(self):
        def handler(a: int) -> Nowhere: ...  # noqa: F821

        assert schema(handler).encode((1,)) == '{"a":1}'

    def test_without_annotation_anything_goes(self):
        def handler(a, b=2): ...

        assert schema(handler).encode(("x",), {"b": [1]}) == '{"a":"x","b":[1]}'

    def test_keyword_only(self):
        def handler(a: int, *, b: int) -> None: ...

        assert schema(handler).encode((1,), {"b": 2}) == '{"a":1,"b":2}'
        with pytest.raises(PayloadError, match=r"2 positional arguments given, it takes 1 \(a\)"):
            schema(handler).encode((1, 2))

    @pytest.mark.parametrize(
        ("handler", "reason"),
        [
            (lambda *args: None, r"\*args"),
            (lambda **options: None, r"\*\*options"),
            (lambda a, /: None, "positional-only a"),
        ],
    )
    def test_what_a_payload_cannot_name_is_refused(self, handler, reason):
        with pytest.raises(UsageError, match=reason):
            PayloadSchema.from_handler(handler, "t")

    def test_context_must_be_first(self):
        def handler(a: int, ctx: Context) -> None: ...

        with pytest.raises(UsageError, match="the context must be the first parameter, not ctx"):
            schema(handler)

    def test_unknown_annotation(self):
        def handler(a: Nowhere) -> None: ...  # noqa: F821

        with pytest.raises(UsageError, match="an annotation names 'Nowhere'"):
            schema(handler)

    @pytest.mark.parametrize("kind", [UsageError, list[UsageError], UsageError | None, type, Callable[[int], int], bytearray])
    def test_a_type_that_cannot_be_stored_is_explained(self, kind):
        def handler(number: int, thing: kind) -> None: ...

        with pytest.raises(
            UsageError, match=r"task handler: parameter thing has the type .*, which cannot be stored as JSON"
        ) as caught:
            schema(handler)
        assert "Supported are str, int, " in str(caught.value)
        assert "pass its id, and load it in the handler" in str(caught.value)
        assert not re.search("pydantic-core|arbitrary_types|errors.pydantic.dev|core_schema", str(caught.value))

    def test_a_model_that_is_incomplete_says_what_is_missing(self):
        class Cart(BaseModel):
            items: list[Item]  # noqa: F821

        def handler(number: int, cart: Cart) -> None: ...

        with pytest.raises(UsageError, match=r"the type of parameter cart, Cart, is incomplete: .*Item") as caught:
            schema(handler)
        assert "errors.pydantic.dev" not in str(caught.value)


class TestModel:
    def test_a_single_model_is_the_payload(self):
        found = schema(place)
        order = Order(number=1, lines=[Line(sku="a", count=2)], at=datetime(2024, 2, 29, tzinfo=UTC))
        text = found.encode((order,))
        assert text == '{"number":1,"lines":[{"sku":"a","count":2}],"at":"2024-02-29T00:00:00Z"}'
        assert found.decode(text) == {"order": order}
        assert found.encode((), {"order": order}) == text
        assert found.json_schema["required"] == ["number"]
        assert found.json_schema["additionalProperties"] is False

    def test_wrong_arguments(self):
        found = schema(place)
        with pytest.raises(PayloadError, match="place: order is missing, expected Order"):
            found.encode()
        with pytest.raises(PayloadError, match="place has no parameter ordr: did you mean 'order'"):
            found.encode((), {"ordr": Order(number=1)})
        with pytest.raises(PayloadError, match=r"place: order=\{'number': 1\} does not fit, expected Order"):
            found.encode(({"number": 1},))

    def test_a_subclass_would_lose_its_own_fields(self):
        with pytest.raises(PayloadError, match=r"place: order=SpecialOrder\(.*would arrive as Order\("):
            schema(place).encode((SpecialOrder(number=1, reason="x"),))

    def test_a_model_that_was_made_without_validation(self):
        with pytest.raises(PayloadError, match="number would not come back from JSON"):
            schema(place).encode((Order.model_construct(number="many"),))

    def test_a_model_that_refers_to_itself(self):
        class Tree(BaseModel):
            name: str
            children: list[Tree] = []

        def handler(tree: Tree) -> None: ...

        tree = Tree(name="a", children=[Tree(name="b")])
        assert schema(handler).decode(schema(handler).encode((tree,))) == {"tree": tree}
        assert schema(handler).json_schema["required"] == ["name"]

    def test_a_root_model_is_an_argument_like_others(self):
        class Names(RootModel[list[str]]): ...

        def handler(names: Names) -> None: ...

        assert schema(handler).encode((Names(["a"]),)) == '{"names":["a"]}'

    def test_aliases(self):
        class Aliased(BaseModel):
            from_: int = Field(alias="from")

        def handler(value: Aliased) -> None: ...

        value = Aliased(**{"from": 1})
        assert schema(handler).encode((value,)) == '{"from":1}'
        assert schema(handler).decode('{"from":1}') == {"value": value}


class TestWrongArguments:
    """Strict from Python, as the type checker would be."""

    @pytest.mark.parametrize(
        ("args", "kwargs", "reason"),
        [
            ((), {}, "welcome: user_id is missing, expected int"),
            (("7",), {}, "welcome: user_id='7' does not fit, expected int: Input should be a valid integer"),
            ((7.0,), {}, "welcome: user_id=7.0 does not fit, expected int"),
            ((True,), {}, "welcome: user_id=True does not fit, expected int"),
            ((None,), {}, "welcome: user_id=None does not fit, expected int"),
            ((7,), {"lang": 3}, "welcome: lang=3 does not fit, expected str"),
            ((), {"usr_id": 7}, "welcome has no parameter usr_id: did you mean 'user_id'?"),
            ((7,), {"colour": "red"}, "welcome has no parameter colour: it takes user_id, lang"),
            ((1, "de", 3), {}, r"welcome: 3 positional arguments given, it takes 2 \(user_id, lang\)"),
            ((7,), {"user_id": 8}, "welcome: user_id is given twice, by position and by name"),
        ],
    )
    def test_are_refused_by_name_value_and_type(self, args, kwargs, reason):
        with pytest.raises(PayloadError, match=reason):
            WELCOME.encode(args, kwargs)

    def test_nested_values_too(self):
        def handler(tags: list[int]) -> None: ...

        with pytest.raises(PayloadError, match=r"handler: tags\.1='2' does not fit, expected list\[int\]"):
            schema(handler).encode(([1, "2"],))

    def test_a_long_value_is_cut(self):
        with pytest.raises(PayloadError) as caught:
            WELCOME.encode(("x" * 100_000,))
        assert len(str(caught.value)) < 300


class TestJson:
    """Lenient from JSON, which has fewer types."""

    def test_values_are_converted(self):
        def handler(id: UUID, at: datetime, level: Level, price: Decimal, count: int) -> None: ...

        id = UUID(int=7)
        text = schema(handler).encode_json(
            {"id": str(id), "at": "2024-01-01T00:00:00Z", "level": "high", "price": "1.10", "count": "3"}
        )
        assert schema(handler).decode(text) == {
            "id": id,
            "at": datetime(2024, 1, 1, tzinfo=UTC),
            "level": Level.HIGH,
            "price": Decimal("1.10"),
            "count": 3,
        }

    @pytest.mark.parametrize(
        ("payload", "reason"),
        [
            ("{", "Invalid JSON"),
            ("[]", "should be an object"),
            ("null", "should be an object"),
            ({"user_id": "seven"}, "user_id='seven' does not fit, expected int"),
            ({"user_id": 7, "x": 1}, "welcome has no parameter x"),
            ({}, "user_id is missing"),
            ({"user_id": math.nan}, "the payload is not JSON"),
            ('{"user_id": 1e400}', "user_id=inf does not fit"),
            ('{"user_id": 7, "lang": "\\ud800"}', "Invalid JSON"),
            ('{"user_id": 7, "lang": "\\u0000"}', "NUL"),
            ("[" * 100_000, "recursion limit"),
            ({"user_id": object()}, "the payload is not JSON"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, payload, reason):
        with pytest.raises(PayloadError, match=reason):
            WELCOME.encode_json(payload)

    def test_a_number_too_large_for_a_float(self):
        with pytest.raises(PayloadError, match="inf"):
            ANYTHING.encode_json('{"value": 1e400}')

    def test_nested_too_deeply(self):
        with pytest.raises(PayloadError, match="nested too deeply"):
            ANYTHING.encode_json({"value": nest(100_000)})


@pytest.mark.fault(11)
class TestWhatCannotBeStored:
    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (math.nan, "value=nan"),
            (math.inf, "value=inf"),
            (-math.inf, "value=-inf"),
            ([1.0, {"a": math.nan}], r"value\[1\].a=nan"),
            ("a\0b", r"value='a\\x00b' has a NUL character"),
            ({"a\0": 1}, "has a NUL character"),
            ("\ud800", r"value='\\ud800' cannot be written as JSON"),
            ({"\udfff": 1}, "cannot be written as JSON"),
            (nest(300), "cannot be written|nested|would not come back"),
            (nest(100_000), "cannot be written|nested|would not come back"),
            ({1: 2}, r"value=\{1: 2\} \(dict\) would arrive as \{'1': 2\} \(dict\)"),
            ((1, 2), r"value=\(1, 2\) \(tuple\) would arrive as \[1, 2\] \(list\)"),
            ({"a": [(1,)]}, r"value\.a\[0\]=\(1,\) \(tuple\) would arrive as \[1\] \(list\)"),
            ({1, 2}, r"\(set\) would arrive as"),
            (b"abc", r"value=b'abc' \(bytes\) would arrive as 'YWJj' \(str\)"),
            (datetime(2024, 1, 1, tzinfo=UTC), r"\(datetime\) would arrive as '2024-01-01T00:00:00Z' \(str\)"),
            (Decimal("1.1"), r"\(Decimal\) would arrive as '1.1' \(str\)"),
            (Colour.RED, r"\(Colour\) would arrive as 'red' \(str\)"),
            (OrderedDict(a=1), r"\(OrderedDict\) would arrive as"),
            (namedtuple("Pair", "a b")(1, 2), r"\(Pair\) would arrive as \[1, 2\] \(list\)"),
            (Order(number=1), r"\(Order\) would arrive as \{'number': 1"),
            (object(), "cannot be written as JSON"),
            (10**5000, "would not come back|cannot be written"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_is_refused_with_the_reason(self, value, reason):
        with pytest.raises(PayloadError, match=reason):
            ANYTHING.encode((value,))

    def test_a_value_inside_itself(self):
        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises(PayloadError, match="cannot be written as JSON"):
            ANYTHING.encode((loop,))

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_no_float_that_json_lacks(self, value):
        def handler(ratio: float) -> None: ...

        with pytest.raises(PayloadError, match=f"ratio={value} does not fit, expected float: Input should be a finite"):
            schema(handler).encode((value,))

    def test_plain_text_is_looked_at_too(self):
        for bad in ("\0", "\ud800"):
            with pytest.raises(PayloadError, match="lang="):
                WELCOME.encode((7, bad))

    def test_an_int_that_a_float_would_round(self):
        def handler(ratio: float, more: Any = None) -> None: ...
        def plain(ratio: float) -> None: ...

        for found in (schema(handler), schema(plain)):
            assert found.encode((2**53,)) == '{"ratio":9007199254740992.0}'
            with pytest.raises(PayloadError, match=r"ratio=9007199254740993 would arrive as 9007199254740992\.0"):
                found.encode((2**53 + 1,))

    def test_size(self):
        room = MAX_PAYLOAD_BYTES - len('{"value":""}')
        assert len(ANYTHING.encode(("x" * room,))) == MAX_PAYLOAD_BYTES
        with pytest.raises(PayloadError, match="is 1048577 bytes, more than the 1048576 allowed: store the data elsewhere"):
            ANYTHING.encode(("x" * (room + 1),))
        with pytest.raises(PayloadError, match="more than the 1048576 allowed"):
            ANYTHING.encode(("ü" * (room // 2 + 1),))  # bytes, not characters
        with pytest.raises(PayloadError, match="more than the 1048576 allowed"):
            ANYTHING.encode(("x" * 10_000_000,))

    def test_not_every_backslash_is_a_nul(self):
        for value in ("\\u0000", "\\\\u0000", "\\", '"\\'):
            assert ANYTHING.decode(ANYTHING.encode((value,))) == {"value": value}


class TestTypes:
    """Types that JSON does not have survive where the signature names them."""

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (UUID, UUID(int=2**127)),
            (datetime, datetime(2024, 6, 1, 2, 30, 0, 123456, tzinfo=ZoneInfo("Europe/Berlin"))),
            (datetime, datetime(2024, 3, 31, 2, 30)),  # noqa: DTZ001
            (date, date(2024, 2, 29)),
            (time, time(12, 30, 0, 1)),
            (timedelta, timedelta(days=3, microseconds=1)),
            (Decimal, Decimal("0.10")),
            (bytes, b"\x00\xff\xfe"),
            (Colour, Colour.RED),
            (Level, Level.HIGH),
            (Literal["a", 1], 1),
            (int | str, "1"),
            (int | str | None, None),
            (float | int, 1),
            (UUID | str, "plain"),
            (tuple[int, str], (1, "a")),
            (set[int], {1, 2}),
            (frozenset[str], frozenset({"a"})),
            (dict[int, str], {1: "a"}),
            (dict[str, list[float]], {"a": [1.5]}),
            (list[Any], [1, "a", None, True, 1.5, {"a": []}]),
            (Point, Point(1, 2.0)),
            (Shape, {"points": [(1, 2)]}),
            (list[Line], [Line(sku="a")]),
            (Annotated[int, Field(gt=0)], 3),
            (str, "\x7f\u2028😀 é\t\n\r\\\"'"),
        ],
    )
    def test_come_back(self, annotation, value):
        def handler(value, other: Any = None): ...

        handler.__annotations__["value"] = annotation
        found = schema(handler)
        arrived = found.decode(found.encode((value,)))["value"]
        assert arrived == value
        assert type(arrived) is type(value)

    def test_a_time_that_a_zone_skips_keeps_its_instant(self):
        def handler(at: datetime) -> None: ...

        at = datetime(2024, 3, 31, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
        arrived = schema(handler).decode(schema(handler).encode((at,)))["at"]
        assert arrived.astimezone(UTC) == at.astimezone(UTC)

    def test_text_that_looks_like_a_uuid_is_refused_where_it_would_become_one(self):
        def handler(id: UUID | str) -> None: ...

        with pytest.raises(PayloadError, match=r"id='0000.*would arrive as UUID"):
            schema(handler).encode((str(UUID(int=1)),))

    def test_constraints_hold(self):
        def handler(count: Annotated[int, Field(gt=0)]) -> None: ...

        with pytest.raises(PayloadError, match=r"count=0 does not fit.*greater than 0"):
            schema(handler).encode((0,))

    def test_an_enum_member_for_a_str_arrives_as_its_value(self):
        assert WELCOME.decode(WELCOME.encode((7, Level.HIGH))) == {"user_id": 7, "lang": "high"}


def test_stored_payloads_that_no_longer_fit_are_refused():
    with pytest.raises(PayloadError, match="welcome: user_id is missing, expected int"):
        WELCOME.decode("{}")
    with pytest.raises(PayloadError, match="welcome has no parameter gone"):
        WELCOME.decode('{"user_id":7,"gone":1}')


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
trees = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=30)


def same(one: Any, other: Any) -> bool:
    """Equal in value and in every type, which `==` does not see: 1 == 1.0 == True."""
    return one == other and repr(one) == repr(other)


@given(trees)
@example(2**200)
@example(-(2**63) - 1)
@example(-0.0)
@example(5e-324)
@example(1.7976931348623157e308)
@example({"": {"": ""}})
def test_whatever_is_accepted_comes_back(value):
    assert same(ANYTHING.decode(ANYTHING.encode((value,)))["value"], value)
    assert same(ANYTHING.decode(ANYTHING.encode_json(ANYTHING.encode((value,))))["value"], value)


@given(st.integers(), texts, st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.uuids())
def test_plain_arguments_come_back(number, text, ratio, flag, id):
    def handler(number: int, text: str, ratio: float, flag: bool, id: UUID) -> None: ...

    found = schema(handler)
    sent = {"number": number, "text": text, "ratio": ratio, "flag": flag, "id": id}
    assert same(found.decode(found.encode((), sent)), sent)


anything_at_all = st.recursive(
    scalars
    | st.floats()
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.timezones())
    | st.decimals()
    | st.sampled_from(Colour),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text() | st.booleans(), inner)
        | st.frozensets(st.integers())
    ),
    max_leaves=10,
)


@given(anything_at_all)
def test_nothing_changes_unseen(value):
    try:
        text = ANYTHING.encode((value,))
    except PayloadError:
        return
    assert same(ANYTHING.decode(text)["value"], value)
