"""The rule by which two calendars are kept alike, over every state that an event of a pair can be in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest

from rota.apps.calendars.decision import decide
from rota.apps.calendars.model import Delete, Direction, Forget, Intent, Leave, Resource, Settle, State, Write, other

pytestmark = pytest.mark.req("Y03")

TEXTS = (None, "x", "y", "z")


def seen(digest: str | None, day: int = 1, sequence: int = 0) -> Resource | None:
    """What a side has."""
    at = datetime(2030, 1, day, tzinfo=UTC)
    return None if digest is None else Resource(f"{digest}.ics", "1", "u", digest, f"core {digest}", at, sequence)


def state(first: str | None, second: str | None, base: str | None = None, *intents: Intent) -> State:
    """An event: what each side says, and what both said when they were alike."""
    return State("u", seen(first), seen(second), base, base, intents)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (state("x", "x", "x"), Leave()),
        (state("x", None), Write("first")),
        (state(None, "x"), Write("second")),
        (state("x", "x"), Settle("x", "x")),
        (state("y", "x", "x"), Write("first")),
        (state("x", "y", "x"), Write("second")),
        (state(None, "x", "x"), Delete("second")),
        (state("x", None, "x"), Delete("first")),
        (state(None, None, "x"), Forget()),
        (state("y", "z", "x"), Write("first", "both_edited")),
        (state(None, "y", "x"), Write("second", "edit_over_deletion")),
        (state("y", None, "x"), Write("first", "edit_over_deletion")),
        (state("y", "y", "x"), Settle("y", "y")),
    ],
)
def test_both_ways(given: State, wanted: object) -> None:
    assert decide(given) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (state("x", None), Write("first")),
        (state(None, "x"), Leave()),
        (state("x", "y"), Write("first", "overruled")),
        (state("x", "y", "x"), Write("first", "overruled")),
        (state("x", None, "x"), Write("first")),
        (state(None, "x", "x"), Delete("second")),
        (state(None, "y", "x"), Delete("second", "overruled")),
        (state("y", "z", "x"), Write("first", "overruled")),
    ],
)
def test_one_way(given: State, wanted: object) -> None:
    assert decide(given, "to_second") == wanted


class TestNewest:
    @pytest.mark.parametrize(
        ("first", "second", "winner"),
        [((1, 0), (2, 0), "second"), ((2, 0), (1, 9), "first"), ((1, 0), (1, 1), "second"), ((1, 1), (1, 1), "first")],
    )
    def test_by_change_then_sequence_then_place(self, first: tuple[int, int], second: tuple[int, int], winner: str) -> None:
        given = State("u", seen("y", *first), seen("z", *second), "x", "x")
        assert decide(given) == Write(winner, "both_edited")  # type: ignore[arg-type]

    def test_one_that_does_not_say_is_older(self) -> None:
        silent = replace(seen("y"), stamped_at=None)  # type: ignore[type-var]
        assert decide(State("u", silent, seen("z"), "x", "x")) == Write("second", "both_edited")


class TestIntents:
    """We were about to do something, and died; the other side went on."""

    def test_what_we_wrote_is_no_edit_of_theirs(self) -> None:
        wrote = Intent("second", "y", "core y", "y")
        assert decide(state("z", "y", "x", wrote)) == Write("first"), "and no conflict that the older text could win"
        assert decide(state("y", "y", "x", wrote)) == Settle("y", "y")

    def test_also_where_the_server_has_rewritten_it(self) -> None:
        wrote = Intent("second", "y", "core y", "y")
        rewritten = replace(seen("y rewritten"), core="core y")  # type: ignore[type-var]
        given = State("u", seen("z"), rewritten, "x", "x", (wrote,))
        assert decide(given) == Write("first")
        assert decide(replace(given, first=seen("y"))) == Settle("y", "y rewritten")

    def test_what_we_created_goes_when_its_source_has_gone(self) -> None:
        assert decide(state(None, "y", None, Intent("second", "y", "core y", "y"))) == Delete("second")

    def test_what_we_deleted_does_not_come_back(self) -> None:
        gone = Intent("second", None, None, None)
        assert decide(state(None, None, "x", gone)) == Forget()
        assert decide(state("y", None, "x", gone)) == Write("first"), "it was made anew"

    def test_what_did_not_arrive_is_done_again(self) -> None:
        assert decide(state("y", "x", "x", Intent("second", "y", "core y", "y"))) == Write("first")

    def test_the_last_of_several_counts(self) -> None:
        old, new = Intent("second", "y", "core y", "y"), Intent("second", "z", "core z", "z")
        assert decide(state("z", "z", "x", old, new)) == Settle("z", "z")
        assert decide(state("z", "y", "x", old, new)) == Write("first")


@pytest.mark.parametrize("direction", ["both", "to_second", "to_first"])
def test_every_state_comes_to_rest(direction: Direction) -> None:
    """Whatever is known of an event, a few steps bring it in order, and no edit is dropped without being kept."""
    for first, second, base in product(TEXTS, repeat=3):
        now = state(first, second, base)
        for _ in range(4):
            action = decide(now, direction)
            match action:
                case Settle(one, two):
                    now = replace(now, base_first=one, base_second=two, intents=())
                case Write(source, kind):
                    loser = now.digest(other(source))
                    assert kind or loser in (None, now.base(other(source))), f"{now} loses {loser}"
                    same = now.at(source)
                    now = State("u", same, same, now.digest(source), now.digest(source))
                case Delete(side, kind):
                    assert kind or now.digest(side) == now.base(side)
                    now = replace(now, **{side: None})  # type: ignore[arg-type]
                case Forget():
                    now = state(None, None)
                    break
                case Leave():
                    break
        assert decide(now, direction) in (Leave(), Forget()), f"{first} {second} {base} does not come to rest"
        if direction == "both":
            assert now.digest("first") == now.digest("second")
