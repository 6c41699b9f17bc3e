"""Settings of a job, and the order in which jobs that wait for each other are stored."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from uuid import UUID

import pytest

from rota.errors import CycleError, UsageError
from rota.model.batch import Batch
from rota.model.job import Enqueued, JobSettings, NewJob
from rota.model.retry import Retry

PLAIN = JobSettings("work", "default", 0, 4)
KEYED = PLAIN.changed(key="k")


def job(settings: JobSettings = PLAIN) -> NewJob:
    return NewJob(settings, "{}")


class TestSettings:
    def test_nothing_given_changes_nothing(self):
        assert PLAIN.changed(delay=None, key=None) is PLAIN

    def test_delay_and_run_at_take_each_others_place(self):
        at = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=2)))
        later = PLAIN.changed(delay="5m")
        assert (later.delay, later.run_at) == (timedelta(minutes=5), None)
        assert later.changed(run_at=at).delay is None
        assert later.changed(run_at=at).run_at == datetime(2029, 12, 31, 22, tzinfo=UTC)
        assert later.changed(run_at=at).changed(delay=0).run_at is None

    def test_a_retry_policy_brings_its_attempts_unless_they_are_given(self):
        assert PLAIN.changed(retry=Retry(max_attempts=7)).max_attempts == 7
        assert PLAIN.changed(max_attempts=2, retry=Retry(max_attempts=7)).max_attempts == 2

    def test_parents_of_every_kind(self):
        id = UUID(int=1)
        assert PLAIN.changed(parents=[id, str(id), Enqueued(str(id)), Enqueued(id)]).parents == (str(id),) * 4

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"delay": "5m", "run_at": datetime(2030, 1, 1, tzinfo=UTC)}, "delay='5m' or run_at=.*, not both"),
            ({"delay": -1}, "delay=-1 is out of range"),
            ({"run_at": datetime(2030, 1, 1)}, "run_at=.* has no time zone"),  # noqa: DTZ001
            ({"run_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))}, "run_at=.* is out of range"),
            ({"run_at": "tomorrow"}, "run_at='tomorrow' is not a datetime"),
            ({"priority": 40_000}, "priority=40000 is out of range"),
            ({"priority": 1.5}, "priority=1.5 is out of range"),
            ({"queue": "Mail Out"}, "queue name 'Mail Out' is not allowed"),
            ({"key": ""}, "key='' is not allowed"),
            ({"key": "a\0"}, r"key='a\\x00' is not allowed"),
            ({"key": "\ud800"}, "key=.* is not text"),
            ({"key": 7}, "key=7 is not text"),
            ({"key": "ü" * 257}, "key=.* is not allowed: it has 514 bytes"),
            ({"owner": "o" * 513}, "owner=.* is not allowed"),
            ({"key_ttl": 0, "key": "k"}, "key_ttl=0 is out of range"),
            ({"strict": True}, "strict=True needs key="),
            ({"max_attempts": 0}, "max_attempts=0 is out of range"),
            ({"retry": 3}, "retry=3 is not a policy"),
            ({"timeout": 0}, "timeout=0 is out of range"),
            ({"parents": ["x"]}, "parent 'x' is not a job"),
            ({"parents": [job()]}, "is not stored yet"),
            ({"on_parent_failure": "explode"}, "on_parent_failure='explode' is unknown"),
            ({"triggered_by": {"a": object()}}, "triggered_by=.* cannot be written as a JSON object"),
            ({"triggered_by": {"a": "\0"}}, "triggered_by=.* has a NUL"),
            ({"triggered_by": "me"}, "triggered_by='me' cannot be written"),
        ],
    )
    def test_nonsense_is_refused(self, options, reason):
        with pytest.raises(UsageError, match=reason):
            PLAIN.changed(**options)

    def test_unknown_option(self):
        with pytest.raises(TypeError, match="a job has no option 'dealy': did you mean 'delay'"):
            PLAIN.changed(dealy="5m")  # type: ignore[call-arg]


class TestEnqueued:
    def test_it_is_a_value(self):
        id = UUID(int=5)
        assert Enqueued(id) == Enqueued(str(id))
        assert Enqueued(str(id)).id == id
        assert Enqueued(id) != Enqueued(id, created=False)
        assert len({Enqueued(id), Enqueued(str(id))}) == 1
        assert repr(Enqueued(id)) == "Enqueued(id='00000000-0000-0000-0000-000000000005', created=True)"


class TestBatch:
    def test_free_and_bound(self):
        a, b, c = job(), job(KEYED), job()
        batch = Batch([a, b, c.after(a)])
        assert (batch.free, batch.bound) == ([0], [1, 2])
        assert batch.parents(2) == [batch.ids[0]]

    def test_parents_come_before_their_children(self):
        a, b, c, d = job(), job(), job(), job()
        d.after(c, b)
        c.after(b)
        b.after(a)
        assert Batch([d, c, b, a]).segments() == [[2, 1, 0]]

    def test_a_parent_with_a_key_ends_a_segment(self):
        a = job(KEYED)
        b = job().after(a)
        c = job().after(b)
        assert Batch([c, b, a]).segments() == [[2], [1, 0]]

    def test_keys_are_in_one_order_for_everyone(self):
        one = [job(PLAIN.changed(key=key)) for key in "cab"]
        other = [job(PLAIN.changed(key=key)) for key in "bca"]
        assert [[one[at].settings.key for at in part] for part in Batch(one).segments()] == [["a", "b", "c"]]
        assert [[other[at].settings.key for at in part] for part in Batch(other).segments()] == [["a", "b", "c"]]

    @pytest.mark.req("Q19")
    def test_cycles_are_refused_with_their_tasks(self):
        a, b, c = (job(JobSettings(name, "default", 0, 4)) for name in ("fetch", "parse", "store"))
        a.after(c)
        b.after(a)
        c.after(b)
        with pytest.raises(CycleError, match="fetch waits for store, which waits for parse, which waits for fetch"):
            Batch([a, b, c]).segments()

    @pytest.mark.req("Q19")
    def test_a_job_cannot_wait_for_itself(self):
        a = job()
        with pytest.raises(CycleError, match="these jobs could never run: work waits for work"):
            Batch([a.after(a)]).segments()

    def test_a_long_chain(self):
        jobs = [job() for _ in range(5000)]
        for parent, child in pairwise(jobs):
            child.after(parent)
        assert Batch(jobs).segments() == [list(range(1, 5000))]

    def test_a_parent_that_is_not_in_the_call(self):
        with pytest.raises(UsageError, match="is not in it: add it"):
            Batch([job().after(job())]).segments()

    def test_a_job_may_be_there_twice_unless_it_is_a_parent(self):
        a = job()
        assert len(set(Batch([a, a]).ids)) == 2
        with pytest.raises(UsageError, match="is in it more than once"):
            Batch([a, a, job().after(a)]).segments()
