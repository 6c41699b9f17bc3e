"""A search for jobs in one line: whatever is meant can be written, what is written is understood or refused where it is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidQuery
from rota.model.filters import JOB_STATES, JobFilter, PayloadMatch
from rota.model.job_query import MAX_CHARS, QUALIFIERS, parse_query

pytestmark = pytest.mark.req("A01")

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
paths = st.lists(words, min_size=1, max_size=3).map(tuple)
moments = st.one_of(
    st.integers(0, 10**6).map(lambda seconds: timedelta(seconds=seconds)),
    st.integers(0, 10**11).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)
filters = st.builds(
    JobFilter,
    states=st.lists(st.sampled_from(JOB_STATES), unique=True).map(tuple),
    task=st.none() | words,
    queue=st.none() | words,
    key=st.none() | words,
    text=st.none() | words,
    since=st.none() | moments,
    until=st.none() | moments,
    fingerprint=st.none() | words,
    owner=st.none() | words,
    payload=st.lists(st.builds(PayloadMatch, paths, words, st.just(True)), max_size=3).map(tuple),
)


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write(filter: JobFilter) -> str:
    terms = [f"state:{','.join(filter.states)}"] if filter.states else []
    names = {"task": "task", "queue": "queue", "key": "key", "text": "text", "owner": "owner", "fingerprint": "error"}
    terms += [f"{name}:{quote(getattr(filter, field))}" for field, name in names.items() if getattr(filter, field) is not None]
    for name in ("since", "until"):
        if (moment := getattr(filter, name)) is not None:
            terms.append(f"{name}:{moment.isoformat() if isinstance(moment, datetime) else f'{moment.total_seconds():.0f}s'}")
    terms += [f"payload.{'.'.join(map(quote, each.path))}:{quote(each.value)}" for each in filter.payload]
    return "  ".join(terms)


@given(filters)
def test_whatever_is_meant_can_be_written(filter: JobFilter) -> None:
    assert parse_query(write(filter)) == filter


@given(st.text(max_size=60) | st.text(st.sampled_from('abstk:."\\ payload,*?1-'), max_size=40))
def test_any_text_is_understood_or_refused_at_a_place_in_it(text: str) -> None:
    position = 0
    try:
        parse_query(text)
    except InvalidQuery as error:
        position = error.position
    assert 0 <= position <= len(text)


def test_it_reads_as_people_write() -> None:
    assert parse_query("state:failed task:send_* payload.user_id:42 since:1h connection reset") == JobFilter(
        states=("failed",),
        task="send_*",
        payload=(PayloadMatch(("user_id",), "42"),),
        since=timedelta(hours=1),
        text="connection reset",
    )
    assert parse_query("state:failed,canceled state:queued").states == ("failed", "canceled", "queued")
    assert parse_query("until:2026-02-22").until == datetime(2026, 2, 22, tzinfo=UTC)
    assert parse_query('payload."a.b".c:"x y"').payload == (PayloadMatch(("a.b", "c"), "x y", exact=True),)
    assert parse_query("  ") == JobFilter()


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("stat:failed", 0, "did you mean 'state'"),
        ("task:a state:lost", 7, "'lost' is not a state of jobs"),
        ("task:a task:b", 7, "given twice"),
        ("queue:", 6, "has no value"),
        ("queue: default", 6, "has no value"),
        ('task:"a', 5, "not closed"),
        ('a"b', 1, "quote within a word"),
        ("payload:1", 0, "payload needs a member"),
        ("since:yesterday", 0, "not a duration"),
        ("since:2026-13-01", 0, "not a time"),
        ('task:""', 0, "task is empty"),
        ("http://x", 0, "not a qualifier"),
        ("12:30", 0, "a colon stands in quotes"),
        ("text:a b", 0, "use one of them"),
        ("payload." + ".".join("a" * 21) + ":1", 0, "from 1 to 20 names"),
        ("x" * (MAX_CHARS + 1), MAX_CHARS, "at most"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, position: int, words: str) -> None:
    with pytest.raises(InvalidQuery, match=words) as caught:
        parse_query(text)
    assert caught.value.position == position


def test_every_qualifier_is_known() -> None:
    values = {"state": "failed", "since": "1h", "until": "1h"}
    for name in QUALIFIERS:
        assert parse_query(f"{name}:{values.get(name, 'x')}") != JobFilter()


def test_a_number_is_the_same_with_and_without_its_zeros() -> None:
    def writings(value: str, *, exact: bool = False) -> list[str]:
        return PayloadMatch(("n",), value, exact).writings

    assert writings("42") == ["42", "42.0"]
    assert writings("42.00") == ["42.00", "42"]
    assert writings("4.25") == ["4.25"]
    assert writings("42", exact=True) == ["42"]
    assert writings("abc") == ["abc"]
