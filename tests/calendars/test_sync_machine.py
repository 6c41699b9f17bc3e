"""Two calendars edited at random, with synchronisations that are cut off anywhere, and what must always come of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.calendars.conftest import FOLDERS, WINDOW
from tests.calendars.events import event, summary_in

from rota.apps.calendars.connectors import Calendar, Place, Stored, skeleton
from rota.apps.calendars.ledger import SQL, Conn, Ledger, get_pair
from rota.apps.calendars.model import SIDES, Side
from rota.apps.calendars.sync import Sync
from rota.config import load_settings
from rota.db import migrations

SETTINGS = load_settings(database_url="postgresql://nowhere/")
UIDS = [f"e{n}" for n in range(3)]


class Killed(BaseException):
    """The process is gone."""


class Mortal(Calendar):
    """A calendar during whose use the process may die: before a write, or after it and before we hear of it."""

    def __init__(self, inner: Calendar, life: list[int]) -> None:
        self._inner = inner
        self._life = life

    def _live(self) -> None:
        self._life[0] -= 1
        if self._life[0] < 0:
            raise Killed

    async def changes(self, cursor: str | None, known: Any) -> Any:
        self._live()
        return await self._inner.changes(cursor, known)

    async def fetch(self, hrefs: Any) -> Any:
        self._live()
        return await self._inner.fetch(hrefs)

    async def create(self, name: str, uid: str, text: str) -> Stored:
        self._live()
        stored = await self._inner.create(name, uid, text)
        self._live()
        return stored

    async def update(self, href: str, etag: str, text: str) -> Stored:
        self._live()
        stored = await self._inner.update(href, etag, text)
        self._live()
        return stored

    async def delete(self, href: str, etag: str) -> None:
        self._live()
        await self._inner.delete(href, etag)
        self._live()


class Machine(RuleBasedStateMachine):
    """The model: for each event what was last done to it, and on which sides since both were alike."""

    dsn = ""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        skeleton.SERVERS.clear()
        self.texts: dict[Side, dict[str, str]] = {side: skeleton.SERVERS.setdefault(side, {}) for side in SIDES}
        self.edits = 0
        self.touched: dict[str, dict[Side, str | None]] = {}  # since both were alike: what each side was made
        # Edits that a cut off synchronisation had brought to the side on which they were then removed, or had decided against.
        self.answered: set[str] = set()
        self.agreed: dict[str, str] = {}
        self.loop.run_until_complete(self._begin())

    async def _begin(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            migrations.up(conn, FOLDERS)
        self.conn = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
        await self.conn.execute("DELETE FROM rota_calendars.pair")
        parameters = {"id": "p", "direction": "both", "every": None, "past": "1 day", "future": "1 day"}
        ends = {f"{side}_{name}": side for side in SIDES for name in ("connector", "shown", "sealed")}
        await self.conn.execute(SQL["pairs_add"], {**parameters, **ends})

    @rule(side=st.sampled_from(SIDES), uid=st.sampled_from(UIDS))
    def edit(self, side: Side, uid: str) -> None:
        self.edits += 1
        title = f"{side} {self.edits}"
        name = next((name for name, text in self.texts[side].items() if f"UID:{uid}\r" in text), f"{uid}-of-{side}")
        self.texts[side][name] = event(uid, title)  # without saying when: a conflict that is none would be lost by the second side
        self.touched.setdefault(uid, {})[side] = title
        self.answered.discard(uid)

    @rule(side=st.sampled_from(SIDES), uid=st.sampled_from(UIDS))
    def remove(self, side: Side, uid: str) -> None:
        for name in [name for name, text in self.texts[side].items() if f"UID:{uid}\r" in text]:
            title = summary_in(self.texts[side].pop(name))
            [other] = [each for each in SIDES if each != side]
            if title in (self.touched.get(uid, {}).get(other), self._titles(other).get(uid)):
                self.answered.add(uid)
            self.touched.setdefault(uid, {})[side] = None

    @rule(life=st.integers(0, 30))
    def die_while_synchronising(self, life: int) -> None:
        self.loop.run_until_complete(self._sync(life))

    @rule()
    def synchronise(self) -> None:
        """To the end: both are alike, and what was done on one side alone is what both have."""
        self.loop.run_until_complete(self._sync(None))
        found = {side: self._titles(side) for side in SIDES}
        assert found["first"] == found["second"]
        for uid in UIDS:
            done, now = self.touched.get(uid, {}), found["first"].get(uid)
            if not done:
                assert now == self.agreed.get(uid), f"{uid} was touched by nobody"
            elif len(done) == 1:
                assert now == next(iter(done.values())), f"{uid} was changed on one side: {done}, and is {now}"
            else:
                assert now in done.values(), f"{uid} was made {done}, and is {now}"
                is_lost = now is None and set(done.values()) != {None} and uid not in self.answered
                assert not is_lost, f"an edit of {uid} lost against a deletion by somebody who had not seen it"
        self.touched.clear()
        self.answered.clear()
        self.agreed = dict(found["first"])

    def _titles(self, side: Side) -> dict[str, str]:
        titles: dict[str, str] = {}
        for text in self.texts[side].values():
            uid = next(line[4:] for line in text.splitlines() if line.startswith("UID:"))
            assert uid not in titles, f"{uid} is there twice"
            titles[uid] = summary_in(text)
        return titles

    async def _sync(self, life: int | None) -> None:
        left = [1_000_000 if life is None else life]

        @asynccontextmanager
        async def opens() -> AsyncIterator[Conn]:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            async with self.conn.transaction():
                yield self.conn

        pair = await get_pair(self.conn, "p")
        assert pair is not None
        calendars = {side: Mortal(skeleton.connect(Place(side), SETTINGS), left) for side in SIDES}
        sync = Sync(Ledger("p", opens), calendars, {side: pair.end(side).cursor for side in SIDES}, WINDOW)
        try:
            await sync.run()
        except Killed:
            assert life is not None
            await asyncio.sleep(0)  # for those that were at work beside the one that saw the end

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.run_until_complete(self.conn.close())
            self.loop.close()


@pytest.mark.req("Y03")
def test_whatever_is_edited_and_wherever_it_dies_both_become_alike(dsn: str) -> None:
    class OnThisDatabase(Machine):
        pass

    OnThisDatabase.dsn = dsn
    OnThisDatabase.TestCase.settings = settings(
        max_examples=15,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to make a failure shorter takes minutes, and 25 steps can be read
    )
    OnThisDatabase.TestCase("runTest").runTest()
