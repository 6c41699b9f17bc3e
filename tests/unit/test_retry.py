"""When a failed job runs again."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import UsageError
from rota.model.retry import Retry

NO_JITTER = {"jitter": 0}


def delays(policy: Retry, attempts: int) -> list[float]:
    return [policy.delay(attempt, Random(1)).total_seconds() for attempt in range(1, attempts + 1)]


@pytest.mark.req("Q08")
def test_default_policy():
    assert delays(Retry(**NO_JITTER), 8) == [5, 10, 20, 40, 80, 160, 300, 300]
    assert Retry().max_attempts is None  # as many as otherwise


@pytest.mark.req("Q08")
def test_a_policy_in_minutes():
    sync = Retry(max_attempts=6, base="1m", cap="30m", **NO_JITTER)
    assert [seconds / 60 for seconds in delays(sync, 6)] == [1, 2, 4, 8, 16, 30]


@pytest.mark.req("Q08")
def test_jitter_comes_on_top_and_is_deterministic_under_a_given_source():
    policy = Retry(base=10, cap=10, jitter=1)
    assert policy.delay(1, Random(7)) == policy.delay(1, Random(7))
    spread = {policy.delay(1, Random(seed)).total_seconds() for seed in range(100)}
    assert len(spread) > 90
    assert all(10 <= seconds <= 11 for seconds in spread)


@pytest.mark.req("Q08")
@given(st.integers(1, 10_000), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e3), st.randoms(use_true_random=False))
def test_never_beyond_the_cap_and_its_jitter(attempt, base, cap, jitter, random):
    delay = Retry(base=base, cap=cap, jitter=jitter).delay(attempt, random).total_seconds()
    assert 0 <= delay <= cap + jitter + 1e-5


def test_it_survives_being_stored():
    policy = Retry(max_attempts=7, base="90s", cap="1h", jitter=0.5)
    assert Retry.from_json(policy.to_json()) == policy


def test_durations_are_read_when_it_is_made():
    assert Retry(base="1m").base == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_attempts": 0}, "max_attempts=0 is out of range: from 1 to 1000"),
        ({"max_attempts": 1001}, "max_attempts=1001 is out of range"),
        ({"max_attempts": True}, "max_attempts=True"),
        ({"max_attempts": 2.0}, "max_attempts=2.0"),
        ({"base": "soon"}, "retry.base='soon' is not a duration"),
        ({"cap": -1}, "retry.cap=-1 is out of range"),
        ({"jitter": None}, "retry.jitter=None is not a duration"),
    ],
)
def test_nonsense_is_refused(options, reason):
    with pytest.raises(UsageError, match=reason):
        Retry(**options)
