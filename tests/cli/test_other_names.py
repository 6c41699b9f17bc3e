"""Scripts written from the text of source 000, with `rota` in place of its program's name."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer
from tests.support import jobs as given
from tests.support.invoke import Answer, Rota

from rota.cli import jobs, schedules
from rota.cli.other_names import OTHER_OPTIONS

pytestmark = pytest.mark.req("T12", "K01")

Conn = psycopg.Connection[Any]
NOWHERE = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"
CREATE = "schedules create --name hourly --job-type work --cron '0 * * * *' --timezone Europe/Berlin"


@pytest.fixture
def rota(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    return Rota(dsn, tmp_path, monkeypatch, capsys)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    """The command line without a database: what is refused here is refused before any request."""
    return Rota(NOWHERE, tmp_path, monkeypatch, capsys)


@pytest.fixture(autouse=True)
def _tasks(conn: Conn) -> None:
    given.declare(conn, "work", "fetch")


def say(rota: Rota, line: str) -> Answer:
    return rota(*shlex.split(line))


class TestJobs:
    def test_list_retry_and_cancel(self, rota: Rota) -> None:
        first, second = (say(rota, "jobs enqueue work").out.strip() for _ in range(2))
        say(rota, "jobs enqueue fetch")
        shown = say(rota, "jobs list --state queued --type work --limit 10 --json").data["jobs"]
        assert [job["id"] for job in shown] == [second, first]
        assert len(say(rota, "jobs list --type=work --limit 1 --json").data["jobs"]) == 1
        assert say(rota, f"jobs cancel {first}").code == 0
        assert say(rota, f"jobs retry {first}").code == 0
        assert say(rota, "jobs list --type nothing").err == "no job matches\n"

    def test_an_option_takes_the_next_word_whatever_it_is(self, rota: Rota) -> None:
        say(rota, "jobs enqueue work")
        assert say(rota, "jobs list --text --type").err == "no job matches\n"
        assert len(say(rota, "jobs list -n 10 --type work -s queued --json").data["jobs"]) == 1

    @pytest.mark.parametrize("own", ["--task fetch", "--task=fetch", "-t fetch"])
    def test_both_names_must_agree(self, rota: Rota, nowhere: Rota, own: str) -> None:
        answer = say(nowhere, f"jobs list {own} --type work")
        assert answer.code == 2
        assert "--task='fetch' and --type='work' are two names of the same setting" in answer.err
        say(rota, "jobs enqueue fetch")
        assert len(say(rota, f"jobs list --type fetch {own} --json").data["jobs"]) == 1


class TestSchedules:
    def test_they_are_made_changed_and_deleted_by_id(self, rota: Rota) -> None:
        made = say(rota, f"""{CREATE} --payload '{{"a": 1}}' --enabled false --json""").data
        assert (made["name"], made["task"], made["cron"], made["tz"]) == ("hourly", "work", "0 * * * *", "Europe/Berlin")
        assert (made["payload"], made["enabled"]) == ({"a": 1}, False)
        id = made["id"]
        changed = say(rota, f"schedules update {id} --cron '30 4 * * *' --timezone UTC --payload '{{}}' --enabled true --json").data
        assert (changed["cron"], changed["tz"], changed["payload"], changed["enabled"]) == ("30 4 * * *", "UTC", {}, True)
        assert say(rota, f"schedules disable {id} --json").data["enabled"] is False
        assert say(rota, f"schedules enable {id} --json").data["enabled"] is True
        assert [line["name"] for line in say(rota, "schedules list --json").data["schedules"]] == ["hourly"]
        assert say(rota, f"schedules delete {id}").code == 0
        assert say(rota, "schedules list").err.startswith("there are no schedules")

    @pytest.mark.parametrize(
        "words",
        [
            "hourly --job-type work",
            "--name hourly work",
            "work --name=hourly",
            "hourly work --job-type work",
            "--job-type work hourly",
        ],
    )
    def test_names_and_places_mix(self, rota: Rota, words: str) -> None:
        made = say(rota, f"schedules create --every 1h {words} --json").data
        assert (made["name"], made["task"], made["enabled"]) == ("hourly", "work", True)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("hourly work --job-type fetch", "TASK='work' and --job-type='fetch'"),
            ("hourly work --name daily", "NAME='hourly' and --name='daily'"),
            ("hourly work --tz UTC --timezone Asia/Tokyo", "--tz='UTC' and --timezone='Asia/Tokyo'"),
        ],
    )
    def test_names_that_differ_are_refused(self, nowhere: Rota, words: str, said: str) -> None:
        answer = say(nowhere, f"schedules create --cron @daily {words}")
        assert answer.code == 2
        assert f"{said} are two names of the same setting, and they differ" in answer.err

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("--enabled maybe", "--enabled='maybe' is not a boolean: write true or false"),
            ("--enabled yes", "--enabled='yes' is not a boolean"),
            ("--enabled True", "--enabled='True' is not a boolean"),
            ("--payload '{'", "the payload is not JSON"),
            ("--payload '[1]'", "the payload must be a JSON object"),
            ("--timezone Europe/Berlim", "Europe/Berlim"),
            ("--job-type", "--job-type needs a value"),
        ],
    )
    def test_wrong_values_are_refused_before_any_request(self, nowhere: Rota, words: str, said: str) -> None:
        answer = say(nowhere, f"{CREATE} {words}")
        assert (answer.code, said in answer.err) == (2, True), answer.err
        if "timezone" not in words and "job-type" not in words:
            answer = say(nowhere, f"schedules update 01980000-0000-7000-8000-000000000001 {words}")
            assert (answer.code, said in answer.err) == (2, True), answer.err


def test_every_option_in_the_table_stands_for_a_parameter() -> None:
    nouns = {"jobs": jobs.app, "schedules": schedules.app}
    for noun, names in OTHER_OPTIONS.items():
        group: Any = typer.main.get_command(nouns[noun])
        params = [each for command in group.commands.values() for each in command.params]
        assert {each.name for each in params} >= set(names.values())
        assert {option for each in params for option in each.opts}.isdisjoint(names)  # they would never be reached
