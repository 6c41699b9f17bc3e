"""What a transport promises, as tests that any implementation can be run against.

A test module makes a class of it: `class TestMine(TransportContract)` with a fixture `place` that gives a `Place`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import pytest
from tests.support.engine import spec

from rota.engine.transport import Publisher, Session, Transport
from rota.errors import PayloadError
from rota.model.ids import new_id
from rota.model.job import JobSettings, NewJob
from rota.model.run import Run
from rota.model.task import DEFAULT_APP

LEASE_S = 60.0


async def work(n: int = 0) -> None: ...


WORK = spec(work)


def new_job(n: int = 0, **options: Any) -> NewJob:
    """A job that is not stored yet."""
    return NewJob(JobSettings.of(WORK).changed(**options), f'{{"n": {n}}}')


def bad_job() -> NewJob:
    """One that its task refuses."""
    return NewJob(JobSettings.of(WORK), WORK.payload.encode_json("[]"))


class Place(Protocol):
    """Where a transport is tried: made by the implementation's own tests."""

    publisher: Publisher

    def transport(self, worker: UUID) -> Transport:
        """A transport for this worker."""

    def pass_time(self, seconds: float) -> None:
        """Moves the clock that decides leases and due times."""

    async def cancel(self, id: UUID) -> None:
        """Asks for a job to be stopped, as an operator does."""


