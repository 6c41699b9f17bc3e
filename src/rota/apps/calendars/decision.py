"""What is to be done about an event: from what each side says, what both said when they were last alike, and what we meant to do.

Pure, and the whole rule:

- One side has changed: the other follows, also into deletion.
- Both have changed: the newest wins, by LAST-MODIFIED (else DTSTAMP), then by SEQUENCE, then the pair's first calendar. What loses
  is kept.
- One has deleted it and the other edited it: the edit wins.
- Where events go one way only, the source is always right.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from rota.apps.calendars.model import SIDES, Action, Delete, Direction, Forget, Leave, Resource, Settle, Side, State, Write, other

_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def decide(state: State, direction: Direction = "both") -> Action:
    """The one thing to do next about an event."""
    state = absorb(state)
    first, second = state.digest("first"), state.digest("second")
    if first is None and second is None:
        return Forget()
    changed = [side for side in SIDES if state.digest(side) != state.base(side)]
    if not changed:
        # Nothing is left to do but to write down that what we were about to do is done.
        return Settle(first, second) if state.intents else Leave()
    if first is not None and second is not None and (first == second or (_is_new(state) and _same_core(state))):
        return Settle(first, second)
    if direction != "both":
        return _one_way(state, "first" if direction == "to_second" else "second")
    if _is_new(state):
        if first is not None and second is not None:
            return Write(newest(state), "both_edited")
        return Write("first" if second is None else "second")
    if len(changed) == 1:
        [side] = changed
        return Delete(other(side)) if state.digest(side) is None else Write(side)
    if first is None or second is None:
        return Write("second" if first is None else "first", "edit_over_deletion")
    return Write(newest(state), "both_edited")


def _one_way(state: State, source: Side) -> Action:
    target = other(source)
    edited = state.digest(target) is not None and state.digest(target) != state.base(target)
    if state.digest(source) is not None:
        return Write(source, "overruled" if edited else None)
    if state.base(source) is None:
        return Forget() if state.intents else Leave()  # it is the target's own
    return Delete(target, "overruled" if edited else None)


def absorb(state: State) -> State:
    """The state with what we have done before a crash counted as done: a side that has what we meant to write was not edited.

    Without that, our own half-finished work would look like somebody's edit, and could win over a newer one; or a deletion on the
    other side like an event that is new on this one.
    """
    for intent in reversed(state.intents):  # the last one first
        side = intent.side
        resource = state.at(side)
        if intent.digest is None:
            done = resource is None and state.base(side) is not None
        else:
            done = (
                resource is not None
                and resource.digest != state.base(side)
                and (resource.digest == intent.digest or resource.core == intent.core)
            )
        if done:
            own = None if resource is None else resource.digest
            bases = {f"base_{side}": own, f"base_{other(side)}": None if intent.digest is None else intent.source}
            return replace(state, **bases)  # type: ignore[arg-type]
    return state


def newest(state: State) -> Side:
    """The side whose version is newer; the first, if neither is."""
    assert state.first is not None
    assert state.second is not None
    return "second" if _age(state.second) > _age(state.first) else "first"


def _age(resource: Resource) -> tuple[datetime, int]:
    return resource.stamped_at or _LONG_AGO, resource.sequence


def _is_new(state: State) -> bool:
    return state.base_first is None and state.base_second is None


def _same_core(state: State) -> bool:
    return state.first is not None and state.second is not None and state.first.core == state.second.core
