"""What is enqueued, when and how: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, get_args

from rota.model.job import OnParentFailure

POISON = ("exit_process", "segfault", "exit_child")
INNOCENT = ("wait", "sleep", "linger", "isolated", "silent")
PAYING = ("pay", "pay_in_thread")
SOLID_PARENTS = ("wait", "sleep")


@dataclass(frozen=True, slots=True)
class Order:
    """One job to be enqueued; `n` is its number in the payload and in its key."""

    n: int
    task: str
    arguments: dict[str, Any]
    after: tuple[int, ...] = ()  # the numbers of its parents, in the same delivery
    on_parent_failure: OnParentFailure = "cancel"

    @property
    def key(self) -> str:
        """Say what the job is for, as a client that may have to ask twice."""
        return f"order:{self.n}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """Jobs that are enqueued in one go, and the way it is done.

    one, many: through the application's pool, with keys; copy: without keys, so nobody may ask twice; sql: rota.enqueue();
    own: in a transaction of the caller's with a row of the caller's; later: as children of jobs of an earlier delivery.
    """

    at: float  # seconds from the beginning
    how: str
    orders: tuple[Order, ...]


def plan(seed: int, *, jobs: int, poison: int, seconds: float) -> list[Delivery]:
    """Spread `jobs` jobs over `seconds`."""
    rng = random.Random(f"load {seed}")
    numbers = count(1)
    poisons = [POISON[number % len(POISON)] for number in range(poison)]
    parcels = [("many", tuple(_poisoned(rng, numbers, task))) for task in poisons]
    total = sum(len(orders) for _, orders in parcels)
    while total < jobs:
        how, orders = _parcel(rng, numbers)
        parcels.append((how, tuple(orders)))
        total += len(orders)
    rng.shuffle(parcels)
    times = sorted(rng.uniform(0, seconds) for _ in parcels)
    return [Delivery(at, how, orders) for at, (how, orders) in zip(times, parcels, strict=True)]


def _parcel(rng: random.Random, numbers: Iterator[int]) -> tuple[str, list[Order]]:
    how = rng.choices(["one", "many", "copy", "sql", "own", "later", "family", "broken family"], [30, 14, 2, 10, 10, 6, 6, 1.5])[0]
    if how == "family":
        return "many", list(_family(rng, numbers))
    if how == "broken family":
        return "many", list(_broken_family(numbers))
    if how == "later":
        return how, [Order(next(numbers), "wait", _seconds(0.0, 0.2)(rng), on_parent_failure="ignore")]
    size = {"many": rng.randint(5, 40), "copy": rng.randint(60, 120)}.get(how, 1)
    return how, [_order(rng, next(numbers)) for _ in range(size)]


def _order(rng: random.Random, n: int) -> Order:
    task = rng.choices(list(_ARGUMENTS), [_ARGUMENTS[task][0] for task in _ARGUMENTS])[0]
    return Order(n, task, _ARGUMENTS[task][1](rng))


def _seconds(low: float, high: float) -> Callable[[random.Random], dict[str, Any]]:
    return lambda rng: {"seconds": round(rng.uniform(low, high), 3)}


_ARGUMENTS: dict[str, tuple[int, Callable[[random.Random], dict[str, Any]]]] = {
    "wait": (30, lambda rng: {"seconds": round(rng.expovariate(2.5), 3)}),
    "sleep": (14, lambda rng: {"seconds": round(rng.expovariate(2.5), 3)}),
    "linger": (8, _seconds(0.5, 2.5)),
    "isolated": (4, _seconds(0.01, 0.2)),
    "silent": (14, lambda _: {}),
    "flaky": (8, lambda rng: {"failures": rng.randint(1, 2)}),
    "hopeless": (2, lambda _: {}),
    "snoozing": (4, lambda rng: {"times": rng.randint(1, 2)}),
    "overdue": (1, lambda _: {}),
    "pay": (5, _seconds(0.0, 0.3)),
    "pay_in_thread": (4, _seconds(0.0, 1.5)),
}


def _poisoned(rng: random.Random, numbers: Iterator[int], poison: str) -> Iterator[Order]:
    """A poison job among innocents that are likely to run when it does."""
    for at in range(9):
        yield Order(next(numbers), poison, {}) if at == 4 else Order(next(numbers), "wait", _seconds(0.2, 0.8)(rng))


def _family(rng: random.Random, numbers: Iterator[int]) -> Iterator[Order]:
    """A parent, its children, and one that waits for them all."""
    parent = Order(next(numbers), rng.choice(SOLID_PARENTS), _seconds(0.01, 0.3)(rng))
    children = [
        Order(next(numbers), rng.choice(SOLID_PARENTS), _seconds(0.01, 0.2)(rng), (parent.n,)) for _ in range(rng.randint(1, 6))
    ]
    yield from (parent, *children)
    yield Order(next(numbers), "wait", _seconds(0.0, 0.1)(rng), tuple(child.n for child in children))


def _broken_family(numbers: Iterator[int]) -> Iterator[Order]:
    """A parent that fails, and children that take it differently."""
    parent = Order(next(numbers), "hopeless", {})
    yield parent
    for policy in get_args(OnParentFailure):
        yield Order(next(numbers), "wait", {"seconds": 0.01}, (parent.n,), policy)
