"""Options and methods that do not exist are answered with Rota's own word for what was meant."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from rota import Rota
from rota.cli.locate import need_app
from rota.errors import ConfigError, PayloadError, UnknownOption, UsageError
from rota.model.job import JobOptions
from rota.model.options import JOB_HINTS, METHODS, RECURRING_HINTS, RECURRING_METHODS, TASK_HINTS
from rota.model.task_meta import RECURRING_OPTIONS, TASK_OPTIONS, TaskMeta
from rota.recurring import Recurring
from rota.task import Task


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """An application as a caller without a type checker sees it."""
    monkeypatch.chdir(tmp_path)
    return Rota("postgresql://nowhere")


def send(user_id: int) -> None:
    """A handler."""


def options_of(method: Any) -> set[str]:
    return {name for name, each in inspect.signature(method).parameters.items() if each.kind is each.KEYWORD_ONLY}


class TestOptionsOfTasks:
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"retries": 3}, "@app.task has no option 'retries': write max_attempts=4, which is the first attempt and 3 retries"),
            ({"max_retries": None}, "max_attempts=..., which counts the first attempt too"),
            ({"cron": "0 9 * * *"}, "write schedule=cron('0 9 * * *')"),
            ({"every": 60}, r"write schedule=every(60)"),
            ({"concurrency": 2}, "write max_concurrency=2"),
            ({"time_limit": 30}, "write timeout=30"),
            ({"autoretry_for": (OSError,)}, "Cancel(reason)"),
            ({"unique": True}, 'using(key="...").enqueue(...)'),
            ({"countdown": 5}, 'using(delay="5m").enqueue(...)'),
            ({"bind": True}, "annotated with Context"),
            ({"priorty": 5}, "did you mean 'priority'?"),
            ({"descripton": "x"}, "did you mean 'description'?"),
            ({"colour": "red"}, "it has name, queue, priority, retry, "),
            ({"retries": 3, "priorty": 5}, "; @app.task has no option 'priorty': did you mean"),
        ],
    )
    def test_a_wrong_option_of_a_task(self, app: Any, given: dict[str, Any], words: str) -> None:
        with pytest.raises(UnknownOption) as caught:
            app.task(**given)(send)
        assert words in str(caught.value)
        assert "send" not in app.tasks

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"schedule": "x"}, "@app.recurring has no option 'schedule': write every="),
            ({"on": "x"}, "@app.task(on=...)"),
            ({"retries": 3}, "write retry=Retry("),
            ({"evry": "1h"}, "did you mean 'every'?"),
        ],
    )
    def test_a_wrong_option_of_a_recurring_task(self, app: Any, given: dict[str, Any], words: str) -> None:
        with pytest.raises(UnknownOption) as caught:
            app.recurring(key="{user_id}", **given)(send)
        assert words in str(caught.value)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"countdown": 5}, "a job has no option 'countdown': write delay=5"),
            ({"eta": "now"}, "write run_at=<a datetime with a time zone>"),
            ({"retries": 2}, "write max_attempts=3"),
            ({"job_id": "x"}, 'write key="..."'),
            ({"depends_on": 1}, "write parents=[job, ...]"),
            ({"max_concurrency": 1}, "a limit belongs to the task"),
            ({"dealy": 5}, "did you mean 'delay'?"),
        ],
    )
    def test_a_wrong_option_of_a_job(self, app: Any, given: dict[str, Any], words: str) -> None:
        task = app.task(send)
        for call in (task.using, lambda **options: app.job("send", {"user_id": 1}, **options)):
            with pytest.raises(UnknownOption) as caught:
                call(**given)
            assert words in str(caught.value)

    def test_an_option_among_the_arguments_is_sent_to_using(self, app: Any) -> None:
        task = app.task(send)
        for option in ("delay", "countdown", "queue"):
            with pytest.raises(PayloadError, match=r'an option of the job goes into using\(\), as in send.using\(delay="5m"\)'):
                task.enqueue(user_id=1, **{option: 5})
        with pytest.raises(PayloadError) as caught:  # JSON has no using()
            app.enqueue("send", {"user_id": 1, "delay": 5})
        assert "using" not in str(caught.value)

    def test_the_options_that_are_listed_are_those_there_are(self) -> None:
        assert set(TASK_OPTIONS) == options_of(Rota.task)
        assert set(RECURRING_OPTIONS) == options_of(Rota.recurring)
        assert not TASK_HINTS.keys() & {*TASK_OPTIONS, *TaskMeta.__annotations__}
        assert RECURRING_HINTS.keys() & set(RECURRING_OPTIONS) <= TASK_HINTS.keys()  # harmless: what exists is never looked up
        assert not JOB_HINTS.keys() & JobOptions.__annotations__.keys()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("app", None)


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ("@app.task(retries=3)", r"UnknownOption: @app.task has no option 'retries': .* \(\S+app.py:6, task digest\)"),
        ("@app.task(\n    retries=3,\n)", r"\(\S+app.py:6, task digest\)"),
        ("@app.task(name='daily', schedule=cron('61 * * * *'))", r"InvalidSchedule: .*61.* \(\S+app.py:6, task daily\)"),
        ("@app.task(\n    queue='mail',\n    schedule=cron('@hourli'),\n)", r"\(\S+app.py:8, task digest\)"),
        ("@app.task(schedule=every('0s'))", r"every.* \(\S+app.py:6, task digest\)"),
        ("@app.task(timeout='soon')", r"timeout.* \(\S+app.py:6, task digest\)"),
        ("@app.task(retry=Retry(retries=3))", r"TypeError: .*'retries' \(\S+app.py:6, task digest\)"),
        ("@app.recurring(key='x', history=True, schedule=1)", r"@app.recurring has no option.* \(\S+app.py:6, task digest\)"),
        ("@app.task\n@staticmethod", r"UsageError: .* \(\S+app.py:6, task digest\)"),
    ],
)
def test_what_is_wrong_with_a_task_is_told_with_the_users_line_and_the_task(decorator: str, message: str, project: Path) -> None:
    head = "from rota import Retry, Rota, cron, every\n\napp = Rota('postgresql://nowhere')\n\n\n"
    (project / "app.py").write_text(f"{head}{decorator}\ndef digest() -> None: ...\n")
    with pytest.raises(ConfigError, match=message):
        need_app()


class TestMethods:
    @pytest.mark.parametrize(
        ("method", "words"),
        [
            ("delay", "'Task' object has no attribute 'delay': write send.enqueue(...)"),
            ("apply_async", 'write send.using(delay="5m", queue="mail").enqueue(...)'),
            ("send", "write send.enqueue(...)"),
            ("defer", "write send.enqueue(...), or await send.aenqueue(...)"),
            ("kiq", "write await send.aenqueue(...)"),
            ("perform_async", "write send.enqueue(...)"),
            ("s", "write send.job(...)"),
        ],
    )
    def test_those_of_other_libraries_say_what_to_call_here(self, app: Any, method: str, words: str) -> None:
        with pytest.raises(AttributeError) as caught:
            getattr(app.task(send), method)
        assert words in str(caught.value)

    def test_a_recurring_task_has_others(self, app: Any) -> None:
        with pytest.raises(AttributeError, match=r"write send.ensure\(...\): it makes the row"):
            app.recurring(key="{user_id}")(send).delay(1)

    def test_none_of_them_exists_here(self) -> None:
        assert [name for name in METHODS if hasattr(Task, name)] == []
        assert [name for name in RECURRING_METHODS if hasattr(Recurring, name)] == []

    def test_any_other_attribute_is_missing_as_usual(self, app: Any) -> None:
        task = app.task(send)
        with pytest.raises(AttributeError, match=r"^'Task' object has no attribute 'enqeue'$") as caught:
            _ = task.enqeue
        assert (caught.value.name, caught.value.obj) == ("enqeue", task)
        assert not hasattr(task, "delay")
        assert not hasattr(task.using(priority=1), "delay")
        assert getattr(task, "delay", None) is None

    def test_tasks_can_still_be_looked_into_copied_and_mocked(self, app: Any) -> None:
        for task in (app.task(send), app.recurring(key="{user_id}", name="again")(send)):
            assert list(inspect.signature(task).parameters) == ["user_id"]
            assert inspect.unwrap(task) is send
            assert inspect.getdoc(task) == "A handler."
            assert dict(inspect.getmembers(task))["name"] == task.name
            assert copy.copy(task).spec is task.spec
            assert mock.create_autospec(task, instance=True).name is not None
            with mock.patch.object(task, "__wrapped__"), mock.patch.object(task, "spec"):
                pass
            assert type(task).__new__(type(task)).__class__ is type(task)
            with pytest.raises(AttributeError, match="write task"):
                _ = type(task).__new__(type(task)).delay  # half made


def test_the_error_is_a_type_error_too(app: Any) -> None:
    with pytest.raises(TypeError):
        app.task(retries=1)(send)
    assert issubclass(UnknownOption, UsageError)