class Party:
    """Workers with a session each."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open = AsyncExitStack()

    async def join(self, worker: UUID | None = None) -> Session:
        """A session of a worker, or of a new one, which is registered."""
        id = worker or new_id()
        transport = self._place.transport(id)
        if worker is None:
            await asyncio.to_thread(register, transport)
        session = await transport.open("contract")
        self._open.push_async_callback(session.close)
        return session

    async def close(self) -> None:
        """Everybody goes home."""
        await self._open.aclose()


def register(transport: Transport) -> None:
    with transport.open_pulse() as pulse:
        pulse.register([WORK], app=DEFAULT_APP, queues=["default"], slots=4)
        assert pulse.beat() == "alive"


@asynccontextmanager
async def party(place: Place) -> AsyncIterator[Party]:
    """Some workers, for the length of a block."""
    gathered = Party(place)
    try:
        yield gathered
    finally:
        await gathered.close()


async def take(session: Session, limit: int = 1) -> list[Run]:
    return await session.claim("default", limit, lease_s=LEASE_S)


def ended(run: Run, outcome: str, **values: Any) -> Run:
    """The same run, as a handler has left it."""
    run.started = run.claimed
    run.took_s = 0.001
    run.outcome = outcome
    for name, value in values.items():
        setattr(run, name, value)
    return run


@pytest.mark.req("C09")
class TransportContract:
    """The promises; each fails if the transport does not keep it."""

    async def test_what_is_published_is_handed_out_with_all_that_is_known_of_it(self, place: Place) -> None:
        before = datetime.now(UTC) - timedelta(seconds=5)
        made = await place.publisher.ainsert(new_job(7, priority=3, max_attempts=5))
        async with party(place) as workers:
            [run] = await take(await workers.join(), 10)
        assert (run.id, run.task, run.queue, run.priority) == (str(made.id), "work", "default", 3)
        assert (run.payload, run.attempt, run.max_attempts) == ('{"n": 7}', 1, 5)
        assert run.token > 0
        assert before < run.queued_at < datetime.now(UTC) + timedelta(seconds=5)
        assert before < run.run_at < datetime.now(UTC) + timedelta(seconds=5)

    async def test_every_job_is_handed_out_once_among_many(self, place: Place) -> None:
        made = await place.publisher.ainsert_many([new_job(n) for n in range(200)])
        async with party(place) as workers:
            sessions = [await workers.join() for _ in range(8)]

            async def drain(session: Session) -> list[Run]:
                mine: list[Run] = []
                while runs := await take(session, 7):
                    mine += runs
                return mine

            claimed = [run.id for runs in await asyncio.gather(*map(drain, sessions)) for run in runs]
        assert sorted(claimed) == sorted(str(each.id) for each in made)

    async def test_the_order_is_by_priority_and_then_by_age(self, place: Place) -> None:
        made = await place.publisher.ainsert_many([new_job(0, priority=1), new_job(1), new_job(2, priority=-1), new_job(3)])
        async with party(place) as workers:
            session = await workers.join()
            assert [run.id for run in await take(session, 3)] == [str(made[n].id) for n in (2, 1, 3)]
            assert [run.id for run in await take(session, 3)] == [str(made[0].id)]
            assert await session.claim("another", 3, lease_s=LEASE_S) == []

    async def test_many_are_published_or_none(self, place: Place) -> None:
        with pytest.raises(PayloadError):
            await place.publisher.ainsert_many(new_job(n) if n < 3 else bad_job() for n in range(4))
        first = await place.publisher.ainsert(new_job(1, key="k"))
        assert await place.publisher.ainsert(new_job(1, key="k")) != first
        async with party(place) as workers:
            assert [run.id for run in await take(await workers.join(), 10)] == [str(first.id)]

    async def test_what_is_not_due_is_not_handed_out(self, place: Place) -> None:
        made = await place.publisher.ainsert(new_job(delay="30s"))
        async with party(place) as workers:
            session = await workers.join()
            moved, next_s, _ = await session.promote()
            assert moved == 0
            assert next_s is not None
            assert 20 < next_s <= 30
            assert await take(session) == []
            place.pass_time(31)
            assert (await session.promote())[0] == 1
            assert [run.id for run in await take(session)] == [str(made.id)]

    async def test_what_completes_is_gone(self, place: Place) -> None:
        await place.publisher.ainsert_many([new_job(n) for n in range(3)])
        async with party(place) as workers:
            session = await workers.join()
            runs = [ended(run, "completed", result='"done"') for run in await take(session, 3)]
            assert await session.complete(runs) == set()
            place.pass_time(2 * LEASE_S)
            assert await session.rescue([], batch=10) == []
            assert await take(session, 3) == []

    @pytest.mark.parametrize(
        ("outcome", "values", "state", "attempt"),
        [
            ("completed", {}, "completed", None),
            ("canceled", {"error": {"type": "Canceled", "message": "x"}}, "canceled", None),
            ("failed", {"error": {"type": "ValueError", "message": "x"}, "delay_s": 0.0}, "queued", 2),
            ("failed", {"error": {"type": "ValueError", "message": "x"}, "retryable": False}, "failed", None),
            ("snoozed", {"delay_s": 0.0}, "queued", 2),
            ("released", {"delay_s": 0.0}, "queued", 2),
        ],
    )
    async def test_every_other_end(
        self, place: Place, outcome: str, values: dict[str, Any], state: str, attempt: int | None
    ) -> None:
        await place.publisher.ainsert(new_job())
        async with party(place) as workers:
            session = await workers.join()
            [run] = await take(session)
            assert await session.finish([ended(run, outcome, **values)]) == {run.id: state}
            await session.promote()
            assert [again.attempt for again in await take(session)] == ([] if attempt is None else [attempt])

    async def test_a_retry_waits_as_long_as_it_was_told(self, place: Place) -> None:
        await place.publisher.ainsert(new_job())
        async with party(place) as workers:
            session = await workers.join()
            [run] = await take(session)
            error = {"type": "ValueError", "message": "x"}
            assert await session.finish([ended(run, "failed", error=error, delay_s=30.0)]) == {run.id: "queued"}
            assert await take(session) == []
            place.pass_time(31)
            await session.promote()
            [again] = await take(session)
            assert (again.id, again.attempt) == (run.id, 2)

    async def test_what_was_said_before_is_said_again(self, place: Place) -> None:
        """The answer to the first time may have been lost."""
        await place.publisher.ainsert_many([new_job(), new_job()])
        async with party(place) as workers:
            session = await workers.join()
            good, bad = await take(session, 2)
            ended(good, "completed")
            ended(bad, "failed", error={"type": "ValueError", "message": "x"}, retryable=False)
            for _ in range(2):
                assert await session.finish([good, bad]) == {good.id: "completed", bad.id: "failed"}

    async def test_whose_lease_has_run_out_is_not_heard(self, place: Place) -> None:
        await place.publisher.ainsert(new_job())
        async with party(place) as workers:
            zombie, other = await workers.join(), await workers.join()
            [run] = await take(zombie)
            place.pass_time(2 * LEASE_S)
            [(id, task, queue, attempt, _, state)] = await other.rescue([], batch=10)
            assert (str(id), task, queue, attempt, state) == (run.id, "work", "default", 1, "queued")
            [again] = await take(other)
            assert (again.id, again.attempt) == (run.id, 2)
            assert again.token != run.token

            assert await zombie.complete([ended(run, "completed")]) == {run.id}
            assert await zombie.finish([run]) == {run.id: None}
            await zombie.release([run])
            assert await other.complete([ended(again, "completed")]) == set()

    async def test_who_renews_keeps_its_jobs(self, place: Place) -> None:
        await place.publisher.ainsert(new_job())
        me = new_id()
        async with party(place) as workers:
            session, other = await workers.join(me), await workers.join()
            [run] = await take(session)
            place.pass_time(LEASE_S / 2)

            def renew() -> tuple[set[str], set[str]]:
                with place.transport(me).open_pulse() as pulse:
                    return pulse.renew([run], lease_s=LEASE_S)

            assert await asyncio.to_thread(renew) == ({run.id}, set())
            place.pass_time(LEASE_S * 0.75)
            assert await other.rescue([], batch=10) == []
            place.pass_time(LEASE_S)
            assert len(await other.rescue([], batch=10)) == 1
            assert await asyncio.to_thread(renew) == (set(), {run.id})

    async def test_the_dead_are_rescued_at_once(self, place: Place) -> None:
        await place.publisher.ainsert_many([new_job() for _ in range(5)])
        dead = new_id()
        async with party(place) as workers:
            session, other = await workers.join(dead), await workers.join()
            runs = await take(session, 3)
            rescued = await other.rescue([dead], batch=2) + await other.rescue([dead], batch=2)
            assert sorted(str(row[0]) for row in rescued) == sorted(run.id for run in runs)
            assert await session.finish([ended(run, "completed") for run in runs]) == {run.id: None for run in runs}

    async def test_what_goes_back_unstarted_is_not_charged(self, place: Place) -> None:
        await place.publisher.ainsert(new_job(max_attempts=1))
        async with party(place) as workers:
            session, other = await workers.join(), await workers.join()
            [run] = await take(session)
            await session.release([run])
            [again] = await take(other)
            assert (again.id, again.attempt) == (run.id, 1)
            # The fence is the claim's, not the attempt's.
            assert await session.complete([ended(run, "completed")]) == {run.id}
            assert await other.complete([ended(again, "completed")]) == set()

    async def test_what_is_held_back_is_not_charged_either(self, place: Place) -> None:
        await place.publisher.ainsert(new_job(max_attempts=1))
        async with party(place) as workers:
            session = await workers.join()
            [run] = await take(session)
            await session.hold_back([run])
            assert await take(session) == [], "it waits to be let through"
            await session.promote()
            assert [(again.id, again.attempt) for again in await take(session)] == [(run.id, 1)]

    async def test_who_has_stopped_with_jobs_in_hand_is_known(self, place: Place) -> None:
        await place.publisher.ainsert(new_job())
        leaver = new_id()
        async with party(place) as workers:
            await asyncio.to_thread(register, place.transport(leaver))
            session, other = await workers.join(leaver), await workers.join()
            [run] = await take(session)
            assert await other.stopped_holding() == []

            def stop() -> None:
                with place.transport(leaver).open_pulse() as pulse:
                    pulse.stop("stopped")

            await asyncio.to_thread(stop)
            place.pass_time(10)  # it may have been taken for gone, and have a moment to say that it is not
            assert await other.stopped_holding() == [leaver]
            assert [str(row[0]) for row in await other.rescue([leaver], batch=10)] == [run.id]
            assert await other.stopped_holding() == []

    async def test_a_key_is_free_again_when_its_job_has_ended_and_its_time_is_over(self, place: Place) -> None:
        first = await place.publisher.ainsert(new_job(key="k", key_ttl="1h"))
        async with party(place) as workers:
            session = await workers.join()
            place.pass_time(3700)
            assert await session.forget_keys(limit=10) == 0, "its job is live"
            await session.complete([ended(run, "completed") for run in await take(session)])
            assert await session.forget_keys(limit=10) == 1
            await session.tidy()
        assert (await place.publisher.ainsert(new_job(key="k"))).id != first.id

    async def test_claims_whose_answer_was_lost_go_back(self, place: Place) -> None:
        await place.publisher.ainsert_many([new_job() for _ in range(3)])
        async with party(place) as workers:
            session = await workers.join()
            known, *lost = await take(session, 3)
            assert await session.release_unknown([known.id], older_than_s=0) == 2
            assert sorted(run.id for run in await take(session, 3)) == sorted(run.id for run in lost)

    async def test_a_request_to_stop_is_seen_by_who_runs_it(self, place: Place) -> None:
        await place.publisher.ainsert(new_job())
        async with party(place) as workers:
            session, other = await workers.join(), await workers.join()
            [run] = await take(session)
            assert await session.cancel_requested() == []
            await place.cancel(run.job_id)
            assert await session.cancel_requested() == [(run.id, run.token)]
            assert await other.cancel_requested() == []
            assert await session.finish([ended(run, "failed", error={"type": "E", "message": "x"})]) == {run.id: "canceled"}

    async def test_wake_ups_are_hints(self, place: Place) -> None:
        """Whoever can be woken is; nothing depends on it."""
        async with party(place) as workers:
            session = await workers.join()
            if await session.listen():
                await session.want_wake(True)
                assert await session.wait_for_wake(0.01) is False
                await place.publisher.ainsert(new_job())
                assert await session.wait_for_wake(20) is True
                assert len(await take(session)) == 1
            await session.want_wake(False)
            await place.publisher.ainsert(new_job())
            assert len(await take(session)) == 1, "a job is found without a wake-up"

    async def test_a_pulse_says_what_is_thought_of_the_worker(self, place: Place) -> None:
        me = new_id()
        async with party(place) as workers:
            other = await workers.join()

            def check() -> None:
                with place.transport(me).open_pulse() as pulse:
                    assert pulse.beat() is None
                    pulse.register([WORK], app=DEFAULT_APP, queues=["default"], slots=4)
                    pulse.register([WORK], app=DEFAULT_APP, queues=["default"], slots=4)
                    assert pulse.beat() == "alive"
                    pulse.probe()

            await asyncio.to_thread(check)
            assert await other.stop_dead(me) is True
            assert await other.stop_dead(me) is False

            def check_again() -> None:
                with place.transport(me).open_pulse() as pulse:
                    assert pulse.beat() == "called dead"
                    assert pulse.beat() == "alive"
                    pulse.stop("stopped")

            await asyncio.to_thread(check_again)

    async def test_a_broken_session_is_known_as_one(self, place: Place) -> None:
        async with party(place) as workers:
            session = await workers.join()
            await session.close()
            with pytest.raises(Exception, match=r".") as error:
                await take(session)
            assert session.fault_of(error.value) == "lost"
            assert session.fault_of(KeyError("a bug of ours")) == "lost"
