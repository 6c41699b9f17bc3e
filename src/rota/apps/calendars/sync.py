"""One synchronisation of a pair: look at both sides, decide, do it, write it down; safe to be killed anywhere and begun again.

Looking and doing are apart. The cursor is moved only when everything before it is written down, so nothing that a server has told
is told in vain. What is to be done follows from what is written down alone (`decision`). Before a calendar is touched, the intent
is written down; it is touched under the condition that it is still as it was seen; and then what was done is written down. Whoever
comes after a crash sees what is there, finds the intent, and knows its own work again.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.apps.calendars.connectors import Calendar, Fetched
from rota.apps.calendars.decision import decide
from rota.apps.calendars.errors import Broken, CalendarError, Changed, NotACalendar, Refused, TooManyGone, Unsettled
from rota.apps.calendars.ical import Facts, Found, read_facts, single
from rota.apps.calendars.ledger import Ledger
from rota.apps.calendars.model import (
    SIDES,
    Delete,
    Direction,
    Forget,
    Intent,
    Report,
    Resource,
    Settle,
    Side,
    State,
    Window,
    Write,
    other,
)  # fmt: skip

FETCHED_AT_ONCE = 100
CHUNK = 40  # events that are planned, done and written down together
AT_ONCE = 4  # requests that change a calendar
PASSES = 6  # of looking for what is not in order; more only if somebody edits as fast as we write
MOST_KEPT = 16 * 1024 * 1024  # characters of texts that are kept for the doing
FEW = 20  # events that may vanish at once from a list whatever their share

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@.-]{0,120}")


@dataclass(slots=True)
class _Deed:
    """Something that is to be done to a calendar, and what became of it."""

    state: State
    action: Write | Delete
    found: Found | None = None  # the text that is written
    facts: Facts | None = None
    done: Resource | None = None  # as it is now; for a deletion as it was
    trouble: CalendarError | None = None

    @property
    def side(self) -> Side:
        """The calendar that is touched."""
        return self.action.side if isinstance(self.action, Delete) else other(self.action.source)


@dataclass(slots=True)
class Sync:
    """A synchronisation of two open calendars by the books of their pair."""

    ledger: Ledger
    calendars: Mapping[Side, Calendar]
    cursors: Mapping[Side, str | None]
    window: Window
    direction: Direction = "both"
    allow_deletions: bool = False
    tell: Callable[[int, int], None] | None = None
    report: Report = field(default_factory=Report)
    _texts: dict[tuple[Side, str], Fetched] = field(default_factory=dict)
    _kept: int = 0
    _left: dict[str, str] = field(default_factory=dict)  # events that cannot be brought in order, and why
    _again: set[Side] = field(default_factory=set)

    async def run(self) -> Report:
        """Brings the two calendars in order. What has been done before an error is written down, and is not done again."""
        for side in SIDES:
            await self._look(side, self.cursors[side])
        self._check_writable()
        for _ in range(PASSES):
            uids = await self.ledger.dirty(self.window, self.direction, self._left)
            if not uids:
                break
            for at in range(0, len(uids), CHUNK):
                await self._settle(uids[at : at + CHUNK])
                if self.tell is not None:
                    self.tell(min(at + CHUNK, len(uids)), len(uids))
            for side in tuple(self._again):
                self._again.discard(side)
                await self._look(side, None)
        else:
            if uids := await self.ledger.dirty(self.window, self.direction, self._left):
                raise Unsettled(f"{len(uids)} events were changed by somebody else as fast as they were synchronised")
        self.report.problems += [f"{side} {href}: {problem}" for side, href, problem in await self.ledger.problems()]
        self.report.problems += [f"{uid}: {problem}" for uid, problem in self._left.items()]
        return self.report

    def _check_writable(self) -> None:
        wanted = {"both": SIDES, "to_second": ("second",), "to_first": ("first",)}[self.direction]
        for side in wanted:
            if not self.calendars[side].writable:
                raise NotACalendar(
                    f"{self.calendars[side].shown}, the {side} calendar, cannot be written: "
                    f"let events go {'to_first' if side == 'second' else 'to_second'} only"
                )

    async def _look(self, side: Side, cursor: str | None) -> None:
        """Writes down what has changed on a side."""
        calendar = self.calendars[side]
        known = await self.ledger.known(side)
        changes = await calendar.changes(cursor, known)
        if changes.full:
            self.report.full.append(side)
            self._check_gone(side, len(changes.gone), len(known))
        wanted = [href for href, etag in changes.changed.items() if not etag or known.get(href) != etag]
        gone = set(changes.gone)
        for at in range(0, len(wanted), FETCHED_AT_ONCE):
            batch = wanted[at : at + FETCHED_AT_ONCE]
            fetched = await calendar.fetch(batch)
            # A server that tells no etag with the text has told it in its list.
            fetched = {href: Fetched(each.etag or changes.changed[href], each.text) for href, each in fetched.items()}
            gone |= {href for href in batch if href not in fetched}
            self._keep(side, fetched)
            await self.ledger.put(side, await asyncio.to_thread(_read_all, fetched))
        await self.ledger.looked(side, changes.cursor, gone & (known.keys() | set(wanted)), changes.problems, full=changes.full)

    def _check_gone(self, side: Side, gone: int, known: int) -> None:
        if gone > FEW and gone * 2 > known and not self.allow_deletions:
            raise TooManyGone(
                f"{self.calendars[side].shown}: {gone} of {known} events are gone at once; if that is meant, "
                "`rota calendars sync PAIR --allow-deletions` removes them from the other calendar too"
            )

    async def _settle(self, uids: Sequence[str]) -> None:
        """Brings some events in order: plans, writes the plan down, does it, writes down what was done."""
        settled: list[tuple[str, str | None, str | None]] = []
        forgotten: list[str] = []
        deeds: list[_Deed] = []
        for state in await self.ledger.states(uids):
            match decide(state, self.direction):
                case Settle(first, second):
                    settled.append((state.uid, first, second))
                case Forget():
                    forgotten.append(state.uid)
                case Write() | Delete() as action:
                    deeds.append(_Deed(state, action))
        deeds = await self._with_texts(deeds)
        conflicts = [self._conflict(deed) for deed in deeds if deed.action.kind is not None]
        await self.ledger.plan(settled, forgotten, conflicts, [(deed.state.uid, _intent(deed)) for deed in deeds])
        self.report.matched += len(settled)
        self.report.conflicts += len(conflicts)
        if deeds:
            places = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(self._do(deed, places) for deed in deeds))
            await self._record(deeds)

    async def _with_texts(self, deeds: list[_Deed]) -> list[_Deed]:
        """Those whose texts are still what was decided by; the others are looked at again in the next pass."""
        if self._kept > MOST_KEPT:
            self._texts.clear()
            self._kept = 0
        wanted: dict[Side, dict[str, str]] = {side: {} for side in SIDES}
        for deed in deeds:
            for side in SIDES:
                resource = deed.state.at(side)
                if resource is not None and (side != deed.side or deed.action.kind is not None):
                    wanted[side][resource.href] = resource.etag
        seen: dict[Side, list[Resource]] = {}
        gone: dict[Side, list[str]] = {}
        moved: set[tuple[Side, str]] = set()
        for side, etags in wanted.items():
            missing = [href for href, etag in etags.items() if not self._has(side, href, etag)]
            fetched = await self.calendars[side].fetch(missing) if missing else {}
            fetched = {href: Fetched(each.etag or etags[href], each.text) for href, each in fetched.items()}
            self._keep(side, fetched, always=True)
            changed = {href: each for href, each in fetched.items() if each.etag != etags[href]}
            seen[side] = await asyncio.to_thread(_read_all, changed)
            gone[side] = [href for href in missing if href not in fetched]
            moved |= {(side, href) for href in (*changed, *gone[side])}
        if moved:
            await self.ledger.record([], [], seen, gone)
        still = [deed for deed in deeds if not moved & set(_places(deed.state))]
        for deed in still:
            if isinstance(deed.action, Write):
                resource = deed.state.at(deed.action.source)
                assert resource is not None
                deed.found = single(self._texts[deed.action.source, resource.href].text)
                assert deed.found is not None
                deed.facts = read_facts(deed.found)
        return still

    def _conflict(self, deed: _Deed) -> dict[str, Any]:
        loser = deed.state.at(deed.side)
        return {
            "uid": deed.state.uid,
            "kind": deed.action.kind,
            "winner": other(deed.side),
            "digest": "" if loser is None else loser.digest,
            "text": None if loser is None else self._texts[deed.side, loser.href].text,
        }

    async def _do(self, deed: _Deed, places: asyncio.Semaphore) -> None:
        async with places:
            try:
                if isinstance(deed.action, Delete):
                    resource = deed.state.at(deed.side)
                    assert resource is not None
                    await self.calendars[deed.side].delete(resource.href, resource.etag)
                    deed.done = resource
                else:
                    await self._write(deed)
            except CalendarError as error:  # gathered: what the others have done must be written down before it is raised
                deed.trouble = error

    async def _write(self, deed: _Deed) -> None:
        assert deed.found is not None
        assert deed.facts is not None
        calendar, there = self.calendars[deed.side], deed.state.at(deed.side)
        if there is not None:
            stored = await calendar.update(there.href, there.etag, deed.found.text)
        else:
            for name in _names(deed.state.uid):
                try:
                    stored = await calendar.create(name, deed.state.uid, deed.found.text)
                    break
                except Changed as error:
                    if error.href is None or not await self._is_foreign(deed.side, error.href, deed.state.uid):
                        raise
            else:
                raise Refused("other events have all of the names that are made from its UID")
        if stored.etag is not None:
            deed.done = _resource(stored.href, stored.etag, deed.facts)
            return
        fetched = (await calendar.fetch([stored.href])).get(stored.href)
        if fetched is None:
            raise Changed(f"{calendar.shown}: it is gone as soon as it was written", stored.href)
        [deed.done] = _read_all({stored.href: fetched})

    async def _is_foreign(self, side: Side, href: str, uid: str) -> bool:
        """Whether another event has this name."""
        fetched = (await self.calendars[side].fetch([href])).get(href)
        if fetched is None:
            return True  # a folder's file without our event in it
        [there] = _read_all({href: fetched})
        return there.uid != uid

    async def _record(self, deeds: Sequence[_Deed]) -> None:
        """Writes down what was done; what somebody else has changed is looked at; then raises what should end this attempt."""
        settled: list[tuple[str, str | None, str | None]] = []
        forgotten: list[str] = []
        seen: dict[Side, list[Resource]] = {side: [] for side in SIDES}
        gone: dict[Side, list[str]] = {side: [] for side in SIDES}
        look: dict[Side, set[str]] = {side: set() for side in SIDES}
        for deed in deeds:
            uid, side = deed.state.uid, deed.side
            match deed.trouble:
                case None if isinstance(deed.action, Delete):
                    assert deed.done is not None
                    gone[side].append(deed.done.href)
                    forgotten.append(uid)
                    self.report.deleted[side] += 1
                case None:
                    assert deed.done is not None
                    assert deed.facts is not None
                    seen[side].append(deed.done)
                    # What the server has made of it counts as ours, unless it says something else: then somebody was faster.
                    ours = deed.done.digest if deed.done.core == deed.facts.core else deed.facts.digest
                    bases = {side: ours, other(side): deed.facts.digest}
                    settled.append((uid, bases["first"], bases["second"]))
                    (self.report.created if deed.state.at(side) is None else self.report.updated)[side] += 1
                case Changed(href=None):
                    self._again.add(side)
                case Changed(href=str(href)):
                    look[side].add(href)
                    if (known := deed.state.at(side)) is not None:
                        look[side].add(known.href)
                case Refused() as error:
                    self._left[uid] = str(error)
        troubles = [deed.trouble for deed in deeds if deed.trouble and not isinstance(deed.trouble, Changed | Refused)]
        await self.ledger.record(settled, forgotten, seen, gone)
        if troubles:
            raise troubles[0]
        await self._look_at(look)

    async def _look_at(self, hrefs: Mapping[Side, Iterable[str]]) -> None:
        """Writes down what somebody else has made of some resources."""
        seen: dict[Side, list[Resource]] = {}
        gone: dict[Side, list[str]] = {}
        for side, wanted in hrefs.items():
            fetched = await self.calendars[side].fetch(sorted(wanted)) if wanted else {}
            self._keep(side, fetched, always=True)
            seen[side] = _read_all(fetched)
            gone[side] = [href for href in wanted if href not in fetched]
        await self.ledger.record([], [], seen, gone)

    def _keep(self, side: Side, fetched: Mapping[str, Fetched], *, always: bool = False) -> None:
        """Keeps texts that will be needed in a moment, as far as there is room."""
        for href, each in fetched.items():
            if always or self._kept < MOST_KEPT:
                self._texts[side, href] = each
                self._kept += len(each.text)

    def _has(self, side: Side, href: str, etag: str) -> bool:
        kept = self._texts.get((side, href))
        return kept is not None and kept.etag == etag


def _intent(deed: _Deed) -> Intent:
    if deed.facts is None:
        return Intent(deed.side, None, None, None)
    return Intent(deed.side, deed.facts.digest, deed.facts.core, deed.facts.digest)


def _places(state: State) -> Iterable[tuple[Side, str]]:
    return ((side, resource.href) for side in SIDES if (resource := state.at(side)) is not None)


def _read_all(fetched: Mapping[str, Fetched]) -> list[Resource]:
    return [_read(href, each) for href, each in fetched.items()]


def _read(href: str, fetched: Fetched) -> Resource:
    """What a resource says, or what is wrong with it."""
    try:
        found = single(fetched.text)
    except Broken as error:
        return Resource(href, fetched.etag, None, problem=str(error))
    if found is None:
        return Resource(href, fetched.etag, None)  # a task, or a journal: not ours
    try:
        return _resource(href, fetched.etag, read_facts(found))
    except Broken as error:
        return Resource(href, fetched.etag, found.uid, problem=str(error))


def _resource(href: str, etag: str, facts: Facts) -> Resource:
    return Resource(
        href, etag, facts.uid, facts.digest, facts.core, facts.stamped_at, facts.sequence, facts.starts_at, facts.ends_at
    )  # fmt: skip


def _names(uid: str) -> Iterable[str]:
    """The names under which an event may be written: always the same, so that what was written twice is found to be there."""
    digest = hashlib.sha256(uid.encode()).hexdigest()[:40]
    return [uid, digest, f"{digest}-2"] if _SAFE.fullmatch(uid) and ".." not in uid else [digest, f"{digest}-2"]
