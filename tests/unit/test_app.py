"""Defining tasks and queues."""

from datetime import timedelta

import pytest

import rota
from rota import Context, Retry, Rota, Task
from rota.config import load_settings
from rota.errors import PayloadError, UnknownQueue, UnknownTask, UsageError


@pytest.fixture
def app(monkeypatch, tmp_path) -> Rota:
    monkeypatch.chdir(tmp_path)
    return Rota("postgresql://nowhere")


def test_every_public_name_is_there():
    assert all(hasattr(rota, name) for name in rota.__all__)
    assert set(rota.__all__) <= set(dir(rota))
    with pytest.raises(AttributeError, match="Nothing"):
        rota.Nothing  # noqa: B018


def test_a_bare_task(app):
    @app.task
    def greet(name: str, punctuation: str = "!") -> str:
        """Says hello."""
        return f"hello {name}{punctuation}"

    assert isinstance(greet, Task)
    assert greet("you") == "hello you!"  # calling it calls the handler
    assert (greet.name, greet.__name__, greet.__doc__) == ("greet", "greet", "Says hello.")
    spec = app.tasks["greet"]
    assert (spec.queue, spec.priority, spec.retry, spec.timeout_s) == ("default", 0, Retry(max_attempts=4), None)
    assert (spec.isolate, spec.is_async, spec.wants_context) == (False, False, False)


async def test_a_task_with_settings(app):
    @app.task(name="mail.greet", queue="mail", priority=-3, retry=Retry(base="1m"), max_attempts=9, timeout="30s")
    async def greet(ctx: Context) -> str:
        return "hello"

    assert await greet(None) == "hello"
    spec = app.tasks["mail.greet"]
    assert (spec.queue, spec.priority, spec.timeout_s) == ("mail", -3, 30.0)
    assert spec.retry == Retry(max_attempts=9, base=timedelta(minutes=1))
    assert (spec.isolate, spec.is_async, spec.wants_context) == (False, True, True)
    assert app.queues == {"default": 1, "mail": 1}


def render() -> None:
    """At the top of its module, where another process finds it."""


def test_an_isolated_handler_must_be_found_by_another_process(app):
    app.task(isolate=True)(render)
    assert app.tasks["render"].isolate

    with pytest.raises(UsageError, match="top level"):

        @app.task(isolate=True)
        def hidden() -> None: ...

    assert "hidden" not in app.tasks


def test_the_number_of_retries_comes_from_the_settings():
    app = Rota(settings=load_settings(jobs_max_retries_default=0, database_url="postgresql://x"))

    @app.task
    def once() -> None: ...

    @app.task(retry=Retry(base="1m"))
    def slowly() -> None: ...

    @app.task(retry=Retry(max_attempts=7, base="1m"))
    def often() -> None: ...

    assert [app.tasks[name].max_attempts for name in ("once", "slowly", "often")] == [1, 1, 7]


def test_a_job_with_another_backoff_is_tried_as_often_as_its_task_says(app):
    @app.task(max_attempts=9)
    def work() -> None: ...

    assert app.job("work", retry=Retry(base="1m")).settings.max_attempts == 9
    assert app.job("work", retry=Retry(max_attempts=2, base="1m")).settings.max_attempts == 2


def test_a_name_is_given_once(app):
    @app.task
    def work() -> None: ...

    with pytest.raises(UsageError, match=r"there is a task 'work' already, .*test_a_name_is_given_once.<locals>.work: give one"):

        @app.task(name="work")
        def other() -> None: ...


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": "1st"}, "task name '1st' is not allowed"),
        ({"name": "a b"}, "task name 'a b' is not allowed"),
        ({"name": ""}, "task name '' is not allowed"),
        ({"queue": "UPPER"}, "queue name 'UPPER' is not allowed"),
        ({"priority": 99_999}, "priority=99999 is out of range"),
        ({"max_attempts": 0}, "max_attempts=0 is out of range"),
        ({"timeout": 0}, "timeout=0 is out of range"),
        ({"timeout": "soon"}, "timeout='soon' is not a duration"),
    ],
)
def test_settings_out_of_range(app, options, reason):
    with pytest.raises(UsageError, match=reason):

        @app.task(**options)
        def work() -> None: ...

    assert "work" not in app.tasks


@pytest.mark.parametrize("handler", [print, int, "work", (lambda: (yield))], ids=["builtin", "class", "text", "generator"])
def test_what_is_not_a_function(app, handler):
    with pytest.raises(UsageError, match="a task is made of a function"):
        app.task(handler)


def test_queues_are_declared(app):
    app.queue("mail", weight=3)

    @app.task(queue="mail")
    def work() -> None: ...

    assert app.queues == {"default": 1, "mail": 3}
    for weight in (0, 1001, 1.5, True):
        with pytest.raises(UsageError, match=f"weight={weight!r} of queue 'mail' is out of range: from 1 to 1000"):
            app.queue("mail", weight=weight)


def test_unknown_queues_are_refused_before_anything_is_sent(app):
    app.queue("mail")

    @app.task
    def work() -> None: ...

    with pytest.raises(UnknownQueue, match="work: there is no queue 'mial': did you mean 'mail'"):
        work.using(queue="mial").enqueue()
    with pytest.raises(UnknownQueue, match="known are default, mail"):
        app.enqueue_many([work.job(), work.using(queue="zzz").job()])


def test_by_name(app):
    @app.task
    def send_welcome(user_id: int) -> None: ...

    assert app.job("send_welcome", '{"user_id": "7"}', priority=3).payload == '{"user_id":7}'
    with pytest.raises(UnknownTask, match="there is no task 'send_welcom': did you mean 'send_welcome'"):
        app.enqueue("send_welcom", {"user_id": 7})
    with pytest.raises(UnknownTask, match="defined are send_welcome"):
        app.job("zzz")
    with pytest.raises(PayloadError, match="send_welcome: user_id is missing"):
        app.enqueue("send_welcome")


def test_worker_has_the_settings_unless_told_otherwise():
    app = Rota(settings=load_settings(jobs_worker_concurrency=9, database_url="postgresql://x", database_pooled=True))
    app.queue("mail", weight=3)
    options = app.worker(lease_s=60).options
    assert (options.concurrency, options.lease_s, options.pooled) == (9, 60, True)
    assert options.queues == {"default": 1, "mail": 3}
    assert app.worker(queues={"mail": 1}).options.queues == {"mail": 1}


def test_dsn_or_settings():
    with pytest.raises(UsageError, match="give dsn or settings, not both"):
        Rota("postgresql://x", settings=load_settings())


async def test_enqueue_in_an_event_loop_says_what_to_use(app):
    @app.task
    def work() -> None: ...

    with pytest.raises(UsageError, match="use `await aenqueue"):
        work.enqueue()
    with pytest.raises(UsageError, match="use `await aenqueue_many"):
        app.enqueue_many([work.job()])
